"""`@ol.source`: what makes a class, or two functions, the reader of a source.

Light on purpose: every worker process imports it with the user's module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overlord._src.functions.transform_function import checked_version


@dataclass(frozen=True)
class SourceReader:
    """A reader of rows by their numbers, with what stands for it in the digest of a source."""

    make: Callable[..., Any]  # with the config's options: what has `rows` and `read`
    version: str
    module: str
    name: str

    @property
    def place(self) -> str:
        """Where another process would find it, as module:name."""
        return f"{self.module}:{self.name}"

    def open(self, options: Mapping[str, Any]) -> Any:
        """What reads the rows."""
        return self.make(**options)


class _Functions:
    """A pair of functions as a reader."""

    def __init__(
        self, rows: Callable[[], int], read: Callable[[list[int]], Sequence[Any]]
    ) -> None:
        self.rows, self.read = rows, read


def source(
    *, version: int | str, rows: Callable[[], int] | None = None
) -> Callable[[Any], SourceReader]:
    """Makes a class the reader of a source: `sources.NAME.reader: module:Class`.

    An object of it, made with the config's `options` as keywords, has `rows()`, how many rows there
    are, and `read(rows)`, which is given a list of their numbers, counted from 0, and returns a
    list of the same length: for every row a dict, a text, token ids (a list or an integer array),
    or None to drop it. What it gives for a row must follow from its number alone, whatever was read
    before, and in whatever order. Over a function that reads, `rows=` is the one that counts.
    `version` is part of the stream: change it whenever the rows change.
    """
    text = checked_version(version, "the rows change")

    def decorate(found: Any) -> SourceReader:
        if isinstance(found, type) == (rows is not None) or not callable(found):
            raise TypeError(
                f"{found!r}: a class with `rows` and `read`, or a function that reads, with the "
                "one that counts as rows="
            )
        if isinstance(found, type):
            missing = [name for name in ("rows", "read") if not callable(getattr(found, name, None))]
            if missing:
                raise TypeError(f"{found.__qualname__} has no {' and no '.join(missing)}")
            make: Callable[..., Any] = found
        else:
            assert rows is not None
            make, count = (lambda: _Functions(count, found)), rows
        return SourceReader(make, text, found.__module__, found.__qualname__)

    return decorate
