"""Measured microbatches as a trainer reported them: JSON lines of `Loader.save_reports`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from overlord._src.cost.measurements import MAX_ROWS, Measurements
from overlord._src.errors import ConfigError, Problem
from overlord._src.loader.time_reports import FORMAT

_KEYS = ("step", "tokens", "tokens_squares", "time_ms")


def read_reports(path: Path, skip_steps: int = 0) -> Measurements:
    """The microbatches with times in a file of reports; the first `skip_steps` steps are left out.

    The first steps of a run compile and warm up, so their times say nothing about later ones.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, f"cannot be read: {error}") from None
    rows = [
        (number, row)
        for number, line in enumerate(lines, 1)
        if line.strip() and (row := _row_of(path, number, line)) is not None
    ]
    if rows:
        first = min(row["step"] for _, row in rows) + skip_steps
        rows = [(number, row) for number, row in rows if row["step"] >= first]
    if not rows or len(rows) > MAX_ROWS:
        raise _wrong(
            path,
            f"has {len(rows)} microbatches with times, wanted 1 to {MAX_ROWS}",
            "report them with loader.report(step, times=[seconds of each microbatch])",
        )
    column = {key: np.array([row[key] for _, row in rows], dtype=np.float64) for key in _KEYS}
    return Measurements(
        model="",
        columns=("tokens",),
        totals={"tokens": column["tokens"]},
        squares={"tokens": column["tokens_squares"]},
        time_ns=column["time_ms"] * 1e6,
        forward_ns=None,
        lines=tuple(number for number, _ in rows),
    )


def _row_of(path: Path, number: int, line: str) -> dict[str, Any] | None:
    """A microbatch with its time; None for other reports. Empty microbatches cost nothing."""
    try:
        row = json.loads(line)
        if row.get("format") != FORMAT:
            raise ValueError(f"format is {row.get('format')!r}, not {FORMAT!r}")
        if "time_ms" not in row:
            return None
        found = {key: float(row[key]) for key in _KEYS}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _wrong(path, f"line {number}: not a report: {error}") from None
    tokens, squares = found["tokens"], found["tokens_squares"]
    if not (found["time_ms"] > 0 and 0 <= tokens <= squares <= tokens * tokens):
        raise _wrong(path, f"line {number}: impossible numbers: {line.strip()[:120]}")
    return found if tokens > 0 else None


def _wrong(path: Path, what: str, advice: str = "") -> ConfigError:
    return ConfigError(Problem((), what, advice=advice), origin=str(path))
