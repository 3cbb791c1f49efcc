"""Media items as a user's function gets them: arrays over memory that the engine shares.

A request has one JSON text per item, as workers/media_seat.cc writes it: the memory's path with
its inode and size, where the item lies in it and where what is made of it goes, its type, shape,
grid and key. The function gets views that cannot be written to; what it returns is copied once. An
answer has rows of kind text ("made"), dropped or bad; framed as in `transform_worker.py`.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from overlord._workers.answers import (
    BAD,
    DROPPED,
    TEXT,
    Row,
    Wrong,
    packed_answer,
    reason,
    solve,
)

_MADE = b"made"
Call = Callable[[list[Any]], Any]
_Array = np.ndarray[Any, Any]


class _Memory:
    """The memory of the last request, mapped; who reads it again finds it mapped."""

    def __init__(self) -> None:
        self._known: tuple[str, int, int] | None = None
        self._map: mmap.mmap | None = None

    def find(self, told: dict[str, Any]) -> mmap.mmap:
        key = (told["slab"], told["inode"], told["size"])
        if self._map is None or key != self._known:
            self._map = _mapped(*key)
            self._known = key
        return self._map


def _mapped(path: str, inode: int, size: int) -> mmap.mmap:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(file).st_ino != inode:
            raise FileNotFoundError(f"{path} is not the memory that was meant: the call is too old")
        return mmap.mmap(file, size)
    finally:
        os.close(file)


class _Item:
    """One item of a request."""

    def __init__(self, memory: mmap.mmap, told: dict[str, Any]) -> None:
        self._told = told
        kind, shape = np.dtype(told["type"]), tuple(told["shape"])
        self.made: _Array = np.ndarray(shape, kind, memory, told["made"])
        self._data: _Array = np.ndarray(shape, kind, memory, told["given"])
        self._data.flags.writeable = False

    def given(self) -> dict[str, Any]:
        """What the function sees of it."""
        return {
            "data": self._data.view(),  # a view of what is not writeable is not either
            "grid": tuple(self._told["grid"]),
            "key": self._told["key"],
        }

    def take(self, name: str, value: Any) -> Row:
        """What the function gave for it, copied to where it belongs."""
        if value is None:
            return (DROPPED, b"")
        try:
            array = np.asarray(value)
            if array.dtype != self.made.dtype or array.shape != self.made.shape:
                raise Wrong(
                    f"answered {array.dtype} of shape {array.shape} for an item of "
                    f"{self.made.dtype}, {self.made.shape}; both must stay as they are"
                )
            np.copyto(self.made, array)
        except Exception as error:
            return (BAD, reason(name, error))
        return (TEXT, _MADE)


class ItemCalls:
    """Calls of a function over items, for one thread."""

    def __init__(self, call: Call, name: str) -> None:
        self._call, self._name = call, name
        self._memory = _Memory()

    def answer(self, texts: Sequence[str]) -> bytes:
        """The answer to a request, from the byte after its count of rows on."""
        told = [json.loads(text) for text in texts]
        items = [_Item(self._memory.find(one), one) for one in told]
        rows: list[Row] = []
        solve(self._given, self._name, "item", items, self._taken, rows)
        return packed_answer(rows)

    def _given(self, items: Sequence[_Item]) -> Any:
        return self._call([item.given() for item in items])

    def _taken(self, item: _Item, value: Any) -> Row:
        return item.take(self._name, value)
