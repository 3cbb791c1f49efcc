"""What a config means, checked before any file is touched: every finding is a Problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import get_args

from overlord._src.config.bins import bins_by_step
from overlord._src.config.chat import schema_problems
from overlord._src.config.columns import base_name, metadata_problems, mixable_sources
from overlord._src.config.energon import ENERGON
from overlord._src.config.group_checks import group_problems
from overlord._src.config.job_models import JobFields
from overlord._src.config.layouts import (
    BARE_TOKENS,
    MDS_INDEX,
    bare_token_problems,
    layout_problems,
)
from overlord._src.config.media import (
    media_problems,
    media_token_problems,
    whole_document_problems,
)
from overlord._src.config.mixture_models import weight_sets
from overlord._src.config.refusals import did_you_mean
from overlord._src.config.source_models import Format, SourceConfig
from overlord._src.config.streams import TRAIN, ResolvedStream, resolve_stream, stream_names
from overlord._src.config.weights import mixture_problems, range_problems
from overlord._src.config.wire_checks import wire_problems
from overlord._src.errors import Problem, has_url_password, redact, show_path

BYTES = "bytes"  # the built-in tokenizer
READER = "rows"  # the format of a source with a reader of the user's own
LABEL = "label"  # what the text of a folder's rows is called
FORMAT_SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "megatron": (".bin",),
    "webdataset": (".tar", ".tgz"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "tokens": (".npy",),
    "mds": (".mds",),
    "csv": (".csv", ".tsv"),
}
_COMPRESSED = (".gz", ".zst", ".zstd")
_COMPRESSIBLE = ("jsonl", "csv", "webdataset", "mds")


def format_of(file: str) -> str | None:
    """The format that a file's suffix tells, if it tells one; a directory (`/`) is Arrow."""
    if file.endswith("/"):
        return "arrow"
    name = PurePosixPath(file).name.lower()
    if name == MDS_INDEX:
        return "mds"
    for suffix in _COMPRESSED:
        if name.endswith(suffix):
            name = name.removesuffix(suffix)
            inner = [kind for kind in _COMPRESSIBLE if name.endswith(FORMAT_SUFFIXES[kind])]
            return inner[0] if inner else None
    for name_of_format, suffixes in FORMAT_SUFFIXES.items():
        if name.endswith(suffixes):
            return name_of_format
    return None


def source_format(source: SourceConfig) -> str | None:
    """The declared format, or the one that all file patterns agree on; `rows` of a reader."""
    if source.reader is not None:
        return READER
    if source.format is not None:
        return "webdataset" if source.format == ENERGON else source.format
    formats = {format_of(file) for file in source.files}
    return formats.pop() if len(formats) == 1 else None


def find_problems(config: JobFields) -> list[Problem]:
    """Everything that is wrong with the meaning of a config of the right shape."""
    problems: list[Problem] = []
    checks: list[Callable[[JobFields], Iterator[Problem]]] = [
        _token_problems,
        _tokenizer_problems,
        _stream_name_problems,
        _batch_transform_problems,
        wire_problems,
    ]
    for check in checks:
        problems += check(config)
    for name, source in config.sources.items():
        problems += [item.under("sources", name) for item in _source_problems(config, source)]
    seen: set[tuple[object, ...]] = set()
    for name in stream_names(config):
        if name == TRAIN or name in config.streams:
            for problem in _stream_problems(config, resolve_stream(config, name)):
                if (problem.path, problem.wrong) not in seen:
                    seen.add((problem.path, problem.wrong))
                    problems.append(problem)
    return problems


