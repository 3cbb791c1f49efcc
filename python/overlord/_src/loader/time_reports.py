"""Times that a trainer reports, kept with what the microbatches held: rows to fit a cost model to.

`Loader.report(step, times=...)` fills it, `Loader.save_reports(path)` writes it as JSON lines, and
`overlord calibrate --from path` fits coefficients to it.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overlord._src.batch.microbatch import LINEAGE, Microbatch

FORMAT = "overlord-reports/1"
_STEPS_REMEMBERED = 64  # whose microbatches wait for their times
_ROWS_KEPT = 65_536
_COUNT = [name for name, _ in LINEAGE].index("count")

Times = Mapping[str, float] | Sequence[float]


def seconds_of(value: object) -> float:
    """A reported time, or an error that says what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"times: {value!r} is not a number of seconds")
    seconds = float(value)
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError(f"times: {value!r} is not a number of seconds above 0")
    return seconds


class TimeReports:
    """What one rank reported, and what its last microbatches held."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._held: dict[int, dict[int, tuple[int, int, int]]] = {}
        self._rows: deque[dict[str, Any]] = deque(maxlen=_ROWS_KEPT)

    def note(self, batch: Microbatch) -> None:
        """Remember the lengths of a microbatch that was handed out."""
        lengths = batch._native.lineage()[:, _COUNT]
        step = self._held.setdefault(batch.step, {})
        step[batch.microbatch] = (len(lengths), int(lengths.sum()), int(lengths @ lengths))
        while len(self._held) > _STEPS_REMEMBERED:
            del self._held[next(iter(self._held))]

    def forget(self) -> None:
        """The stream goes on from elsewhere: microbatches that have no times will get none."""
        self._held.clear()

    def add(self, step: int, times: Times) -> None:
        """Times of a step: one per microbatch of this rank, or named ones of the whole step."""
        if isinstance(times, Mapping):
            named = {str(name): seconds_of(value) for name, value in times.items()}
            self._rows.append({"step": step, "rank": self._rank, "times": named})
            return
        held = self._held.get(step)
        if held is None:
            raise ValueError(
                f"times: rank {self._rank} holds nothing of step {step}; report the times of a "
                f"step within {_STEPS_REMEMBERED} steps of it"
            )
        if len(times) != len(held):
            raise ValueError(
                f"times: step {step} has {len(held)} microbatches on rank {self._rank}, got "
                f"{len(times)} times; give one for each"
            )
        seconds = [seconds_of(value) for value in times]
        for number, value in zip(sorted(held), seconds, strict=True):
            documents, tokens, squares = held[number]
            place = {"step": step, "rank": self._rank, "microbatch": number}
            lengths = {"documents": documents, "tokens": tokens, "tokens_squares": squares}
            self._rows.append({**place, **lengths, "time_ms": value * 1e3})
        del self._held[step]

    def rows(self) -> list[dict[str, Any]]:
        """Everything reported so far, the oldest first; at most 65,536 rows."""
        return list(self._rows)


def write_reports(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON lines; gives their number."""
    lines = [json.dumps({"format": FORMAT, **row}) for row in rows]
    Path(path).write_text("".join(line + "\n" for line in lines))
    return len(lines)
