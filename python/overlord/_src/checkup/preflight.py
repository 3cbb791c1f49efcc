"""Preflight: what the indexes of a stream know, held against its config before the first step.

Reads indexes alone, never data. What a run is certain to fail of is refused at its start, with the
error that would end it; what only may happen, and what surprises, is told once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlord._src.checkup.finding import Finding
from overlord._src.config.columns import base_name, sub_source_range
from overlord._src.config.mixture_models import rows_of
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.streams import TRAIN, ResolvedStream, resolve_stream
from overlord._src.index.indexing import check_indexed_files, index_path
from overlord._src.lowering.tokenizer_ids import tokenizer_ids
from overlord._src.native import core

if TYPE_CHECKING:
    from overlord._src.job.open_stream import OpenStream

_SHOWN_ROWS = 3
_LARGE_SHARE = 0.5  # of a step: from here on one document is what the step is made of
_LOST_SHARE = 0.01  # of a source's tokens: from here on it is worth a warning
_PLANNED_SEGMENTS = 1_000_000  # about so many are planned ahead to see whether a run fails


def check_stream(loaded: LoadedConfig, opened: OpenStream, *, tell: bool = True) -> OpenStream:
    """Refuse a stream that is certain to meet too many bad rows; warn of the rest, with `tell`."""
    findings = [*stream_findings(loaded, opened.resolved, opened.sources, opened.infos)]
    budgets = [one for one in findings if one.what.startswith("bad rows")]
    for finding in budgets:
        if finding.verdict == "fail":
            raise core.BudgetExceededError(finding.detail)
    if budgets and _ends_before(opened, budgets[0]):
        findings = [one for one in findings if one not in budgets]
    for finding in findings if tell else ():
        if finding.verdict != "ok":
            warnings.warn(f"overlord: {finding.detail}", UserWarning, stacklevel=5)
    return opened


def stream_findings(
    loaded: LoadedConfig,
    stream: ResolvedStream,
    sources: Sequence[core.Source],
    infos: Sequence[Mapping[str, Any]],
) -> Iterator[Finding]:
    """What is worth knowing of each source; the verdict `fail` where a run is certain to end."""
    for source, info in zip(sources, infos, strict=True):
        yield from _vocabulary(source)
        yield from _bad_rows(loaded, stream, source, info)
        yield from _lengths(loaded, stream, source)


def index_findings(loaded: LoadedConfig) -> Iterator[Finding]:
    """The same of the training stream, from the indexes that are there; for `overlord doctor`."""
    from overlord._src.lowering.job_spec import list_source_files, lower_source

    stream = resolve_stream(loaded.config, TRAIN)
    for name in stream.mixture.source_names():
        what = f"index {name}"
        try:
            source = lower_source(loaded, stream, name, list_source_files(loaded, base_name(name)))
            if not index_path(loaded, source).exists():
                yield Finding("ok", what, "not there yet; `overlord index` builds it")
                continue
            info = check_indexed_files(loaded, source)
        except (ValueError, RuntimeError, OSError) as error:
            yield Finding("fail", what, str(error))
            continue
        known = "lengths are known" if info["has_lengths"] else "no lengths"
        yield Finding("ok", what, f"{info['rows']} rows, {known}")
        yield from stream_findings(loaded, stream, [source], [info])


def _vocabulary(source: core.Source) -> Iterator[Finding]:
    """A tokenizer with ids outside of the vocabulary; without a budget it is refused earlier."""
    path = source.tokenizer["path"]
    ids = tokenizer_ids(Path(path).read_bytes()) if path else 0
    if ids > source.vocabulary:
        yield Finding(
            "warn",
            f"vocabulary of {source.name}",
            f"source {source.name}: its tokenizer has ids up to {ids - 1}, vocabulary is "
            f"{source.vocabulary}; rows with others are bad rows, {source.bad_rows_allowed} of "
            "which are allowed a pass; raise vocabulary to the rows of the model's embedding",
        )


def _bad_rows(
    loaded: LoadedConfig, stream: ResolvedStream, source: core.Source, info: Mapping[str, Any]
) -> Iterator[Finding]:
    """Bad rows that the index knows, where they are more than a pass may have."""
    config = loaded.config.sources[base_name(source.name)]
    part = sub_source_range(source.name, config)
    if part is not None and part[1] > 0:
        return  # metadata of a bad row is 0: the sub-source with 0 has it
    empty = set(info["empty_rows"])
    skipped = empty if config.empty == "skip" else set()
    rows = [(row, reason) for row, reason in info["bad_rows"] if row not in skipped]
    if len(rows) <= config.bad_rows_allowed:
        return
    key = f"sources.{base_name(source.name)}"
    listed = "; ".join(f"row {row}: {reason}" for row, reason in rows[:_SHOWN_ROWS])
    more = f"; and {len(rows) - _SHOWN_ROWS} more" if len(rows) > _SHOWN_ROWS else ""
    share = (config.bad_rows_allowed + 1) / (len(rows) + 1)
    certain = _reads_all(stream, source.name)
    held = sum(row in empty for row, _ in rows)
    advice = f"set {key}.empty: skip for the {held} empty ones, " if held else ""
    when = "the run reads all of it" if certain else f"met after about {share:.0%} of a pass"
    yield Finding(
        "fail" if certain else "warn",
        f"bad rows of {source.name}",
        f"source {source.name}: its index knows {len(rows)} bad rows of {info['rows']}, and "
        f"{key}.bad_rows_allowed is {config.bad_rows_allowed} a pass; {when}: {listed}{more}; "
        f"{advice}set {key}.bad_rows_allowed: {len(rows)}, or repair the data",
    )


def _reads_all(stream: ResolvedStream, name: str) -> bool:
    """Whether the stream as declared goes on until every row of a source was read."""
    if stream.steps is not None or stream.mixture.follows_rule:
        return False
    last = rows_of(stream.mixture.stage_list()[-1])
    asked = {source for weights in last for source, weight in weights.items() if weight > 0}
    others_stop = any(stream.at_end[other] == "stop" for other in asked - {name})
    return name in asked and not others_stop


def _ends_before(opened: OpenStream, found: Finding) -> bool:
    """Plan the stream ahead: True where it ends before its bad rows do harm, else raise them.

    False where nobody can tell: plans need data or reports, or too many of them.
    """
    counted = all(info["has_lengths"] for info in opened.infos)
    if not counted or opened.resolved.mixture.metric_driven:
        return False
    cursor, segments = opened.cursor(place=False), 0
    try:
        while segments < _PLANNED_SEGMENTS:
            plan = cursor.next()
            if plan is None:
                return True
            segments += max(1, sum(plan.delays))
    except core.BudgetExceededError as error:
        raise core.BudgetExceededError(f"{found.detail}; planned ahead: {error}") from None
    return False


def _lengths(
    loaded: LoadedConfig, stream: ResolvedStream, source: core.Source
) -> Iterator[Finding]:
    """Documents longer than a sequence or a large part of a step, and what becomes of them."""
    if loaded.config.sources[base_name(source.name)].media:
        return  # lengths in the index are those of the text alone
    step = stream.bins * stream.context
    large = max(stream.context, int(step * _LARGE_SHARE))
    limits = [stream.context, large, step]
    path = str(index_path(loaded, source))
    known = core.length_counts(path, source, limits)
    if known is None or known["longest"] <= stream.context:
        return
    policy = stream.over_length[source.name]
    long, half, whole = known["above"]
    if policy == "split":
        yield _split(source.name, known, half, whole, step)
    else:
        yield _cut(source.name, known, long, stream.context, policy)


def _split(
    name: str, known: Mapping[str, Any], half: tuple[int, int], whole: tuple[int, int], step: int
) -> Finding:
    what = f"long documents of {name}"
    longest = f"the longest has {known['longest']} tokens, {known['longest'] / step:.2f} of a step"
    if half[0] == 0:
        return Finding("ok", what, f"source {name}: {longest}")
    share = half[1] / known["tokens"]
    return Finding(
        "warn",
        what,
        f"source {name}: {half[0]} of {known['documents']} documents fill more than half a step "
        f"({whole[0]} more than a whole one; {share:.1%} of its tokens); {longest} of {step} (bins "
        "x context); over_length: split deals the pieces of a document in a row, so such steps "
        f"hold little else; raise bins, or set sources.{base_name(name)}.over_length to truncate "
        "or drop",
    )


def _cut(
    name: str, known: Mapping[str, Any], long: tuple[int, int], context: int, policy: str
) -> Finding:
    documents, tokens = long
    lost = tokens - documents * context if policy == "truncate" else tokens
    share = lost / known["tokens"]
    return Finding(
        "warn" if share >= _LOST_SHARE else "ok",
        f"long documents of {name}",
        f"source {name}: {documents} of {known['documents']} documents are longer than the context "
        f"of {context}, the longest has {known['longest']} tokens; over_length: {policy} loses "
        f"{lost} tokens of them, {share:.1%} of the source; raise context, or set "
        f"sources.{base_name(name)}.over_length: split",
    )
