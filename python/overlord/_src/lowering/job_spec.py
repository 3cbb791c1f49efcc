"""A checked config in the engine's own values: sources with files, stream, delivery, runtime."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from overlord._src.config.chat import branches_of
from overlord._src.config.checks import BYTES, format_of, source_format
from overlord._src.config.columns import base_name, cost_problem, part_range, sub_source_range
from overlord._src.config.energon import ENERGON
from overlord._src.config.job_models import DeliveryConfig
from overlord._src.config.media import media_columns
from overlord._src.config.mixture_models import FeedbackConfig, MixtureConfig, rows_of
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.runtime_models import RuntimeConfig
from overlord._src.config.source_models import SourceConfig
from overlord._src.config.strategy_models import StrategyConfig
from overlord._src.config.streams import TRAIN, ResolvedStream
from overlord._src.config.weights import fixed_point, share_to_fixed
from overlord._src.errors import ConfigError
from overlord._src.functions.readers import lower_reader, reader_uri
from overlord._src.functions.transforms import (
    lower_batch_transform,
    lower_media_function,
    lower_transform,
)
from overlord._src.lowering.chat import chat_settings, lower_schema
from overlord._src.lowering.layout_files import energon_tars, is_folder, mds_folders
from overlord._src.lowering.strategy import cost_data, lower_strategy, python_cost
from overlord._src.lowering.tokenizer_ids import tokenizer_ids
from overlord._src.mesh import Mesh, is_data_axis
from overlord._src.native import core
from overlord._src.scale.sizes_file import most_slots, sized
from overlord._workers.tokenizer_worker import tokenizer_digest


def lower_mesh(mesh: Mesh) -> core.Mesh:
    """The mesh with its axes, slowest first."""
    return core.Mesh(list(mesh.axes))


def absolute_uri(base: Path, text: str) -> str:
    """A path under the config's folder; URIs and absolute paths stay as they are."""
    if "://" in text or os.path.isabs(text):
        return text
    return str(base / text)


def file_pattern(base: Path, text: str) -> str:
    """The same for a pattern of files: braces of the folder's own name are no pattern."""
    return absolute_uri(Path(re.sub(r"([{}])", r"\\\1", str(base))), text)


def list_source_files(loaded: LoadedConfig, name: str) -> list[str]:
    """The files of a source, sorted. Refuses patterns that match nothing and files listed twice."""
    source = loaded.config.sources[name]
    if source.reader is not None:
        return [reader_uri(loaded, name)]
    found: dict[str, int] = {}
    for index, pattern in enumerate(source.files):
        path = ("sources", name, "files", index)
        try:
            files = _listed(file_pattern(loaded.base, pattern), source)
        except (core.NotFoundError, core.InvalidArgumentError) as error:
            raise loaded.refused(
                path,
                str(error),
                pattern,
                "a pattern that matches data files only",
                f"paths are relative to {loaded.base}",
            ) from None
        except ConfigError as error:
            raise loaded.refuse(
                problem.under(*(path[:2] if problem.path else path)) for problem in error.problems
            ) from None
        strange = [file for file in files if source.format is None and format_of(file) is None]
        if strange:
            raise loaded.refused(
                path,
                f"matches {strange[0]}, whose suffix tells no format",
                pattern,
                advice="name the suffix in the pattern, or add `format:`",
            )
        for file in files:
            if file in found and not source.allow_duplicates:
                raise loaded.refused(
                    path,
                    f"{file} is listed twice",
                    pattern,
                    advice="list it once, or set allow_duplicates: true to read it twice",
                )
            found[file] = found.get(file, 0) + 1
    return sorted(file for file, count in found.items() for _ in range(count))


def lacks_files(loaded: LoadedConfig, name: str) -> bool:
    """Whether no pattern of a source matches anything on this host."""
    source = loaded.config.sources[name]
    if source.reader is not None:
        return False
    for pattern in source.files:
        with contextlib.suppress(core.NotFoundError, core.InvalidArgumentError, ConfigError):
            listed = _listed(file_pattern(loaded.base, pattern), source)
            if any("://" in uri or os.path.exists(uri) for uri in listed):
                return False
    return True


def _listed(uri: str, source: SourceConfig) -> list[str]:
    """The files of a pattern. Folders of Arrow, MDS and media stand for the files in them."""
    if source_format(source) == "folder":
        return [uri.rstrip("/") + "/"]
    if source.format == ENERGON:
        return energon_tars(uri, source.split_part or TRAIN)
    if source_format(source) == "mds":
        return mds_folders(uri)
    if source_format(source) == "arrow":
        names = core.expand_braces(uri)
        if all(map(is_folder, names)):
            return [name.rstrip("/") + "/" for name in names]
    return core.list_files(uri)


