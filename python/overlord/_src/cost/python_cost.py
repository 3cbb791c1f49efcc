"""A cost that the user computes: a vectorised Python function over metadata columns.

It is called once per window. What it answers is checked and rounded to whole nanoseconds before
anything is decided with it, so that the log can hold the very numbers the plan was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overlord._src.cost.model import MAX_INT64, Costs, Int64Array, refuse

CostFunction = Callable[[dict[str, NDArray[Any]]], Any]
RowName = Callable[[int], str]
_FLOAT_END = 2.0**63  # the first float that int64 does not hold


class CostError(ValueError):
    """A cost function failed or answered what no cost can be.

    `function` names it; `row` is the first bad row and `value` what it answered there, None where
    the answer as a whole was wrong.
    """

    def __init__(
        self, function: str, wrong: str, row: int | None = None, value: object = None
    ) -> None:
        self.function, self.row, self.value = function, row, value
        super().__init__(f"cost function {function}: {wrong}")


@dataclass(frozen=True)
class PythonCost:
    """A cost function with its name and version, which stand for it in the config's digest."""

    function: CostFunction
    version: int | str
    name: str
    scale: int = 1

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise refuse("not callable", self.function, "a function of a dict of columns")
        if not isinstance(self.name, str) or not self.name:
            raise refuse("has no name", self.name, "name=...", ("cost", "name"))
        if isinstance(self.version, bool) or not isinstance(self.version, int | str):
            raise refuse("wrong version", self.version, "a number or text", ("cost", "version"))
        if type(self.scale) is not int or not 1 <= self.scale <= 10**12:
            raise refuse("wrong scale", self.scale, "1 to 10^12", ("cost", "scale"))

    def evaluate(
        self, columns: Mapping[str, ArrayLike], *, row_name: RowName | None = None
    ) -> Costs:
        """Costs of many samples, from one call of the function."""
        return evaluate_python(
            self.function, columns, name=self.name, scale=self.scale, row_name=row_name
        )

    def to_dict(self) -> dict[str, Any]:
        """Name, version and scale; the function itself has to be given again."""
        return {
            "kind": "python",
            "name": self.name,
            "version": self.version,
            "scale": self.scale,
        }


def function_name(function: object) -> str:
    """Module and name of a function, as messages show it."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


def evaluate_python(
    function: CostFunction,
    columns: Mapping[str, ArrayLike],
    *,
    name: str | None = None,
    scale: int = 1,
    row_name: RowName | None = None,
) -> Costs:
    """Call a cost function once over read-only columns; check and round what it answers.

    It answers an array of numbers, one per row, or a mapping with `cost` and optionally `bytes`;
    costs are multiplied by `scale` (a function that answers milliseconds: 1_000_000) and rounded
    half up to nanoseconds. Raises `CostError` when it throws, or answers another length, another
    dtype, NaN, infinity, a negative number or one beyond 63 bits. `row_name` names a row in
    messages, as the planner knows it (a sample id).
    """
    called = name or function_name(function)
    arrays = {key: _read_only(key, values) for key, values in columns.items()}
    counts = {key: len(array) for key, array in arrays.items()}
    if len(set(counts.values())) != 1:
        raise refuse("columns must be there and of equal length", counts, "one value per sample")
    rows = next(iter(counts.values()))
    try:
        answer = function(arrays)
    except Exception as error:
        raise CostError(
            called,
            f"raised {type(error).__name__}: {error} (over {rows} rows; columns: "
            f"{', '.join(arrays)})",
        ) from error
    if isinstance(answer, Mapping):
        strange = sorted(map(str, set(answer) - {"cost", "bytes"}))
        if "cost" not in answer or strange:
            raise CostError(called, f"answered keys {sorted(map(str, answer))}, not cost and bytes")
        costs, sizes = answer["cost"], answer.get("bytes")
    else:
        costs, sizes = answer, None
    name_of = row_name or (lambda row: f"row {row}")
    cost_ns = _whole_numbers(costs, rows, scale, called, "cost", name_of)
    if sizes is None:
        return Costs(cost_ns, np.zeros(rows, np.int64))
    return Costs(cost_ns, _whole_numbers(sizes, rows, 1, called, "bytes", name_of))


def _read_only(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values).view()
    if array.ndim != 1:
        raise refuse("not one-dimensional", f"shape {array.shape}", "one value per sample", (name,))
    array.flags.writeable = False
    return array


def _whole_numbers(
    answer: object, rows: int, scale: int, called: str, what: str, name_of: RowName
) -> Int64Array:
    """The answer as int64, or a CostError that names its first bad row."""
    try:
        array = np.asarray(answer)
    except ValueError as error:  # rows of unequal length
        raise CostError(called, f"{what} is not an array: {error}") from error
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise CostError(
            called,
            f"{what} has dtype {array.dtype}; answer a NumPy array of integers or of float16, "
            f"float32 or float64",
        )
    if array.shape != (rows,):
        raise CostError(
            called, f"{what} has shape {array.shape} for {rows} rows; answer one number per row"
        )

    def first_bad(bad: NDArray[np.bool_], wrong: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            value = array[row].item()
            raise CostError(called, f"{what} of {name_of(row)} is {wrong}: {value!r}", row, value)

    if array.dtype.kind == "f":
        numbers = array.astype(np.float64)
        first_bad(~(numbers >= 0) | np.isinf(numbers), "NaN, infinite or negative")
        with np.errstate(over="ignore"):
            scaled = numbers * scale
        whole = np.floor(scaled)
        first_bad(whole >= _FLOAT_END - 1024, f"too large for 63 bits (times {scale})")
        return whole.astype(np.int64) + (scaled - whole >= 0.5)
    first_bad(array < 0, "negative")
    first_bad(array > MAX_INT64 // scale, f"too large for 63 bits (times {scale})")
    return array.astype(np.int64) * scale
