"""What rows that stay together, and parts of sources, need of a stream that reads them."""

from __future__ import annotations

from collections.abc import Iterator

from overlord._src.config.chat import branches_of
from overlord._src.config.columns import base_name
from overlord._src.config.job_models import JobFields
from overlord._src.config.source_models import SourceConfig
from overlord._src.config.streams import ResolvedStream
from overlord._src.errors import KeyPath, Problem


def group_problems(config: JobFields, stream: ResolvedStream) -> Iterator[Problem]:
    """What is wrong with the groups and parts of the sources that a stream reads."""
    for name in dict.fromkeys(base_name(mixed) for mixed in stream.over_length):
        source = config.sources.get(name)
        if source is None:
            continue
        path: KeyPath = ("sources", name)
        if source.split is not None and source.split.shares:
            yield from _part_problems(source, stream, (*path, "split"))
        declared = source.group_by is not None or source.group_rows is not None
        if declared and branches_of(source) > 1:
            key = "group_by" if source.group_by is not None else "group_rows"
            yield Problem((*path, key), "the two documents of a row stay together already")
        elif declared or branches_of(source) > 1:
            yield from _groups(config, name, stream)


def _part_problems(
    source: SourceConfig, stream: ResolvedStream, path: KeyPath
) -> Iterator[Problem]:
    shares = source.split.shares if source.split is not None else {}
    if shares.get(stream.part, 0) <= 0:
        yield Problem(
            path,
            f"has no rows for the stream {stream.name}, which reads the part {stream.part}",
            allowed=", ".join(name for name, share in shares.items() if share > 0),
            advice=f"add it here, or say streams.{stream.name}.part",
        )


def _groups(config: JobFields, name: str, stream: ResolvedStream) -> Iterator[Problem]:
    source, path = config.sources[name], ("sources", name)
    key: KeyPath = (*path, "group_by" if source.group_by is not None else "group_rows")
    if branches_of(source) > 1:
        key = (*path, "chat", "format")
    if source.group_by is not None and source.group_rows is not None:
        yield Problem(path, "group_by and group_rows are both given", advice="give one")
    if source.group_by is not None and source.group_by not in source.metadata:
        yield Problem(
            key,
            "not a metadata column of the source",
            source.group_by,
            ", ".join(source.metadata) or "none is declared",
            f"add `metadata: [{source.group_by}]`",
        )
    if source.split is not None and source.split.by is not None:
        yield Problem(key, "a source whose rows stay together is not split by a column")
    if source.shuffle == "full":
        yield Problem((*path, "shuffle"), "tears rows that stay together", "full", "window, none")
    over_length = stream.over_length.get(name, "drop")
    if over_length != "drop":
        yield Problem(
            (*path, "over_length"),
            "rows that stay together are never cut: a group longer than context is dropped whole",
            over_length,
            "drop",
            "add `over_length: drop`",
        )
    if stream.packing.method != "best_fit":
        yield Problem(
            (*stream.path_of("packing"), "method"),
            "does not keep rows together in one sequence",
            stream.packing.method,
            "best_fit",
        )
    if config.strategy is not None and config.strategy.hybrid is not None:
        yield Problem(key, "`strategy.hybrid` cuts sequences, and these rows stay together")