def check_shared_files(loaded: LoadedConfig, files: dict[str, list[str]]) -> None:
    """Refuse a file that two sources list, unless the second allows it."""
    owner: dict[str, str] = {}
    for name, listed in files.items():
        for file in dict.fromkeys(listed):
            other = owner.setdefault(os.path.realpath(file) if "://" not in file else file, name)
            if other != name and not loaded.config.sources[name].allow_duplicates:
                raise loaded.refused(
                    ("sources", name, "files"),
                    f"{file} already belongs to source {other}",
                    advice=f"remove one, or set sources.{name}.allow_duplicates: true",
                )


def lower_tokenizer(loaded: LoadedConfig, name: str) -> dict[str, Any] | None:
    """How a source's text becomes tokens; the digest stands for the tokenizer's content."""
    source = loaded.config.sources[base_name(name)]
    if source.tokenizer is None:
        return None
    declared = loaded.config.tokenizers.get(source.tokenizer)
    if declared is None or declared.kind == BYTES:
        plain = {"path": "", "add_special_tokens": False, "chat": ""}
        return {"kind": BYTES, "digest": BYTES, **plain}
    path = Path(absolute_uri(loaded.base, declared.path or ""))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise loaded.refused(
            ("tokenizers", source.tokenizer, "path"),
            f"cannot be read: {error.strerror}",
            str(path),
            "a tokenizer.json",
        ) from None
    _check_vocabulary(loaded, base_name(name), content)
    chat = chat_settings(loaded, name, path)
    return {
        "kind": "huggingface",
        "path": str(path),
        "digest": tokenizer_digest(content, declared.add_special_tokens, chat),
        "add_special_tokens": declared.add_special_tokens,
        "chat": chat,
    }


def _check_vocabulary(loaded: LoadedConfig, name: str, content: bytes) -> None:
    """Refuse a tokenizer with ids outside of the vocabulary, where the first ends the run."""
    source, ids = loaded.config.sources[name], tokenizer_ids(content)
    if ids > loaded.config.vocabulary and source.bad_rows_allowed == 0:
        raise loaded.refused(
            ("vocabulary",),
            f"tokenizer {source.tokenizer} has ids up to {ids - 1}, added tokens included, and "
            f"the first row of source {name} with one outside ends the run",
            loaded.config.vocabulary,
            f"{ids} or more",
            "raise it to the rows of the model's embedding; if such ids are rare, allow the "
            f"rows that have them: sources.{name}.bad_rows_allowed",
        )


def _values(native: Any, *declared: Any, **own: Any) -> dict[str, Any]:
    """All fields of a native struct: `own` by name, others as they are declared by that name."""
    out = {}
    for name in native.FIELDS:
        holder = next((item for item in declared if hasattr(item, name)), None)
        if name not in own and holder is None:
            raise AttributeError(f"{native.__name__}.{name}: nothing declares it")
        out[name] = own[name] if name in own else getattr(holder, name)
    return out


def loaders_of(loaded: LoadedConfig, name: str) -> int:
    """Slots of a source."""
    uniform = loaded.config.runtime.ablation.uniform_loaders
    return uniform or sized(loaded, name, "loaders")


def most_loaders(loaded: LoadedConfig) -> dict[str, int]:
    """To how many slots sources may grow, by the name in the config."""
    return {
        name: max(loaders_of(loaded, name), most_slots(loaded, name))
        for name in loaded.config.sources
    }


def workers_of(loaded: LoadedConfig, name: str) -> int:
    """Blocks that a slot of a source has in work at once."""
    return sized(loaded, name, "workers")


def lower_source(
    loaded: LoadedConfig,
    stream: ResolvedStream,
    name: str,
    files: Sequence[str],
    *,
    files_here: bool = True,
) -> core.Source:
    """One source, or a sub-source, as a stream reads it."""
    config = loaded.config.sources[base_name(name)]
    schema, tokenizer = lower_schema(config), lower_tokenizer(loaded, name)
    rows, part = sub_source_range(name, config), part_range(config, stream.part)
    in_bytes = stream.mixture.unit == "bytes"
    values = _values(
        core.Source,
        config,
        name=name,
        format=source_format(config) or "",
        files=list(files),
        text_column=_text_column(config, schema),
        token_column="" if config.reader is not None else config.tokens or "",
        mask_column=config.mask or "",
        metadata_columns=sorted(config.metadata),
        filter=None if rows is None else dict(zip(("column", "least", "most"), rows, strict=True)),
        media=_lower_media(loaded, base_name(name), config),
        tokenizer=tokenizer,
        vocabulary=loaded.config.vocabulary,
        at_end=stream.at_end[name],
        over_length=stream.over_length[name],
        limits={
            "max_document_bytes": config.limits.max_document,
            "max_block_bytes": config.limits.max_block,
            "max_expansion": config.limits.max_expansion,
            "max_media_bytes": config.limits.max_media,
        },
        loaders=loaders_of(loaded, name),
        workers=workers_of(loaded, name),
        most_loaders=most_slots(loaded, name),
        measured=None,  # told when a run starts
        files_here=files_here,
        count_bytes=in_bytes and tokenizer is not None and tokenizer["kind"] == "huggingface",
        transform=lower_reader(loaded, name) or lower_transform(loaded, name),
        schema=schema,
        part=None if part is None else dict(zip(("least", "most"), part, strict=True)),
        raw=_lower_raw(config),
        groups=lower_groups(config),
    )
    return core.Source(values)


