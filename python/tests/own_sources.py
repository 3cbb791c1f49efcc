"""Readers as users write them, good and bad: what a row does follows from its number."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import overlord as ol

ROWS = 120
BAD = 17  # the row that hurts


def text_of(row: int) -> str:
    """A row of the good readers."""
    return f"row {row} " + "x" * (row % 9)


@ol.source(version="1")
class Texts:
    """Texts, plain and in dicts."""

    def __init__(self, shout: bool = False) -> None:
        self.shout = shout

    def rows(self) -> int:
        """As many as there are."""
        return ROWS

    def read(self, rows: list[int]) -> list[Any]:
        """Every second one beside other things."""
        texts = [text_of(row).upper() if self.shout else text_of(row) for row in rows]
        return [
            {"text": text, "id": row} if row % 2 else text
            for row, text in zip(rows, texts, strict=True)
        ]


@ol.source(version="2")
class Again(Texts.make):  # type: ignore[misc, name-defined]
    """The same in another version."""


@ol.source(version="1")
class Tokens:
    """Ready tokens: lists and arrays; some rows are dropped."""

    def rows(self) -> int:
        """As many."""
        return ROWS

    def read(self, rows: list[int]) -> list[Any]:
        """Rows of two kinds."""
        import numpy as np

        out: list[Any] = []
        for row in rows:
            tokens = list(text_of(row).encode())
            if row == BAD:
                out.append(None)
            else:
                out.append({"ids": np.array(tokens)} if row % 3 else tokens)
        return out


@ol.source(version="1")
class OfAFile:
    """Lines of a file that the config names."""

    def __init__(self, path: str) -> None:
        self.lines = Path(path).read_text().splitlines()

    def rows(self) -> int:
        """Its lines."""
        return len(self.lines)

    def read(self, rows: list[int]) -> list[Any]:
        """Lines by their numbers."""
        return [json.loads(self.lines[row]) for row in rows]


def _count() -> int:
    return ROWS


@ol.source(version="1", rows=_count)
def pair(rows: list[int]) -> list[Any]:
    """A reader out of two functions."""
    return [text_of(row) for row in rows]


class _Bad:
    kind = ""

    def rows(self) -> int:
        return ROWS

    def read(self, rows: list[int]) -> list[Any]:
        if BAD in rows:
            if self.kind == "exit":
                os._exit(3)
            if self.kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.kind == "hang":
                threading.Event().wait()
            if self.kind == "raise":
                raise ValueError("row seventeen")
            if self.kind == "short":
                return [text_of(row) for row in rows if row != BAD]
            if self.kind == "type":
                return [text_of(row) if row != BAD else 7 for row in rows]
            if self.kind == "key":
                return [text_of(row) if row != BAD else {"other": "x"} for row in rows]
        return [text_of(row) for row in rows]


def _bad(kind: str) -> Any:
    made = type(kind, (_Bad,), {"kind": kind, "__module__": __name__, "__qualname__": f"bad_{kind}"})
    return ol.source(version="1")(made)


bad_exit, bad_kill, bad_hang = _bad("exit"), _bad("kill"), _bad("hang")
bad_raise, bad_short, bad_type, bad_key = _bad("raise"), _bad("short"), _bad("type"), _bad("key")
_CALLS: list[int] = []


@ol.source(version="1")
class Fickle:
    """Another text every time."""

    def rows(self) -> int:
        """As many."""
        return ROWS

    def read(self, rows: list[int]) -> list[Any]:
        """What it says follows from how often it was asked."""
        _CALLS.append(len(rows))
        return [f"{text_of(row)} {len(_CALLS)} {os.getpid()}" for row in rows]


class _Counts:
    answer: Any = 0

    def rows(self) -> Any:
        if self.answer == "raise":
            raise ValueError("cannot count")
        if self.answer == "exit":
            os._exit(5)
        if self.answer == "hang":
            threading.Event().wait()
        print("what a reader prints is no answer")
        return self.answer

    def read(self, rows: list[int]) -> list[Any]:
        return [str(row) for row in rows]


def _counting(name: str, answer: Any) -> Any:
    made = type(name, (_Counts,), {"answer": answer, "__module__": __name__, "__qualname__": name})
    return ol.source(version="1")(made)


none_at_all, half_a_row = _counting("none_at_all", 0), _counting("half_a_row", 2.5)
count_raises, count_exits = _counting("count_raises", "raise"), _counting("count_exits", "exit")
count_hangs = _counting("count_hangs", "hang")
no_reader = 7
