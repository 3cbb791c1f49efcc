"""A user's own Python in planning: functions by name and version, what they are asked and answer.

A function is asked once a step, over whole columns. What it answers is checked and turned into
whole numbers here, and checked again and logged by the planner before anything is decided with it.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlord._src.cost.python_cost import CostError, evaluate_python

_LOG = logging.getLogger("overlord")
AnyFunction = Callable[..., Any]
Int64Array = NDArray[np.int64]
Request = Mapping[str, Any]


@dataclass(frozen=True)
class Function:
    """A function with the name and version that stand for it in a strategy."""

    function: AnyFunction
    version: int | str
    name: str

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"{self.name or 'a call-out'}: not callable: {self.function!r}")
        if isinstance(self.version, bool) or not isinstance(self.version, int | str):
            raise TypeError(
                f"{self.name}: version={self.version!r}; give a number or a text, and another one "
                "whenever the function changes"
            )


def named(function: Any, version: int | str | None, name: str | None = None) -> Function:
    """A function of one's own; its name is that of the Python function where none is given."""
    if isinstance(function, Function):
        return function
    own = name or str(getattr(function, "__name__", None) or type(function).__name__)
    if version is None:
        raise TypeError(
            f"{own}: a function of your own needs version=..., a number or a text that you change "
            "whenever the function changes: plans are recomputed by calling it again"
        )
    return Function(function, version, own)


@dataclass(frozen=True)
class Seats:
    """Where the bins of a step can go.

    Consumer c runs microbatches 0 to `microbatches` - 1 of at most `microbatch_size` bins. With
    substeps the bins and the microbatches of every consumer come in that many equal runs, and a bin
    of run s goes to a microbatch of run s.
    """

    consumers: int
    microbatches: int
    microbatch_size: int
    substeps: int
    stages: int


@dataclass(frozen=True)
class StepView:
    """All that is known of a step before it is placed.

    `columns` has one value per sample (a segment of a document), in bin order: `tokens`, `source`
    (an index into `sources`), the job's metadata columns, and `bin`, `pass`, `position`. Costs are
    nanoseconds, None without a cost.
    """

    step: int
    columns: Mapping[str, NDArray[Any]]
    sources: Sequence[str]
    bins: int
    seats: Seats
    bin_costs: Int64Array | None
    sample_costs: Int64Array | None


class _Wrong(Exception):
    """What is wrong with an answer, without who gave it."""


def answer_request(
    request: Request, functions: Mapping[str, AnyFunction], sources: Sequence[str]
) -> Int64Array | str:
    """What a function answers, in whole numbers; or a text that says what is wrong with it."""
    function = functions.get(request["name"])
    if function is None:
        return f"no such function; there are: {', '.join(sorted(functions)) or 'none'}"
    try:
        if request["kind"] == "cost":
            return _costs(request, function, sources)
        return _seats(request, function, sources)
    except CostError as error:
        wrong = str(error).removeprefix(f"cost function {error.function}: ")
        if error.__cause__ is not None and wrong.startswith("raised "):
            return _raised(error.__cause__)
        return wrong
    except _Wrong as error:
        return str(error)


def _raised(error: BaseException) -> str:
    """An exception of a user's function in one line; the log has where it came from."""
    _LOG.warning("a function of a strategy raised", exc_info=error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"raised {type(error).__name__}: {error}{where}"


def _costs(request: Request, function: AnyFunction, sources: Sequence[str]) -> Int64Array:
    def row_name(row: int) -> str:
        source = sources[int(request["columns"]["source"][row])]
        return f"row {row} ({source}[{request['pass'][row]}:{request['position'][row]}])"

    return evaluate_python(
        function,
        request["columns"],
        name=request["name"],
        scale=request["scale"],
        row_name=row_name,
    ).cost_ns


def _seats(request: Request, function: AnyFunction, sources: Sequence[str]) -> Int64Array:
    names = ("consumers", "microbatches", "microbatch_size", "substeps", "stages")
    seats = Seats(**{name: int(request[name]) for name in names})
    try:
        if request["kind"] == "balance":
            answer = function(_read_only(request["bin_costs"]), seats)
        else:
            answer = function(_view(request, seats, sources))
    except Exception as error:
        raise _Wrong(_raised(error)) from error
    return seats_of(answer, int(request["bins"]), seats)


def _view(request: Request, seats: Seats, sources: Sequence[str]) -> StepView:
    own = {name: request[name] for name in ("bin", "pass", "position")}
    columns = {**request["columns"], **own}
    has_cost = len(request["bin_costs"]) > 0
    return StepView(
        int(request["step"]),
        {name: _read_only(values) for name, values in columns.items()},
        list(sources),
        int(request["bins"]),
        seats,
        _read_only(request["bin_costs"]) if has_cost else None,
        _read_only(request["sample_costs"]) if has_cost else None,
    )


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    view = values.view()
    view.flags.writeable = False
    return view


def seats_of(answer: object, bins: int, seats: Seats) -> Int64Array:
    """Consumer and microbatch of every bin as one number; what cannot be is refused."""
    form = "answer (consumer of every bin, microbatch of every bin), or an array of these pairs"
    try:
        array = np.asarray(answer)
    except ValueError as error:
        raise _Wrong(f"is not an array: {error}; {form}") from error
    if array.dtype.kind not in "iu":
        raise _Wrong(f"answered dtype {array.dtype}, not integers; {form}")
    # A tuple or list is two columns, an array is one row per bin: only (2, 2) could be both.
    if isinstance(answer, np.ndarray) and array.shape == (bins, 2):
        array = array.T
    if array.shape != (2, bins):
        raise _Wrong(f"answered shape {array.shape} for {bins} bins; {form}")
    for row, (what, most) in enumerate(
        (("consumer", seats.consumers), ("microbatch", seats.microbatches))
    ):
        bad = (array[row] < 0) | (array[row] >= most)
        if bad.any():
            first = int(np.argmax(bad))
            raise _Wrong(
                f"{what} of bin {first} is {int(array[row][first])}; allowed: 0 to {most - 1}"
            )
    consumer, microbatch = array.astype(np.int64)
    return np.ascontiguousarray(consumer * seats.microbatches + microbatch)