def _lower_raw(config: SourceConfig) -> dict[str, Any]:
    """How the tokens of files without columns lie in them."""
    cut, value = None, 0
    if config.document is not None:
        told = config.document.model_dump(exclude_none=True)
        [(key, value)] = told.items()
        cut = {"eod": "end", "bos": "begin", "length": "length"}[key]
    element = config.dtype and config.dtype.replace("uint", "u").replace("int", "i")
    return {"element": element, "cut": cut, "value": value}


def _text_column(config: SourceConfig, schema: dict[str, Any] | None) -> str:
    """A reader's rows are texts to the engine, which the reader makes texts or tokens of."""
    if config.reader is not None:
        return config.text or config.tokens or ""
    return config.text or (schema["columns"][0] if schema else "")


def lower_groups(config: SourceConfig) -> dict[str, Any]:
    """Rows that stay together: declared ones, or the documents of one row of a file."""
    branches = branches_of(config)
    rows = config.group_rows or (branches if branches > 1 else 0)
    return {"rows": rows, "column": config.group_by or ""}


def _lower_media(loaded: LoadedConfig, name: str, config: SourceConfig) -> list[dict[str, Any]]:
    fields = []
    for field, declared in sorted(config.media.items()):
        use = None
        if declared.transform is not None:
            try:
                use = core.media_use(declared.kind, declared.transform, declared.from_)
            except core.InvalidArgumentError as error:
                path = ("sources", name, "media", field, "transform")
                raise loaded.refused(path, str(error), declared.transform) from None
            use["function"] = lower_media_function(loaded, name, field)
            if (tokens := declared.tokens) is not None:
                use |= {
                    "pad": tokens.pad,
                    "before": tokens.before,
                    "after": tokens.after,
                    "pads": tokens.count or 0,
                    "units_per_pad": tokens.every or 0,
                    "in_text": tokens.place == "text",
                }
        root = None if declared.root is None else media_root(loaded.base, declared.root)
        fields.append(
            {
                "name": field,
                "from": declared.from_,
                "use": use,
                "many": declared.many,
                "root": root or "",
                "start": declared.start or "",
                "end": declared.end or "",
            }
        )
    return fields


def media_root(base: Path, declared: str) -> str:
    """What paths of media are relative to: a tar, or a folder, which ends with a slash."""
    uri = absolute_uri(base, declared)
    return uri if uri.endswith((".tar", "/")) else uri + "/"


def lower_stream(
    loaded: LoadedConfig, stream: ResolvedStream, sources: Sequence[core.Source]
) -> core.JobSpec:
    """Everything that decides what the steps of a stream hold. `sources` are sorted by name."""
    given = (media_columns(loaded.config.sources[base_name(source.name)]) for source in sources)
    columns = {
        column
        for source, media in zip(sources, given, strict=True)
        for column in (*source.metadata_columns, *media)
    }
    bins, *later = stream.bins_by_step.items()
    values = _values(
        core.JobSpec,
        stream,
        loaded.config,
        bins=bins[1],
        later_bins=[{"first_step": step, "bins": number} for step, number in later],
        name=loaded.config.job,
        stream=stream.name,
        max_steps=stream.steps or 0,
        packing={
            "method": stream.packing.method,
            "slack_permille": round(stream.packing.slack * 1000),
            "max_delay_steps": stream.packing.max_delay,
        },
        window=_lower_window(loaded),
        mixture=_lower_mixture(stream, [source.name for source in sources]),
        strategy=_lower_strategy(loaded),
        sources=list(sources),
        columns=sorted(columns),
        batch_transform=lower_batch_transform(loaded),
    )
    return core.JobSpec(values)


def _lower_strategy(loaded: LoadedConfig) -> core.Strategy:
    config = loaded.config.strategy
    if config is not None and config.cost is not None and python_cost(config.cost) is None:
        _check_cost(loaded, cost_data(config.cost), ("strategy", "cost"))
    return lower_strategy(config)


