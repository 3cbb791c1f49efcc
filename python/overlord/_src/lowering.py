"""A checked config in the engine's own values: sources with files, stream, delivery, runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from overlord._src.chat import chat_settings, lower_schema
from overlord._src.config.checks import BYTES, format_of, source_format
from overlord._src.config.columns import base_name, cost_problem, sub_source_range
from overlord._src.config.media import media_columns
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.schedule import rows_of
from overlord._src.config.streams import ResolvedStream
from overlord._src.config.weights import fixed_point, share_to_fixed
from overlord._src.errors import Problem
from overlord._src.mesh import Mesh, is_data_axis
from overlord._src.native import core
from overlord._src.strategy_lowering import cost_data, lower_strategy, python_cost
from overlord._src.tokenizer_ids import tokenizer_ids
from overlord._src.transforms import (
    lower_batch_transform,
    lower_media_function,
    lower_transform,
)
from overlord._tokenizer_worker import tokenizer_digest
from overlord.config import (
    DeliveryConfig,
    FeedbackConfig,
    MixtureConfig,
    RuntimeConfig,
    SourceConfig,
    StrategyConfig,
)


def lower_mesh(mesh: Mesh) -> core.Mesh:
    """The mesh with its axes, slowest first."""
    return core.Mesh(list(mesh.axes))


def absolute_uri(base: Path, text: str) -> str:
    """A path under the config's folder; URIs and absolute paths stay as they are."""
    if "://" in text or os.path.isabs(text):
        return text
    return str(base / text)


def list_source_files(loaded: LoadedConfig, name: str) -> list[str]:
    """The files of a source, sorted. Refuses patterns that match nothing and files listed twice."""
    source = loaded.config.sources[name]
    found: dict[str, int] = {}
    for index, pattern in enumerate(source.files):
        path = ("sources", name, "files", index)
        try:
            files = _listed(absolute_uri(loaded.base, pattern), source)
        except (core.NotFoundError, core.InvalidArgumentError) as error:
            raise loaded.refuse(
                Problem(
                    path,
                    str(error),
                    pattern,
                    "a pattern that matches data files only",
                    f"paths are relative to {loaded.base}",
                )
            ) from None
        strange = [file for file in files if source.format is None and format_of(file) is None]
        if strange:
            raise loaded.refuse(
                Problem(
                    path,
                    f"matches {strange[0]}, whose suffix tells no format",
                    pattern,
                    advice="name the suffix in the pattern, or add `format:`",
                )
            )
        for file in files:
            if file in found and not source.allow_duplicates:
                raise loaded.refuse(
                    Problem(
                        path,
                        f"{file} is listed twice",
                        pattern,
                        advice="list it once, or set allow_duplicates: true to read it twice",
                    )
                )
            found[file] = found.get(file, 0) + 1
    return sorted(file for file, count in found.items() for _ in range(count))


def _listed(uri: str, source: SourceConfig) -> list[str]:
    """The files of a pattern. A directory of Arrow stands for the files that it lists itself."""
    arrow = source_format(source) == "arrow"
    if arrow and (uri.endswith("/") or ("://" not in uri and os.path.isdir(uri))):
        return [uri.rstrip("/") + "/"]
    return core.list_files(uri)


def check_shared_files(loaded: LoadedConfig, files: dict[str, list[str]]) -> None:
    """Refuse a file that two sources list, unless the second allows it."""
    owner: dict[str, str] = {}
    for name, listed in files.items():
        for file in dict.fromkeys(listed):
            other = owner.setdefault(os.path.realpath(file) if "://" not in file else file, name)
            if other != name and not loaded.config.sources[name].allow_duplicates:
                raise loaded.refuse(
                    Problem(
                        ("sources", name, "files"),
                        f"{file} already belongs to source {other}",
                        advice=f"remove one, or set sources.{name}.allow_duplicates: true",
                    )
                )


