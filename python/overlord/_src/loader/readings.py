"""Readings: how often the loaders of one engine have read their stream from its start to its end.

A training stream is read once. Others are there to be read again: for every evaluation, whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from overlord._src.config.streams import TRAIN
from overlord._src.native import core

_LOG = logging.getLogger("overlord")


class Readings:
    """Which ranks have read a stream to its end, and what reading it once more means."""

    def __init__(self, stream: str, ranks: Sequence[int]) -> None:
        self._stream = stream
        self._ranks = set(ranks)
        self._ended: set[int] = set()
        self._started = 0

    def begin(self) -> None:
        """The engine starts, from wherever."""
        self._started += 1
        self._ended.clear()

    def end(self, rank: int) -> int:
        """A rank has read to the end; gives the number of the reading."""
        self._ended.add(rank)
        return self._started

    def again(self, reading: int, start: Callable[[], object]) -> bool:
        """Start over after a reading that has ended; False where the stream is read once."""
        if self._started != reading:
            return True  # another rank of this engine did
        if self._stream == TRAIN:
            _LOG.warning(
                "the stream train has ended: reading it again gives nothing; raise `steps` or let "
                "sources repeat (at_end), or make a new loader"
            )
            return False
        behind = sorted(self._ranks - self._ended)
        if behind:
            raise core.InvalidArgumentError(
                f"the stream {self._stream} starts again for all ranks of this process at once, "
                f"and ranks {behind} have not read it to its end; read them with `steps()` or "
                "`rounds()`, or wait for them before reading again"
            )
        start()
        return True