def _token_problems(config: JobFields) -> Iterator[Problem]:
    if config.delivery.token_dtype == "uint16" and config.vocabulary > 65536:
        yield Problem(
            ("delivery", "token_dtype"),
            f"uint16 cannot hold the {config.vocabulary} ids of the vocabulary",
            "uint16",
            "int32 or int64",
            "uint16 needs vocabulary <= 65536",
        )
    if config.pad_token >= config.vocabulary:
        yield _outside_vocabulary(("pad_token",), config.pad_token, config.vocabulary)
    for name, source in config.sources.items():
        for key, value in (("bos", source.bos), ("eod", source.eod)):
            if value is not None and value >= config.vocabulary:
                yield _outside_vocabulary(("sources", name, key), value, config.vocabulary)
        for key in ("bos", "eod"):
            value = getattr(source.document, key, None)
            if value is not None and value >= config.vocabulary:
                path = ("sources", name, "document", key)
                yield _outside_vocabulary(path, value, config.vocabulary)
        yield from media_token_problems(name, source, config.vocabulary)


def _outside_vocabulary(path: tuple[str, ...], value: int, vocabulary: int) -> Problem:
    return Problem(
        path,
        "not in the vocabulary",
        value,
        f"0 to {vocabulary - 1}",
        "raise `vocabulary`, or choose another token",
    )


def _tokenizer_problems(config: JobFields) -> Iterator[Problem]:
    for name, tokenizer in config.tokenizers.items():
        path = ("tokenizers", name)
        if name == BYTES and tokenizer.kind != "bytes":
            yield Problem(
                path,
                "the name bytes means the built-in tokenizer",
                advice="give this one another name",
            )
        if tokenizer.kind == "huggingface" and tokenizer.path is None:
            yield Problem(
                (*path, "path"),
                "required for kind huggingface",
                advice="add `path: tokenizer.json`",
            )
        if tokenizer.kind == "bytes" and (
            tokenizer.path is not None or tokenizer.add_special_tokens
        ):
            yield Problem(
                path, "kind bytes takes neither path nor add_special_tokens", advice="remove them"
            )
        yield from _password_problems((*path, "path"), tokenizer.path)


def _password_problems(path: tuple[str | int, ...], text: str | None) -> Iterator[Problem]:
    if text is None or not has_url_password(text):
        return
    yield Problem(
        path,
        "a password stands inside the URL",
        redact(text),
        "a URL without a password",
        "give credentials to the process by its environment or the store's own settings",
    )


def _stream_name_problems(config: JobFields) -> Iterator[Problem]:
    if TRAIN in config.streams:
        yield Problem(
            ("streams", TRAIN),
            "the top level of the config is the stream train",
            advice="set these fields at the top level",
        )


def _batch_transform_problems(config: JobFields) -> Iterator[Problem]:
    hybrid = config.strategy is not None and config.strategy.hybrid is not None
    if config.batch_transform is None or not hybrid:
        return
    yield Problem(
        ("batch_transform",),
        "a function over microbatches sees whole sequences, and `strategy.hybrid` cuts them",
        config.batch_transform.function,
        advice="use another strategy, or a transform of the source",
    )


def _source_problems(config: JobFields, source: SourceConfig) -> Iterator[Problem]:
    for index, file in enumerate(source.files):
        yield from _password_problems(("files", index), file)
        if not file.strip():
            yield Problem(("files", index), "empty", file, "a path, a pattern or a URI")
    kind = source_format(source)
    if kind == READER:
        yield from _reader_problems(source)
    elif not source.files:
        yield Problem(
            ("files",),
            "required",
            allowed="a path, glob pattern or URI, or a list of them",
            advice="or `reader:`, a Python reader of your own",
        )
    if kind is None and not source.files:
        pass
    elif kind is None:
        formats = sorted({format_of(file) or "?" for file in source.files})
        wrong = (
            "the files are of several formats" if len(formats) > 1 else "the suffix tells no format"
        )
        yield Problem(
            ("files",),
            wrong,
            source.files,
            _suffixes(),
            f"add `format:`, one of {', '.join(get_args(Format))}; a directory that save_to_disk "
            "wrote ends with `/`",
        )
    elif source.chat is not None or source.interleaved is not None:
        yield from schema_problems(config, source, kind)
    elif kind in BARE_TOKENS:
        yield from bare_token_problems(source, kind)
    else:
        yield from _column_problems(source)
    yield from layout_problems(source, kind)
    if kind in ("csv", "folder"):
        yield from _text_only_problems(source, kind)
    yield from metadata_problems(source, kind)
    yield from media_problems(source, kind)
    for name, field in source.media.items():
        yield from _password_problems(("media", name, "root"), field.root)
    known = [*config.tokenizers, BYTES]
    if source.tokenizer is not None and source.tokenizer not in known:
        yield Problem(
            ("tokenizer",),
            "no such tokenizer",
            source.tokenizer,
            ", ".join(dict.fromkeys(known)),
            did_you_mean(source.tokenizer, known) or "declare it under `tokenizers`",
        )


