"""What a look found: one source's files, its rows and columns, and the config that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from overlord._src.look.media_bytes import kind_of_value, named
from overlord._src.look.places import File

MEGATRON = "Megatron"  # the only layout whose source needs no key beside `files`
FILES_LOOKED_AT = 8  # of one source
ROWS_LOOKED_AT = 64  # of one file
SAMPLE_BYTES = 8 << 20  # of one file, about

Row = dict[str, Any]


class NotReadable(Exception):
    """Why a file is not what its name says."""


@dataclass
class Column:
    """A column or field, as the rows that were looked at have it."""

    name: str
    type: str  # in words
    filled: int  # so many rows have a value
    rows: int  # of so many
    values: list[Any]  # those that are there, in order


@dataclass
class Sample:
    """Rows of some files of a source."""

    rows: list[Row] = field(default_factory=list)
    files: int = 0  # that were looked at
    seen_bytes: int = 0  # of the files' own bytes, that the rows are of
    seen_rows: int = 0  # in these bytes; more than `rows` where only some were kept
    known_rows: int | None = None  # of the files looked at, where their headers tell
    types: dict[str, str] = field(default_factory=dict)  # as the format has them
    faults: list[str] = field(default_factory=list)

    def columns(self) -> list[Column]:
        """All names that a row has, in the order in which they come."""
        names = dict.fromkeys([*self.types, *(name for row in self.rows for name in row)])
        return [self._column(name) for name in names]

    def _column(self, name: str) -> Column:
        values = [row[name] for row in self.rows if row.get(name) is not None]
        kind = self.types.get(name) or type_of(values)
        return Column(name, kind, len(values), len(self.rows), values)


@dataclass
class Found:
    """One source that was found."""

    layout: str  # for people
    name: str  # for the config
    patterns: list[str]  # its `files`
    files: list[File]
    sample: Sample
    source: dict[str, Any] = field(default_factory=dict)  # the config's other keys; empty: none
    media: dict[str, dict[str, Any]] = field(default_factory=dict)  # fields by kind: from, many
    tokenizers: dict[str, Any] = field(default_factory=dict)
    beside: list[File] = field(default_factory=list)  # what belongs to it and holds no rows
    rows: int | None = None
    exact: bool = False  # of `rows`
    notes: list[str] = field(default_factory=list)
    named: list[File] = field(default_factory=list)  # media files that the sample's rows name
    text: str = ""  # the column whose lengths count, by its name in the rows
    lengths: dict[str, tuple[str, list[int]]] = field(default_factory=dict)  # of what: unit, values

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.files)

    @property
    def readable(self) -> bool:
        """Whether a config can read it."""
        return bool(self.source) or self.layout == MEGATRON

    def config(self) -> dict[str, Any]:
        """What goes into a config."""
        files = self.patterns[0] if len(self.patterns) == 1 else self.patterns
        out: dict[str, Any] = {"tokenizers": self.tokenizers} if self.tokenizers else {}
        return {**out, "sources": {self.name: {"files": files, **self.source}}}


def some_of(files: Sequence[File], most: int = FILES_LOOKED_AT) -> list[File]:
    """Some files, from the first to the last."""
    if len(files) <= most:
        return list(files)
    return [files[at * (len(files) - 1) // (most - 1)] for at in range(most)]


def count_rows(found: Found) -> None:
    """How many rows there are: exactly where that is known, else by the bytes of those seen."""
    sample, looked = found.sample, found.sample.files
    if sample.known_rows is not None and looked == len(found.files):
        found.rows, found.exact = sample.known_rows, True
        return
    if sample.known_rows is not None and looked:
        share = sum(file.size for file in some_of(found.files)) / max(1, found.size)
        found.rows = round(sample.known_rows / share) if share else None
    elif sample.seen_rows and sample.seen_bytes:
        found.exact = sample.seen_bytes >= found.size
        found.rows = round(sample.seen_rows * found.size / sample.seen_bytes)


def type_of(values: Sequence[Any]) -> str:
    """What values are, in words; `mixed` where they are of several kinds."""
    kinds = dict.fromkeys(_type_of_one(value) for value in values)
    if not kinds:
        return "empty"
    return next(iter(kinds)) if len(kinds) == 1 else "mixed: " + ", ".join(list(kinds)[:4])


def _type_of_one(value: Any) -> str:
    media = kind_of_value(value)
    if media is not None and not isinstance(value, str):
        return media
    if isinstance(value, Mapping):
        return "{" + ", ".join(str(key) for key in list(value)[:8]) + "}"
    if isinstance(value, list):
        inner = type_of([item for item in value[:64] if item is not None])
        return f"list of {inner}" if inner != "empty" else "list"
    names = {bool: "boolean", int: "integer", float: "number", str: "text", bytes: "bytes"}
    return media or names.get(type(value), type(value).__name__)


def shorten(value: Any, most: int = 160) -> str:
    """A value for a line."""
    kind = kind_of_value(value)
    if isinstance(value, bytes):
        return f"<{kind or 'bytes'}, {len(value):,} bytes>"
    if isinstance(value, Mapping) and kind is not None and value.get("bytes") is not None:
        return f"<{kind}, {len(value['bytes']):,} bytes>"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key}: {shorten(item, most)}" for key, item in value.items())
        text = "{" + inner + "}"
    elif isinstance(value, list):
        text = "[" + ", ".join(shorten(item, most) for item in value[:16])
        text += f", ... ({len(value)})]" if len(value) > 16 else "]"
    else:
        text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def media_of_row(row: Row) -> Iterator[tuple[str, str, bytes]]:
    """Blobs that a row holds itself: their column, what they are, their bytes."""
    for name, value in row.items():
        for item in value if isinstance(value, list) else [value]:
            data = item.get("bytes") if isinstance(item, Mapping) else item
            if isinstance(data, bytes) and (found := named(data)) is not None:
                yield name, found.kind, data
