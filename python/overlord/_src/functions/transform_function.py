"""`@ol.transform`: what makes a function the transform of a source.

Light on purpose: every worker process imports it with the user's module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

LANES = ("process", "thread")
ROWS = ("text", "dict")
Batch = Callable[[list[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Transform:
    """A function over a batch of rows, with what stands for it in the digest of a source.

    Calling it calls the function.
    """

    function: Batch
    version: str
    lane: Literal["process", "thread"]
    rows: Literal["text", "dict"]

    def __call__(self, rows: list[Any]) -> Sequence[Any]:
        """The function's answer to a batch of rows."""
        return self.function(rows)

    @property
    def place(self) -> str:
        """Where another process would find it, as module:name."""
        return f"{self.function.__module__}:{self.function.__qualname__}"


def transform(
    *,
    version: int | str,
    lane: Literal["process", "thread"] = "process",
    rows: Literal["text", "dict"] = "text",
) -> Callable[[Batch], Transform]:
    """Makes a function the transform of a source: `sources.NAME.transform: module:function`.

    It is given a list of rows, and returns a list of the same length: for every row a text, token
    ids (a list or an integer array), or None to drop it. What it gives for a row must follow from
    that row alone. `rows` is `"text"` (each row is a str) or `"dict"` (a dict with the source's
    column). `version` is part of the stream: change it whenever the function changes. `lane` is
    `"process"` (spawned workers, which may crash or hang) or `"thread"` (threads of the process
    that hosts an embedded engine, for functions that give up the GIL).
    """
    if lane not in LANES:
        raise ValueError(f"lane={lane!r}; allowed: {', '.join(LANES)}")
    if rows not in ROWS:
        raise ValueError(f"rows={rows!r}; allowed: {', '.join(ROWS)}")
    text = checked_version(version, "the function changes")

    def decorate(function: Batch) -> Transform:
        if not callable(function):
            raise TypeError(f"a transform must be callable: {function!r}")
        return Transform(function, text, lane, rows)

    return decorate


def checked_version(version: object, when: str) -> str:
    """A version as digests have it."""
    if isinstance(version, bool) or not isinstance(version, int | str) or version == "":
        raise TypeError(
            f"version={version!r}; give a number or a text, and another one whenever {when}"
        )
    return str(version)