def lower_tokenizer(loaded: LoadedConfig, name: str) -> core.Tokenizer:
    """How a source's text becomes tokens; the digest stands for the tokenizer's content."""
    source = loaded.config.sources[base_name(name)]
    tokenizer = core.Tokenizer()
    if source.tokenizer is None:
        return tokenizer
    declared = loaded.config.tokenizers.get(source.tokenizer)
    if declared is None or declared.kind == BYTES:
        tokenizer.kind = core.TokenizerKind.bytes
        tokenizer.digest = BYTES
        return tokenizer
    path = Path(absolute_uri(loaded.base, declared.path or ""))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise loaded.refuse(
            Problem(
                ("tokenizers", source.tokenizer, "path"),
                f"cannot be read: {error.strerror}",
                str(path),
                "a tokenizer.json",
            )
        ) from None
    _check_vocabulary(loaded, base_name(name), content)
    tokenizer.kind = core.TokenizerKind.huggingface
    tokenizer.path = str(path)
    tokenizer.chat = chat_settings(loaded, name, path)
    tokenizer.digest = tokenizer_digest(content, declared.add_special_tokens, tokenizer.chat)
    tokenizer.add_special_tokens = declared.add_special_tokens
    return tokenizer


def _check_vocabulary(loaded: LoadedConfig, name: str, content: bytes) -> None:
    """Refuse a tokenizer with ids outside of the vocabulary, where the first ends the run."""
    source, ids = loaded.config.sources[name], tokenizer_ids(content)
    if ids > loaded.config.vocabulary and source.bad_rows_allowed == 0:
        raise loaded.refuse(
            Problem(
                ("vocabulary",),
                f"tokenizer {source.tokenizer} has ids up to {ids - 1}, added tokens included, and "
                f"the first row of source {name} with one outside ends the run",
                loaded.config.vocabulary,
                f"{ids} or more",
                "raise it to the rows of the model's embedding; if such ids are rare, allow the "
                f"rows that have them: sources.{name}.bad_rows_allowed",
            )
        )


def lower_source(
    loaded: LoadedConfig, stream: ResolvedStream, name: str, files: Sequence[str]
) -> core.Source:
    """One source, or a sub-source, as a stream reads it."""
    config = loaded.config.sources[base_name(name)]
    source = core.Source()
    source.name = name
    source.format = getattr(core.Format, source_format(config) or "")
    source.files = list(files)
    source.schema = lower_schema(config)
    source.text_column = config.text or next(iter(source.schema.columns), "")
    source.token_column = config.tokens or ""
    source.mask_column = config.mask or ""
    source.metadata_columns = sorted(config.metadata)
    _lower_media(loaded, base_name(name), config, source)
    rows = sub_source_range(name, config)
    if rows is not None:
        source.set_filter(*rows)
    source.tokenizer = lower_tokenizer(loaded, name)
    source.transform = lower_transform(loaded, name)
    source.bos = config.bos
    source.eod = config.eod
    source.vocabulary = loaded.config.vocabulary
    source.shuffle = getattr(core.Shuffle, config.shuffle)
    source.window_rows = config.window_rows
    source.window_bytes = config.window_bytes
    source.at_end = getattr(core.EndPolicy, stream.at_end[name] or "repeat")
    source.over_length = getattr(core.OverLength, stream.over_length[name])
    source.empty = getattr(core.EmptyRows, config.empty)
    source.bad_rows_allowed = config.bad_rows_allowed
    source.allow_duplicates = config.allow_duplicates
    source.decode_at = getattr(core.DecodeAt, config.decode_at)
    source.limits = _lower_limits(config)
    source.loaders = loaded.config.runtime.ablation.uniform_loaders or config.loaders
    source.workers = config.workers
    source.count_bytes = (
        stream.mixture.unit == "bytes" and source.tokenizer.kind == core.TokenizerKind.huggingface
    )
    return source


def _lower_media(
    loaded: LoadedConfig, name: str, config: SourceConfig, source: core.Source
) -> None:
    for field, declared in sorted(config.media.items()):
        source.add_media(field, declared.from_, declared.many)
        if declared.transform is None:
            continue
        try:
            source.use_media(declared.kind, declared.transform)
        except core.InvalidArgumentError as error:
            raise loaded.refuse(
                Problem(
                    ("sources", name, "media", field, "transform"), str(error), declared.transform
                )
            ) from None
        if (function := lower_media_function(loaded, name, field)) is not None:
            source.call_on_media(function)
        if (tokens := declared.tokens) is not None:
            source.place_media(
                tokens.pad,
                tokens.before,
                tokens.after,
                tokens.count or 0,
                tokens.every or 0,
                in_text=tokens.place == "text",
            )


