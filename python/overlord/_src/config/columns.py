"""Metadata columns of sources, and the sub-sources that a source is cut into by one of them.

A split source `web` has the sub-sources `web/0`, `web/1`, ...: sources of their own for the mixture
and its schedule, with one index and one set of files between them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from overlord._src.config.job_models import JobFields
from overlord._src.config.layouts import BARE_TOKENS
from overlord._src.config.media import media_columns
from overlord._src.config.source_models import SourceConfig
from overlord._src.errors import Problem

TOKENS = "tokens"  # the column that every sample has
MOST_COLUMNS = 32
MOST_VALUE = 2**32 - 1
_MARK = "/"  # no source's own name has it


def base_name(name: str) -> str:
    """The declared source behind a sub-source; a source that is not split is its own."""
    return name.partition(_MARK)[0]


def sub_source_names(name: str, source: SourceConfig) -> list[str]:
    """What a mixture calls the rows of a source: its name, or those of its sub-sources."""
    if source.split is None or not source.split.edges:
        return [name]
    return [f"{name}{_MARK}{index}" for index in range(len(source.split.edges) + 1)]


def mixable_sources(sources: Mapping[str, SourceConfig]) -> dict[str, SourceConfig]:
    """Every name that a mixture may weigh, with the source it is read from."""
    return {
        mixed: source
        for name, source in sources.items()
        for mixed in sub_source_names(name, source)
    }


def sub_source_range(name: str, source: SourceConfig) -> tuple[str, int, int] | None:
    """The column, least and greatest value of its rows; None for a whole source."""
    _, mark, number = name.partition(_MARK)
    if source.split is None or source.split.by is None or not mark:
        return None
    index, edges = int(number), source.split.edges
    least = edges[index - 1] if index > 0 else 0
    most = edges[index] - 1 if index < len(edges) else MOST_VALUE
    return source.split.by, least, most


def part_range(source: SourceConfig, part: str) -> tuple[int, int] | None:
    """The places of a part in the division of a source's rows; None: it is not divided."""
    shares = source.split.shares if source.split is not None else {}
    if not shares:
        return None
    exact = {name: Fraction(repr(share)) for name, share in shares.items()}
    ends = list(itertools.accumulate(exact.values()))
    edges = [0, *(math.floor(end / ends[-1] * (MOST_VALUE + 1)) for end in ends)]
    index = list(shares).index(part)
    return edges[index], edges[index + 1] - 1


def metadata_problems(source: SourceConfig, kind: str | None) -> Iterator[Problem]:
    """What is wrong with a source's metadata columns and its split."""
    if kind in (*BARE_TOKENS, "folder") and source.metadata:
        yield Problem(
            ("metadata",),
            "a folder of files has no columns"
            if kind == "folder"
            else f"{kind} files have tokens only and no columns",
            source.metadata,
            advice="write the source as Parquet or JSONL, or remove `metadata`",
        )
    if len(source.metadata) > MOST_COLUMNS:
        yield Problem(
            ("metadata",), "too many columns", len(source.metadata), f"up to {MOST_COLUMNS}"
        )
    taken: dict[str, str] = {}
    for key in ("text", "tokens", "mask"):
        value = getattr(source, key)
        if value is not None:
            taken[value] = f"is the column of `{key}`"
    taken[TOKENS] = "every sample has its token count under this name already"
    for index, column in enumerate(source.metadata):
        wrong = taken.get(column)
        if column in source.metadata[:index]:
            wrong = "is listed twice"
        if wrong is not None:
            yield Problem(("metadata", index), wrong, column, advice="remove or rename it")
    yield from _split_problems(source)


def _split_problems(source: SourceConfig) -> Iterator[Problem]:
    if source.split is None:
        return
    by_column = source.split.by is not None or bool(source.split.edges)
    if by_column == bool(source.split.shares):
        yield Problem(
            ("split",),
            "needs either `by` and `edges`, or shares of the rows",
            allowed="{by: COLUMN, edges: [...]}, or {train: 0.99, valid: 0.01}",
        )
    if source.split.shares and not 0 < sum(source.split.shares.values()) < math.inf:
        yield Problem(("split",), "no part has rows", source.split.shares)
    if not by_column:
        return
    if source.split.by is None or not source.split.edges:
        yield Problem(("split",), "`by` and `edges` belong together", advice="give both")
        return
    if source.split.by not in source.metadata:
        yield Problem(
            ("split", "by"),
            "not a metadata column of the source",
            source.split.by,
            ", ".join(source.metadata) or "none is declared",
            f"add `metadata: [{source.split.by}]`",
        )
    edges = source.split.edges
    if any(low >= high for low, high in itertools.pairwise(edges)):
        yield Problem(("split", "edges"), "do not ascend", edges)


def cost_problem(
    config: JobFields, data: Mapping[str, Any], path: tuple[str, ...]
) -> Problem | None:
    """A column that a cost model names and no source declares."""
    declared = sorted(
        {
            column
            for source in config.sources.values()
            for column in (*source.metadata, *media_columns(source))
        }
    )
    for term in data.get("terms", []):
        if term["column"] != TOKENS and term["column"] not in declared:
            return Problem(
                path,
                "names a metadata column that no source declares",
                term["column"],
                ", ".join([TOKENS, *declared]),
                "add it to `sources.NAME.metadata`",
            )
    return None