def _check_cost(loaded: LoadedConfig, data: dict[str, Any], path: tuple[str, ...]) -> None:
    problem = cost_problem(loaded.config, data, path)
    if problem is not None:
        raise loaded.refuse(problem)


def _lower_window(loaded: LoadedConfig) -> dict[str, Any] | None:
    config = loaded.config.window
    if config.steps == 1:
        return None
    if config.cost is None:
        raise loaded.refused(
            ("window", "cost"),
            "a window needs a cost",
            advice="name a preset, like llama-12b, or give a cost model",
        )
    data = cost_data(config.cost, ("window", "cost"))
    _check_cost(loaded, data, ("window", "cost"))
    return {**config.model_dump(), "cost": data}


def _lower_mixture(stream: ResolvedStream, names: Sequence[str]) -> dict[str, Any]:
    mixture = stream.mixture
    by_source = mixture.epoch is not None and mixture.epoch.source is not None
    passes_of = [mixture.max_passes.get(name, 0) for name in names] if mixture.max_passes else []
    stages: list[dict[str, Any]] = []
    for declared in mixture.stage_list():
        first = declared.steps[0]
        if declared.start is not None and (not stages or stages[-1]["first_step"] < first):
            stages.append(_lower_stage(first, [declared.start], names, mixture.temperature))
        stage = _lower_stage(first, rows_of(declared), names, mixture.temperature)
        if declared.transition is not None:
            stage["ramp"] = declared.transition
            stage["ramp_steps"] = declared.transition_steps or 0
        stages.append(stage)
    return {
        "unit": mixture.unit,
        "quota": mixture.quota,
        "stages": stages,
        "version": None,
        "grain": mixture.grain,
        "epoch_steps": mixture.epoch.steps if mixture.epoch and not by_source else None,
        "epoch_source": names.index(mixture.epoch.source)
        if mixture.epoch and mixture.epoch.source is not None
        else None,
        "max_passes": [int(passes) for passes in passes_of],
        "part_passes": [share_to_fixed(passes % 1) for passes in passes_of]
        if any(passes % 1 for passes in passes_of)
        else [],
        "controller": _lower_controller(mixture),
    }


def _lower_stage(
    first: int,
    rows: Sequence[Mapping[str, float]],
    names: Sequence[str],
    temperature: float | None,
) -> dict[str, Any]:
    fixed = [fixed_point(row, temperature) for row in rows]
    weights = [row.get(name, 0) for row in fixed for name in names]
    return {"first_step": first, "weights": weights, "ramp": None, "ramp_steps": None}


def _lower_controller(mixture: MixtureConfig) -> dict[str, Any] | None:
    schedule = mixture.schedule
    if schedule is None or not schedule.metric_driven:
        return None
    shares = ("smoothing", "history_rate", "follow_rate", "history_exponent", "floor")
    return {
        "kind": schedule.kind,
        "delay": (mixture.feedback or FeedbackConfig()).delay,
        **{key: share_to_fixed(getattr(schedule, key)) for key in shares},
        "fit_every": schedule.fit_every,
        "fit_after": schedule.fit_after,
        "rule_version": schedule.version or 0,
    }


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
    broadcast = [*config.broadcast, *(strategy.broadcast if strategy else [])]
    values = _values(
        core.DeliverySpec,
        stream,
        config,
        slicing=config.cp_slicing,
        token_type=config.token_dtype,
        weight_type=config.loss_dtype,
        broadcast_axes=list(dict.fromkeys(broadcast)),
    )
    return core.DeliverySpec(values)


def lower_runtime(
    config: RuntimeConfig,
    *,
    threads: int | None = None,
    prefetch: int | None = None,
    hash_batches: bool = False,
    reporters: Sequence[int] = (0,),
) -> core.RuntimeOptions:
    """Sizes of the running engine; arguments of a call win over the config."""
    values = _values(
        core.RuntimeOptions,
        config,
        threads=threads if threads is not None else config.threads,
        prefetch_steps=prefetch if prefetch is not None else config.prefetch,
        payload_budget_bytes=config.payload_budget,
        constructor_budget_bytes=config.constructor_budget,
        private_copy_limit_bytes=config.private_copy_limit,
        alarm_ms=round(config.alarm_seconds * 1000),
        hash_batches=hash_batches,
        reporters=list(reporters),
        one_planner=None,  # known to the engine
        scaling={
            "policy": config.scaling.policy,
            "advise_only": config.scaling.advise_only,
            "interval_ms": round(config.scaling.interval_seconds * 1000),
        },
    )
    return core.RuntimeOptions(values)