def _lower_limits(config: SourceConfig) -> core.SourceLimits:
    limits = core.SourceLimits()
    limits.max_document_bytes = config.limits.max_document
    limits.max_block_bytes = config.limits.max_block
    limits.max_expansion = config.limits.max_expansion
    limits.max_media_bytes = config.limits.max_media
    return limits


def lower_stream(
    loaded: LoadedConfig, stream: ResolvedStream, sources: Sequence[core.Source]
) -> core.JobSpec:
    """Everything that decides what the steps of a stream hold. `sources` are sorted by name."""
    spec = core.JobSpec()
    spec.name = loaded.config.job
    spec.stream = stream.name
    spec.seed = stream.seed
    spec.context = stream.context
    spec.bins = stream.bins
    spec.substeps = stream.substeps
    spec.align = stream.align
    spec.pad_token = loaded.config.pad_token
    spec.max_steps = stream.steps or 0
    spec.leftover = getattr(core.Leftover, stream.leftover)
    spec.packing = _lower_packing(stream)
    spec.window = _lower_window(loaded)
    spec.mixture = _lower_mixture(stream, [source.name for source in sources])
    spec.strategy = _lower_strategy(loaded)
    spec.batch_transform = lower_batch_transform(loaded)
    spec.sources = list(sources)
    given = (media_columns(loaded.config.sources[base_name(source.name)]) for source in sources)
    spec.columns = sorted(
        {
            column
            for source, media in zip(sources, given, strict=True)
            for column in (*source.metadata_columns, *media)
        }
    )
    return spec


def _lower_strategy(loaded: LoadedConfig) -> core.Strategy:
    config = loaded.config.strategy
    if config is not None and config.cost is not None and python_cost(config.cost) is None:
        _check_cost(loaded, cost_data(config.cost), ("strategy", "cost"))
    return lower_strategy(config)


def _check_cost(loaded: LoadedConfig, data: dict[str, Any], path: tuple[str, ...]) -> None:
    problem = cost_problem(loaded.config, data, path)
    if problem is not None:
        raise loaded.refuse(problem)


def _lower_packing(stream: ResolvedStream) -> core.PackingSpec:
    packing = core.PackingSpec()
    packing.method = getattr(core.Packing, stream.packing.method)
    packing.slack_permille = round(stream.packing.slack * 1000)
    packing.max_delay_steps = stream.packing.max_delay
    return packing


def _lower_window(loaded: LoadedConfig) -> core.WindowSpec:
    config, window = loaded.config.window, core.WindowSpec()
    if config.steps == 1:
        return window
    if config.cost is None:
        raise loaded.refuse(
            Problem(
                ("window", "cost"),
                "a window needs a cost",
                advice="name a preset, like llama-12b, or give a cost model",
            )
        )
    window.steps, window.max_delay, window.width = config.steps, config.max_delay, config.width
    data = cost_data(config.cost, ("window", "cost"))
    _check_cost(loaded, data, ("window", "cost"))
    window.set_cost(data)
    return window


def _lower_mixture(stream: ResolvedStream, names: Sequence[str]) -> core.Mixture:
    mixture = core.Mixture()
    mixture.unit = getattr(core.MixUnit, stream.mixture.unit)
    mixture.quota = getattr(core.Quota, stream.mixture.quota)
    mixture.grain = getattr(core.Grain, stream.mixture.grain)
    epoch = stream.mixture.epoch
    if epoch is not None and epoch.source is not None:
        mixture.epoch_source = names.index(epoch.source)
    elif epoch is not None:
        mixture.epoch_steps = epoch.steps or 0
    caps = stream.mixture.max_passes
    if caps:
        mixture.max_passes = [caps.get(name, 0) for name in names]
    temperature = stream.mixture.temperature
    stages: list[core.MixtureStage] = []
    for declared in stream.mixture.stage_list():
        first = declared.steps[0]
        if declared.start is not None and (not stages or stages[-1].first_step < first):
            stages.append(_lower_stage(first, [declared.start], names, temperature))
        stage = _lower_stage(first, rows_of(declared), names, temperature)
        if declared.transition is not None:
            stage.ramp = getattr(core.Ramp, declared.transition)
            stage.ramp_steps = declared.transition_steps or 0
        stages.append(stage)
    mixture.stages = stages
    mixture.controller = _lower_controller(stream.mixture)
    return mixture


