"""Transforms as users write them, good and bad: what a row does depends on words in it."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from typing import Any

import overlord as ol

BOOM = "boom"
_CALLS = itertools.count()


@ol.transform(version="1")
def loud(rows: list[str]) -> list[Any]:
    """Text in, text out."""
    return [row.upper() for row in rows]


@ol.transform(version="1", lane="thread")
def loud_thread(rows: list[str]) -> list[Any]:
    """The same on a thread."""
    return [row.upper() for row in rows]


@ol.transform(version="2")
def loud_again(rows: list[str]) -> list[Any]:
    """The same in another version."""
    return [row.upper() for row in rows]


@ol.transform(version="1", rows="dict")
def from_dicts(rows: list[dict[str, str]]) -> list[Any]:
    """Rows as dicts, which it changes."""
    for row in rows:
        row["t"] = row["t"].upper()
    return [row["t"] for row in rows]


def _mixed(row: str) -> Any:
    last = row[-1]
    if last == "7":
        return None
    if last == "3":
        import numpy as np  # half a second, of every worker that any test starts

        return np.frombuffer(row.upper().encode(), np.uint8).astype(np.int64)
    if last == "4":
        return list(row.upper().encode())
    return row.upper()


@ol.transform(version="1")
def mixed(rows: list[str]) -> list[Any]:
    """Texts, arrays, lists, and rows that are dropped."""
    return [_mixed(row) for row in rows]


@ol.transform(version="1", lane="thread")
def mixed_thread(rows: list[str]) -> list[Any]:
    """The same on a thread."""
    return [_mixed(row) for row in rows]


def _at_boom(kind: str) -> None:
    if kind == "exit":
        os._exit(7)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "leave":  # hangs up, and takes its time to end
        os.closerange(0, 2)
        os.closerange(3, 256)
        threading.Event().wait(0.3)
        os._exit(5)
    if kind == "hang":
        threading.Event().wait()
    if kind == "eat":
        held = []
        while True:
            held.append(bytearray(os.urandom(1)) * (16 << 20))
    if kind == "raise":
        raise ValueError("no such thing")


def _bad(kind: str) -> Any:
    def function(rows: list[str]) -> list[Any]:
        if any(BOOM in row for row in rows):
            _at_boom(kind)
            if kind == "short":
                return rows[:-1]
        if kind == "float":
            return [1.5 if BOOM in row else row.upper() for row in rows]
        print("a function may print", flush=True)
        return [row.upper() for row in rows]

    return ol.transform(version="1")(function)


exits, kills, hangs, eats = _bad("exit"), _bad("kill"), _bad("hang"), _bad("eat")
leaves = _bad("leave")
raises, short, floats = _bad("raise"), _bad("short"), _bad("float")


@ol.transform(version="1", lane="thread")
def raises_thread(rows: list[str]) -> list[Any]:
    """Raises on a thread."""
    if any(BOOM in row for row in rows):
        _at_boom("raise")
    return [row.upper() for row in rows]


@ol.transform(version="1", lane="thread")
def hangs_thread(rows: list[str]) -> list[Any]:
    """Never returns, on a thread."""
    threading_never_ends()
    return rows


def threading_never_ends() -> None:
    """Waits for what does not come."""
    threading.Event().wait()


@ol.transform(version="1")
def counts_calls(rows: list[str]) -> list[Any]:
    """Gives another text every time."""
    return [f"{row} {next(_CALLS)}" for row in rows]


@ol.transform(version="1")
def looks_at_neighbours(rows: list[str]) -> list[Any]:
    """A row's answer hangs on where it stands."""
    return [f"{row} {i}" for i, row in enumerate(rows)]


@ol.transform(version="1")
def dies_at_once(rows: list[str]) -> list[Any]:
    """Kills every worker."""
    sys.stderr.write("a last word\n")
    os._exit(9)


def no_transform(rows: list[str]) -> list[Any]:
    """Not decorated."""
    return rows
