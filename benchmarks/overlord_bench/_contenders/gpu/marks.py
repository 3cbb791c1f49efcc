"""Moments of a training loop as the device lives through them.

A mark is put into the stream that computes, and the device passes it when all before it is done.
Between the mark before `next()` and the one behind the inputs lies the time in which the device had
nothing to compute: no batch was there, its copy was under way, or the host was late. The host is
held one microbatch ahead of the device, as by a trainer that logs the loss of the step before.
"""

from __future__ import annotations

import time
from typing import Any

import torch


class Marks:
    """Where the time of a loop goes; on the CPU the host's clock stands for the device's."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"
        self._asked: list[Any] = []
        self._given: list[Any] = []
        self._ready: list[Any] = []
        self._host = 0.0
        self._host_began = 0.0

    def _mark(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def asked(self) -> None:
        """`next()` is called now; before it ended the microbatch before."""
        if self._cuda and len(self._asked) > 1:
            self._asked[-1].synchronize()
        self._asked.append(self._mark())
        self._host_began = time.perf_counter()

    def given(self) -> None:
        """It has returned."""
        self._host += time.perf_counter() - self._host_began
        self._given.append(self._mark())

    def ready(self) -> None:
        """The model's inputs are made."""
        self._ready.append(self._mark())

    def shares(self) -> dict[str, float]:
        """Of the time from the first `asked` to the last, which has no batch behind it."""
        if self._cuda:
            torch.cuda.synchronize()
        between = list(zip(self._asked, self._given, self._ready, strict=False))
        total = self._seconds(self._asked[0], self._asked[-1])
        for_data = sum(self._seconds(asked, given) for asked, given, _ in between)
        for_inputs = sum(self._seconds(asked, ready) for asked, _, ready in between)
        longest = max(self._seconds(asked, ready) for asked, _, ready in between)
        return {
            "wait_share": for_data / total,
            "inputs_share": for_inputs / total,
            "next_share": self._host / total,
            "longest_wait_ms": longest * 1e3,
            "microbatch_ms": total / len(between) * 1e3,
            "microbatches": len(between),
        }

    def _seconds(self, begin: Any, end: Any) -> float:
        if not self._cuda:
            return float(end - begin)
        return float(begin.elapsed_time(end)) / 1e3
