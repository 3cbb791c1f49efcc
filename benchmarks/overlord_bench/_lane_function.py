"""Functions of the bench `python_lane`, in a module that workers can import."""

from __future__ import annotations

from typing import Any

import overlord as ol

TURNS = 8  # over every row; about half a millisecond for 2 KB


@ol.transform(version="1")
def busy(rows: list[str]) -> list[Any]:
    """Holds the GIL: a checksum in pure Python over every row, which comes back with it."""
    out = []
    for row in rows:
        total = 1
        for _ in range(TURNS):
            for letter in row:
                total = (total * 31 + ord(letter)) & 0xFFFFFFFF
        out.append(f"{total:08x} {row}")
    return out


@ol.transform(version="1", lane="thread")
def busy_thread(rows: list[str]) -> list[Any]:
    """The same on threads, where the GIL lets one run at a time."""
    answer: list[Any] = list(busy(rows))
    return answer


@ol.transform(version="1")
def nothing(rows: list[str]) -> list[Any]:
    """Gives back what it got: what is left is the way to a worker and back."""
    return rows