def _suffixes() -> str:
    return "; ".join(f"{name}: {' '.join(suffixes)}" for name, suffixes in FORMAT_SUFFIXES.items())


def _reader_problems(source: SourceConfig) -> Iterator[Problem]:
    """A reader gives the text or the tokens of rows, and nothing beside them."""
    assert source.reader is not None
    yield from (
        Problem(
            (key,),
            "a source with a reader has none",
            advice="remove it: `read` gives the text or the tokens of every row, as they are",
        )
        for key in (
            *("files", "format", "mask", "chat", "interleaved", "metadata", "media"),
            *("transform", "group_by"),
        )
        if getattr(source, key)
    )


def _text_only_problems(source: SourceConfig, kind: str) -> Iterator[Problem]:
    """Formats without lists of numbers; a folder has no columns at all."""
    yield from (
        Problem((key,), f"{kind} files have no lists", value, advice="remove it, or use `text:`")
        for key, value in (("tokens", source.tokens), ("mask", source.mask))
        if value is not None
    )
    if kind == "csv":
        if source.interleaved is not None:
            yield Problem(("interleaved",), "csv files have no lists", advice="remove it")
        return
    yield from (
        Problem(
            ("files", index),
            "a pattern, and rows are found below folders",
            file,
            "the name of a folder",
            "name the folder itself; every folder below it is one of the labels",
        )
        for index, file in enumerate(source.files)
        if "*" in file or "?" in file
    )
    if source.text is not None and source.text != LABEL:
        yield Problem(
            ("text",),
            "rows of a folder have one text, the name of the folder that a file is in",
            source.text,
            LABEL,
        )
    if not source.media:
        yield Problem(
            ("media",),
            "required: which files of the folder are rows",
            allowed="fields with suffixes",
            advice="add `media: {image: [jpg, png]}`",
        )


def _column_problems(source: SourceConfig) -> Iterator[Problem]:
    if source.text is None and source.tokens is None:
        yield Problem(
            (),
            "needs a column: neither text nor tokens is given",
            advice="add `text: COLUMN` and `tokenizer:`, or `tokens: COLUMN`, or `chat:`",
        )
        return
    if source.text is not None and source.tokens is not None:
        yield Problem(
            (),
            "has two columns: both text and tokens are given",
            f"text: {source.text}, tokens: {source.tokens}",
            "one of them",
            "remove the other",
        )
        return
    if source.text is not None and source.tokenizer is None and source.transform is None:
        yield Problem(
            ("tokenizer",),
            "required where `text` is given",
            allowed="a name under `tokenizers`, or bytes",
            advice="add `tokenizer:`",
        )
    if source.tokens is not None and source.transform is not None:
        yield Problem(
            ("transform",),
            "a transform is given text, and this column holds tokens",
            source.transform.function,
            advice="use `text:` instead of `tokens:`, or remove the transform",
        )
    if source.tokens is not None and source.tokenizer is not None:
        yield Problem(
            ("tokenizer",),
            "the column holds tokens already",
            source.tokenizer,
            advice="remove it, or use `text:` instead of `tokens:`",
        )
    if source.text is not None and source.mask is not None:
        yield Problem(
            ("mask",),
            "a loss mask needs ready tokens",
            source.mask,
            advice="use `tokens:` instead of `text:`, or remove the mask",
        )


