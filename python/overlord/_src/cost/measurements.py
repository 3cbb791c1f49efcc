"""Measured times of microbatches, read from a CSV: what `overlord calibrate` fits models to.

One row is one microbatch. For every length column (`tokens`, `image_patches`, ...) a row has the
total length; the sum of its samples' squared lengths comes from the column `NAME_squares` (for
`tokens` also `sum_squares`), or from `lengths` (of `tokens`, separated by spaces), or, where there
is neither, from the total itself: the row is one sample then. The time is `time_ms`, or
`forward_ms` and `backward_ms` together. Rows may belong to several models (`model`).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from overlord._src.errors import ABSENT, ConfigError, Problem

FloatArray = NDArray[np.float64]
KNOWN_COLUMNS = ("tokens", "image_patches", "audio_frames", "video_patches")
MAX_ROWS = 1_000_000
_MAX_LENGTH = 2**32
_TIMES = (("time_ms",), ("forward_ms", "backward_ms"))


@dataclass(frozen=True)
class Measurements:
    """Microbatches of one model: lengths, squared lengths, times, and their lines in the file."""

    model: str
    columns: tuple[str, ...]
    totals: dict[str, FloatArray]
    squares: dict[str, FloatArray]
    time_ns: FloatArray
    forward_ns: FloatArray | None
    lines: tuple[int, ...]


class _Table:
    """Rows of a CSV with their lines, and how to complain about them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise self.wrong(f"cannot be read: {error}") from None
        reader = csv.reader(text.splitlines(), skipinitialspace=True)
        try:
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
        except csv.Error as error:
            raise self.wrong(f"not CSV: {error}") from None
        if not rows:
            raise self.wrong("the file is empty", advice="the first line names the columns")
        self.header = [cell.strip() for cell in rows[0][1]]
        self.rows = rows[1:]
        if len(set(self.header)) != len(self.header):
            raise self.wrong("a column is named twice", ", ".join(self.header))
        if not self.rows or len(self.rows) > MAX_ROWS:
            raise self.wrong("wrong number of rows", len(self.rows), f"1 to {MAX_ROWS}")
        for line, row in self.rows:
            if len(row) != len(self.header):
                what = f"line {line}: wrong number of cells"
                raise self.wrong(what, len(row), f"{len(self.header)}, as the header has")

    def wrong(
        self, what: str, value: object = ABSENT, allowed: str = "", advice: str = ""
    ) -> ConfigError:
        return ConfigError(Problem((), what, value, allowed, advice), origin=str(self.path))

    def texts(self, name: str) -> list[str]:
        at = self.header.index(name)
        return [row[at].strip() for _, row in self.rows]

    def numbers(self, name: str, *, lengths: bool) -> FloatArray:
        """A column of numbers: whole lengths from 0, or times above 0."""
        out = np.empty(len(self.rows))
        allowed = "a whole number, 0 to 2^32-1" if lengths else "milliseconds above 0"
        for i, ((line, _), cell) in enumerate(zip(self.rows, self.texts(name), strict=True)):
            try:
                value = float(cell)
            except ValueError:
                value = math.nan
            good = 0 <= value < _MAX_LENGTH and value == int(value) if lengths else value > 0
            if not good or math.isinf(value):
                raise self.wrong(f"line {line}, column {name!r}: wrong value", cell, allowed)
            out[i] = value
        return out

    def squares_of(self, name: str, totals: FloatArray) -> FloatArray:
        """Sums of squared lengths, checked against what totals allow."""
        named = [f"{name}_squares"] + (["sum_squares"] if name == "tokens" else [])
        found = next((column for column in named if column in self.header), None)
        if found is not None:
            squares = np.array([self._square(i, found) for i in range(len(self.rows))])
        elif name == "tokens" and "lengths" in self.header:
            found = "lengths"
            squares = np.array([self._sum_squares(i, total) for i, total in enumerate(totals)])
        else:
            return totals**2
        for (line, _), total, square in zip(self.rows, totals, squares, strict=True):
            if not total <= square <= total**2:
                allowed = (
                    f"between the sum of lengths and its square, {total:.0f} and {total**2:.0f}"
                )
                what = f"line {line}, column {found!r}: impossible for {name} {total:.0f}"
                raise self.wrong(what, f"{square:.0f}", allowed)
        return squares

    def _square(self, row: int, name: str) -> float:
        line, cells = self.rows[row]
        cell = cells[self.header.index(name)]
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise self.wrong(f"line {line}, column {name!r}: wrong value", cell, "0 or more")
        return value

    def _sum_squares(self, row: int, total: float) -> float:
        line, cells = self.rows[row]
        words = cells[self.header.index("lengths")].split()
        if not all(word.isascii() and word.isdigit() for word in words):
            what = f"line {line}, column 'lengths': not a list of lengths"
            raise self.wrong(what, " ".join(words), "whole numbers, separated by spaces")
        lengths = [int(word) for word in words]
        if sum(lengths) != total:
            what = f"line {line}, column 'lengths': their sum is not the row's tokens"
            raise self.wrong(what, sum(lengths), f"{total:.0f}")
        return float(sum(length * length for length in lengths))


def read_measurements(path: Path, columns: Sequence[str] = ()) -> list[Measurements]:
    """The measurements in a CSV, one per model, in the file's order."""
    table = _Table(path)
    wanted = tuple(columns) or tuple(name for name in KNOWN_COLUMNS if name in table.header)
    missing = [name for name in wanted if name not in table.header]
    if missing or not wanted:
        raise table.wrong(
            f"no column {missing[0]!r}" if missing else "no column of lengths",
            ", ".join(table.header),
            ", ".join(wanted or KNOWN_COLUMNS),
            "name other columns with --columns",
        )
    times = next((names for names in _TIMES if all(name in table.header for name in names)), None)
    if times is None:
        allowed = "time_ms, or forward_ms and backward_ms"
        raise table.wrong("no column of times", ", ".join(table.header), allowed)
    measured = [table.numbers(name, lengths=False) * 1e6 for name in times]
    time_ns = np.sum(measured, axis=0)
    totals = {name: table.numbers(name, lengths=True) for name in wanted}
    squares = {name: table.squares_of(name, totals[name]) for name in wanted}
    models = table.texts("model") if "model" in table.header else [""] * len(table.rows)
    out = []
    for model in dict.fromkeys(models):
        at = np.array([i for i, name in enumerate(models) if name == model])
        out.append(
            Measurements(
                model=model,
                columns=wanted,
                totals={name: values[at] for name, values in totals.items()},
                squares={name: values[at] for name, values in squares.items()},
                time_ns=time_ns[at],
                forward_ns=measured[0][at] if len(times) == 2 else None,
                lines=tuple(table.rows[i][0] for i in at),
            )
        )
    return out