def _lower_stage(
    first: int,
    rows: Sequence[Mapping[str, float]],
    names: Sequence[str],
    temperature: float | None,
) -> core.MixtureStage:
    stage = core.MixtureStage()
    stage.first_step = first
    fixed = [fixed_point(row, temperature) for row in rows]
    stage.weights = [row.get(name, 0) for row in fixed for name in names]
    return stage


def _lower_controller(mixture: MixtureConfig) -> core.ControllerSpec:
    controller = core.ControllerSpec()
    schedule = mixture.schedule
    if schedule is None or not schedule.metric_driven:
        return controller
    controller.kind = getattr(core.ControllerKind, schedule.kind)
    controller.delay = (mixture.feedback or FeedbackConfig()).delay
    for key in ("smoothing", "history_rate", "follow_rate", "history_exponent", "floor"):
        setattr(controller, key, share_to_fixed(getattr(schedule, key)))
    controller.fit_every = schedule.fit_every
    controller.fit_after = schedule.fit_after
    controller.rule_version = schedule.version or 0
    return controller


def reporting_ranks(mixture: MixtureConfig, mesh: Mesh) -> list[int]:
    """The ranks whose reports make up the feedback of a step."""
    reporters = (mixture.feedback or FeedbackConfig()).reporters
    if reporters == "rank0":
        return [0]
    if reporters == "all":
        return list(range(mesh.world_size))
    if reporters == "last_stage":
        sizes = dict(mesh.axes)
        single = [name for name, _ in mesh.axes if not is_data_axis(name) and name != "cp"]
        return [
            rank
            for rank in range(mesh.world_size)
            if all(
                mesh.coordinate(rank, name) == (sizes[name] - 1 if name == "pp" else 0)
                for name in single
            )
        ]
    return [mesh.check_rank(rank) for rank in sorted(set(reporters))]


def lower_delivery(
    config: DeliveryConfig, stream: ResolvedStream, strategy: StrategyConfig | None = None
) -> core.DeliverySpec:
    """Shapes and places of what ranks receive."""
    delivery = core.DeliverySpec()
    delivery.microbatch_size = stream.microbatch_size
    delivery.fill_empty = stream.fill_empty
    delivery.slicing = getattr(core.Slicing, config.cp_slicing)
    delivery.token_type = getattr(core.TokenType, config.token_dtype)
    delivery.weight_type = getattr(core.WeightType, config.loss_dtype)
    delivery.all_stages = config.all_stages
    broadcast = [*config.broadcast, *(strategy.broadcast if strategy else [])]
    delivery.broadcast_axes = list(dict.fromkeys(broadcast))
    return delivery


def lower_runtime(
    config: RuntimeConfig,
    *,
    threads: int | None = None,
    prefetch: int | None = None,
    hash_batches: bool = False,
    reporters: Sequence[int] = (0,),
) -> core.RuntimeOptions:
    """Sizes of the running engine; arguments of a call win over the config."""
    options = core.RuntimeOptions()
    options.threads = threads if threads is not None else config.threads
    options.io_threads = config.io_threads
    options.prefetch_steps = prefetch if prefetch is not None else config.prefetch
    options.runway = config.runway
    options.payload_budget_bytes = config.payload_budget
    options.constructor_budget_bytes = config.constructor_budget
    options.private_copy_limit_bytes = config.private_copy_limit
    options.open_files = config.open_files
    options.tokenizer_processes = config.tokenizer_processes
    options.alarm_ms = round(config.alarm_seconds * 1000)
    options.hash_batches = hash_batches
    options.reporters = list(reporters)
    return options
