"""Coefficients from measurements: non-negative least squares of the relative error.

A row's time is `bin + sum over columns of (linear * total + quadratic * squares)`. Coefficients are
never negative, because a longer sample never costs less; errors are relative, because a planner
compares microbatches of one size, whatever that is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlord._src.cost.measurements import FloatArray, Measurements
from overlord._src.cost.model import BYTES_BITS, COST_BITS, CostModel, CostTerm, quantise
from overlord._src.errors import ConfigError, refused

FOLDS = 5
_TOLERANCE = 1e-10  # of a gradient or singular value against the largest


@dataclass(frozen=True)
class Errors:
    """Relative errors of predictions, without sign."""

    median: float
    p90: float
    maximum: float

    @staticmethod
    def of(errors: FloatArray) -> Errors:
        """Their median, 90th percentile and largest."""
        size = np.abs(errors)
        return Errors(float(np.median(size)), float(np.quantile(size, 0.9)), float(size.max()))


@dataclass(frozen=True)
class Fit:
    """Coefficients in nanoseconds and how well they predict."""

    measurements: Measurements
    bin_ns: float
    linear_ns: dict[str, float]
    quadratic_ns: dict[str, float]
    row_errors: FloatArray  # (predicted - measured) / measured
    errors: Errors
    held_out: Errors  # of rows that the coefficients were not fitted to
    folds: int

    def model(self, layers: int = 1) -> CostModel:
        """The cost model of `layers` times what was measured; one byte per unit of length."""
        terms = tuple(
            CostTerm(
                name,
                linear_q32=quantise(self.linear_ns[name] * layers, COST_BITS, name),
                quadratic_q32=quantise(self.quadratic_ns[name] * layers, COST_BITS, name),
                linear_bytes_q16=1 << BYTES_BITS,
            )
            for name in self.measurements.columns
        )
        kind = "quadratic" if len(terms) == 1 else "sum"
        return CostModel(kind, terms, quantise(self.bin_ns * layers, COST_BITS, "bin"))


def fit(measurements: Measurements) -> Fit:
    """Fit and cross-validate; refuses rows that cannot tell the coefficients apart."""
    features = _features(measurements)
    _check_rows(measurements, features)
    time_ns = measurements.time_ns
    coefficients = solve(features, time_ns)
    row_errors = features @ coefficients / time_ns - 1
    folds = min(FOLDS, len(time_ns))
    held_out = np.empty(len(time_ns))
    fold_of = np.arange(len(time_ns)) % folds
    for fold in range(folds):
        test = fold_of == fold
        held_out[test] = features[test] @ solve(features[~test], time_ns[~test]) / time_ns[test] - 1
    names = measurements.columns
    return Fit(
        measurements=measurements,
        bin_ns=float(coefficients[0]),
        linear_ns={name: float(coefficients[1 + 2 * i]) for i, name in enumerate(names)},
        quadratic_ns={name: float(coefficients[2 + 2 * i]) for i, name in enumerate(names)},
        row_errors=row_errors,
        errors=Errors.of(row_errors),
        held_out=Errors.of(held_out),
        folds=folds,
    )


def _features(measurements: Measurements) -> FloatArray:
    columns = [np.ones_like(measurements.time_ns)]
    for name in measurements.columns:
        columns += [measurements.totals[name], measurements.squares[name]]
    return np.stack(columns, axis=1)


def _check_rows(measurements: Measurements, features: FloatArray) -> None:
    rows, unknowns = features.shape
    label = f"model {measurements.model!r}: " if measurements.model else ""

    def refuse(wrong: str, value: object, allowed: str, advice: str = "") -> ConfigError:
        return refused((), label + wrong, value, allowed, advice)

    if rows <= unknowns:
        wanted = f"{unknowns + 1} or more for {unknowns} coefficients"
        raise refuse("too few rows", rows, wanted, "measure microbatches of more shapes")
    for name in measurements.columns:
        if np.ptp(measurements.totals[name]) == 0 and np.ptp(measurements.squares[name]) == 0:
            value = f"{measurements.totals[name][0]:.0f} in every row"
            raise refuse(f"all lengths are equal in column {name!r}", value, "different lengths")
    scaled = features / np.linalg.norm(features, axis=0).clip(min=1e-300)
    rank = int(np.linalg.matrix_rank(scaled, tol=_TOLERANCE))
    if rank < unknowns:
        raise refuse(
            "the rows do not tell the coefficients apart",
            f"{rank} independent shapes",
            f"{unknowns}: a constant, and lengths and squares of {', '.join(measurements.columns)}",
            "measure more lengths, and one long sample beside many short ones",
        )


def solve(features: FloatArray, times: FloatArray) -> FloatArray:
    """Non-negative coefficients with the least sum of squared relative errors."""
    weighted = features / times[:, None]
    scale = np.linalg.norm(weighted, axis=0).clip(min=1e-300)
    solution: FloatArray = non_negative_least_squares(weighted / scale, np.ones(len(times))) / scale
    return solution


def non_negative_least_squares(matrix: FloatArray, wanted: FloatArray) -> FloatArray:
    """x >= 0 with the least |matrix x - wanted|: an active set that grows by the steepest gradient.

    Columns enter one at a time; when the unbounded solution of those that are in leaves the
    positive side, the step is cut at the border and the columns that reached it go out.
    """
    unknowns = matrix.shape[1]
    inside = np.zeros(unknowns, dtype=bool)
    best: FloatArray = np.zeros(unknowns)
    limit = _TOLERANCE * float(np.abs(matrix.T @ wanted).max(initial=0))
    for _ in range(10 * unknowns):
        gradient = np.where(inside, -np.inf, matrix.T @ (wanted - matrix @ best))
        if inside.all() or gradient.max() <= limit:
            break
        inside[int(np.argmax(gradient))] = True
        while True:
            trial = np.zeros(unknowns)
            trial[inside] = np.linalg.lstsq(matrix[:, inside], wanted, rcond=None)[0]
            leaving = inside & (trial <= 0)
            if not leaving.any():
                best = trial
                break
            steps = best[leaving] / np.maximum(best[leaving] - trial[leaving], 1e-300)
            best = best + float(steps.min()) * (trial - best)
            inside &= ~(leaving & (best <= _TOLERANCE * best.max(initial=0)))
            best = np.where(inside, best, 0.0)
    return best
