"""Functions over media as users write them, good and bad: what one does hangs on the pixels."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from typing import Any

import numpy as np

import overlord as ol

BOOM = 77  # every value of an item that functions cannot bear
_CALLS = itertools.count()
Item = dict[str, Any]


def is_boom(item: Item) -> bool:
    """Whether an item is the one that hurts."""
    return bool((item["data"] == BOOM).all())


def inverted(item: Item) -> Any:
    """Its negative."""
    return 255 - item["data"]


@ol.transform(version="1")
def invert(items: list[Item]) -> list[Any]:
    """Negatives."""
    return [inverted(item) for item in items]


@ol.transform(version="2")
def invert_again(items: list[Item]) -> list[Any]:
    """The same in another version."""
    return [inverted(item) for item in items]


@ol.transform(version="1", lane="thread")
def invert_thread(items: list[Item]) -> list[Any]:
    """The same on a thread."""
    return [inverted(item) for item in items]


def _noisy(item: Item) -> Any:
    rows = item["data"]
    return rows ^ np.random.default_rng(item["key"]).integers(0, 256, rows.shape, rows.dtype)


@ol.transform(version="1")
def noise(items: list[Item]) -> list[Any]:
    """Chance that the sample's key decides."""
    return [_noisy(item) for item in items]


@ol.transform(version="1")
def told(items: list[Item]) -> list[Any]:
    """Writes what it was given into what it gives, and fails where it could have changed it."""
    out = []
    for item in items:
        made = np.zeros_like(item["data"])
        flat = made.reshape(-1)
        flat[:4] = [*item["grid"], len(item["data"])]
        flat[4] = int(item["data"].flags.writeable)
        out.append(made)
    return out


@ol.transform(version="1")
def halved(items: list[Item]) -> list[Any]:
    """Of floats and of samples."""
    return [(item["data"] / 2).astype(item["data"].dtype) for item in items]


def _at_boom(kind: str) -> None:
    if kind == "exit":
        os._exit(7)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hang":
        threading.Event().wait()
    if kind == "raise":
        raise ValueError("no such picture")


def _bad(kind: str, lane: Any = "process") -> Any:
    def function(items: list[Item]) -> list[Any]:
        if any(map(is_boom, items)):
            _at_boom(kind)
            if kind == "short":
                return items[:-1]
        made = [inverted(item) for item in items]
        for i, item in enumerate(items):
            if not is_boom(item):
                continue
            if kind == "drop":
                made[i] = None
            if kind == "shape":
                made[i] = made[i][1:]
            if kind == "type":
                made[i] = made[i].astype(np.float32)
        return made

    return ol.transform(version="1", lane=lane)(function)


exits, kills, hangs, raises = _bad("exit"), _bad("kill"), _bad("hang"), _bad("raise")
short, drops, shapes, types = _bad("short"), _bad("drop"), _bad("shape"), _bad("type")
raises_thread = _bad("raise", "thread")


@ol.transform(version="1", lane="thread")
def hangs_thread(items: list[Item]) -> list[Any]:
    """Never returns, on a thread."""
    threading.Event().wait()
    return items


@ol.transform(version="1")
def counts_calls(items: list[Item]) -> list[Any]:
    """Gives something else every time."""
    return [item["data"] ^ np.uint8(next(_CALLS) % 256) for item in items]


@ol.transform(version="1")
def dies_at_once(items: list[Item]) -> list[Any]:
    """Kills every worker."""
    os._exit(9)


def no_transform(items: list[Item]) -> list[Any]:
    """Not decorated."""
    return items


@ol.transform(version="1")
def mark_pictures(rows: list[str]) -> list[str]:
    """Texts that say where pictures stand in another way than their tokens do."""
    return [row.replace("<picture>", "@").upper() for row in rows]
