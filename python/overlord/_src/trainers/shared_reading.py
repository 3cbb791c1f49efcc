"""SharedReading: one loader that several readers of a process follow, each at its own pace."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from overlord._src.native import core


class SharedReading:
    """Every reader sees all microbatches in order. One may lie behind by the step before, or less.

    A reader that never asks holds nothing up: what is older than that is let go.
    """

    def __init__(self, loader: Any, *, again: bool = False) -> None:
        self.loader = loader
        self._again = again  # begins anew at the end
        self._held: deque[Any] = deque()
        self._first = 0  # number of the first that is held
        self._reading = threading.Lock()
        self.restarts = 0

    def at(self, number: int) -> Any:
        """The microbatch of this number since the start; raises StopIteration behind the end."""
        with self._reading:
            if number < self._first:
                raise core.OutOfRangeError(
                    f"microbatch {number} of this rank is not held any more: a reader lies more "
                    "than a step behind another; all virtual stages have to read, or this one not "
                    "at all"
                )
            while number >= self._first + len(self._held):
                self._held.append(self._next())
                self._let_go()
            return self._held[number - self._first]

    def _next(self) -> Any:
        try:
            return next(self.loader)
        except StopIteration:
            if not self._again:
                raise
            return next(iter(self.loader))

    def _let_go(self) -> None:
        if not self._held[-1].last_in_step:
            return
        ends = [place for place, batch in enumerate(self._held) if batch.last_in_step]
        for _ in range(ends[-3] + 1 if len(ends) > 2 else 0):
            self._held.popleft()
            self._first += 1

    def restart(self) -> None:
        """The loader has gone elsewhere."""
        with self._reading:
            self._held.clear()
            self._first = 0
            self.restarts += 1

    def close(self) -> None:
        self.loader.close()


class Reader(Iterator[Any]):
    """One that follows a SharedReading from its start."""

    def __init__(self, shared: SharedReading) -> None:
        self.shared = shared
        self._number = self._restarts = 0

    def __next__(self) -> Any:
        if self._restarts != self.shared.restarts:
            self._number, self._restarts = 0, self.shared.restarts
        batch = self.shared.at(self._number)
        self._number += 1
        return batch