def _stream_problems(config: JobFields, stream: ResolvedStream) -> Iterator[Problem]:
    read = [name for name in map(base_name, stream.over_length) if config.sources[name].reader]
    if stream.mixture.unit == "bytes" and read:
        yield Problem(
            (*stream.path_of("mixture"), "unit"),
            f"rows of source {read[0]} come out of a reader, and have no bytes before they do",
            "bytes",
            "tokens, samples",
        )
    mixture = mixture_problems(
        stream.mixture,
        mixable_sources(config.sources),
        stream.path_of("mixture"),
        stream.steps,
        stream.substeps,
    )
    yield from [*mixture] or _end_problems(stream)
    if config.window.steps > 1 and stream.mixture.metric_driven:
        yield Problem(
            ("window", "steps"),
            f"the mixture of stream {stream.name} follows the losses of every step, and the "
            "steps of a window are chosen together, before any of them is trained on",
            config.window.steps,
            "1 beside schedules of kind odm, ado and rule",
            f"remove the window, or {show_path((*stream.path_of('mixture'), 'schedule'))}",
        )
    for name in dict.fromkeys(base_name(mixed) for mixed in stream.over_length):
        source = config.sources[name]
        mixed = next(one for one in stream.over_length if base_name(one) == name)
        yield from whole_document_problems(
            name,
            source,
            stream.over_length[mixed],
            stream.packing.method,
            stream.path_of("packing"),
        )
    yield from _bins_problems(stream)
    yield from group_problems(config, stream)
    if stream.leftover == "drop_last" and stream.mixture.metric_driven:
        yield Problem(
            stream.path_of("leftover"),
            "looks a step ahead, where a mixture that follows losses is not known yet",
            stream.leftover,
            "drain, drop",
        )
    if stream.context % stream.align:
        yield Problem(
            stream.path_of("align"),
            f"does not divide context = {stream.context}",
            stream.align,
            f"a divisor of {stream.context}",
            f"nearest contexts: {nearest_multiples(stream.context, stream.align)}",
        )
    slack = stream.packing.slack * 1000
    if abs(slack - round(slack)) > 1e-6:
        yield Problem(
            (*stream.path_of("packing"), "slack"),
            "finer than one thousandth",
            stream.packing.slack,
            "0.000 to 1.000 in steps of 0.001",
        )


def _bins_problems(stream: ResolvedStream) -> Iterator[Problem]:
    declared = stream.declared_bins
    if not isinstance(declared, int):
        ranges = sorted(stage.steps for stage in declared)
        yield from range_problems(ranges, stream.path_of("bins"), stream.steps)
    for bins in dict.fromkeys(bins_by_step(declared).values()):
        if bins % stream.substeps:
            valid = [n for n in range(1, bins + 1) if bins % n == 0]
            yield Problem(
                stream.path_of("substeps"),
                f"does not divide bins = {bins}",
                stream.substeps,
                _some(valid),
                "choose a divisor of bins",
            )


def _end_problems(stream: ResolvedStream) -> Iterator[Problem]:
    weighted = {
        name
        for stage in stream.mixture.stage_list()
        for row in weight_sets(stage)
        for name, weight in row.items()
        if weight > 0
    }
    yield from (
        Problem(
            (*stream.path_of("mixture"), "max_passes", name),
            f"a source with at_end: {stream.at_end.get(name)} has one pass",
            stream.mixture.max_passes[name],
            advice="set its at_end to repeat, or remove the cap",
        )
        for name in sorted(stream.mixture.max_passes)
        if stream.at_end.get(name) not in (None, "repeat") and stream.mixture.max_passes[name] > 1
    )
    yield from (
        Problem(
            ("sources", base_name(name), "at_end"),
            "required: what happens when every row was used is not guessed",
            allowed="repeat, drop, stop",
            advice="set it here, or `at_end:` at the top level for all",
        )
        for name in sorted(weighted)
        if stream.at_end.get(name) is None
    )


def nearest_multiples(value: int, unit: int) -> str:
    """The multiples of `unit` around `value`."""
    below = value // unit * unit
    if below == value:
        return str(value)
    return f"{below} or {below + unit}" if below else str(unit)


def _some(values: list[int]) -> str:
    shown = [str(value) for value in values]
    return ", ".join(shown if len(shown) <= 12 else [*shown[:11], "...", shown[-1]])
