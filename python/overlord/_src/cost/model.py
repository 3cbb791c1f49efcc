"""The cost model as a value, the same numbers as `src/overlord/model/cost_model.h` holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overlord._src.errors import ConfigError, KeyPath, refused

KINDS = ("tokens", "quadratic", "transformer", "vit", "sum")
COST_BITS, BYTES_BITS = 32, 16  # fraction bits of q32 (nanoseconds) and q16 (bytes) coefficients
MAX_INT64 = 2**63 - 1

Number = int | float | Fraction
Int64Array = NDArray[np.int64]


class Costs(NamedTuple):
    """What each sample costs: nanoseconds, and bytes of memory while it is worked on."""

    cost_ns: Int64Array
    bytes: Int64Array


def refuse(wrong: str, value: object, allowed: str, path: KeyPath = ("cost",)) -> ConfigError:
    """The error for a cost model that cannot be."""
    return refused(path, wrong, value, allowed)


def round_half_up(value: Fraction) -> int:
    """The nearest whole number; the larger one of two."""
    return math.floor(value + Fraction(1, 2))


def quantise(value: Number, bits: int, name: str) -> int:
    """A coefficient in fixed point. A float counts as the decimal number it prints as."""
    if isinstance(value, bool) or not isinstance(
        value, int | float | Fraction | np.integer | np.floating
    ):
        raise refuse("not a number", value, "a number, 0 or more", ("cost", name))
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise refuse("not finite", float(value), "a number, 0 or more", ("cost", name))
        exact = Fraction(repr(float(value)))
    else:
        exact = Fraction(value) if isinstance(value, Fraction) else Fraction(int(value))
    fixed = round_half_up(exact * 2**bits)
    if not 0 <= fixed <= MAX_INT64:
        raise refuse("out of range", value, f"0 to {2.0 ** (63 - bits):.4g}", ("cost", name))
    return fixed


@dataclass(frozen=True)
class CostTerm:
    """The cost along one metadata column; coefficients in units of 2^-32 ns and 2^-16 bytes."""

    column: str
    constant_q32: int = 0
    linear_q32: int = 0
    quadratic_q32: int = 0
    constant_bytes_q16: int = 0
    linear_bytes_q16: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise refuse("names no column", self.column, "a column's name", ("cost", "column"))
        for name in COEFFICIENTS:
            _check_fixed(getattr(self, name), ("cost", self.column, name))


COEFFICIENTS = tuple(field.name for field in fields(CostTerm) if field.name != "column")


def _check_fixed(value: object, path: KeyPath) -> None:
    if type(value) is not int or not 0 <= value <= MAX_INT64:
        raise refuse("not a fixed-point coefficient", value, "a whole number, 0 to 2^63-1", path)


@dataclass(frozen=True)
class CostModel:
    """A cost per sample from its lengths: one polynomial per metadata column, exact.

    A sample of length s > 0 in a term's column adds `constant + linear * s + quadratic * s^2`
    nanoseconds; s = 0 adds nothing. A bin that is not empty adds `bin`. `kind` says what the model
    was built from; coefficients alone decide. Equal models are equal values.
    """

    kind: str
    terms: tuple[CostTerm, ...]
    bin_q32: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise refuse("unknown kind", self.kind, ", ".join(KINDS), ("cost", "kind"))
        if not self.terms:
            raise refuse("has no term", self.terms, "one term per column", ("cost", "terms"))
        _check_fixed(self.bin_q32, ("cost", "bin_q32"))
        ordered = tuple(sorted(self.terms, key=lambda term: term.column.encode()))
        object.__setattr__(self, "terms", ordered)
        if len({term.column for term in ordered}) != len(ordered):
            raise refuse("a column has two terms", self.columns, "one each", ("cost", "terms"))

    @property
    def columns(self) -> tuple[str, ...]:
        """The metadata columns that the model reads."""
        return tuple(term.column for term in self.terms)

    def evaluate(self, columns: Mapping[str, ArrayLike]) -> Costs:
        """Costs of many samples: a whole number per sample in each column; others are ignored."""
        from overlord._src.native import core

        for name in self.columns:
            if name not in columns:
                given = ", ".join(columns) or "none"
                raise refuse("a column that the model reads is not there", name, given)
        wanted = {name: length_column(name, columns[name]) for name in self.columns}
        return Costs(*core.cost_evaluate(self.to_dict(), wanted))

    def of(self, **lengths: int) -> tuple[int, int]:
        """(nanoseconds, bytes) of one sample, by Python's own integers; absent columns are 0."""
        cost = size = 0
        for term in self.terms:
            s = lengths.get(term.column, 0)
            if s:
                cost += term.constant_q32 + term.linear_q32 * s + term.quadratic_q32 * s * s
                size += term.constant_bytes_q16 + term.linear_bytes_q16 * s
        return _rounded(cost, COST_BITS), _rounded(size, BYTES_BITS)

    def bin_cost(self, cost_ns: Iterable[int]) -> int:
        """Nanoseconds of a bin that holds samples of these costs; 0 for an empty one."""
        costs = [int(cost) for cost in cost_ns]
        return sum(costs) + _rounded(self.bin_q32, COST_BITS) if costs else 0

    def with_memory(
        self,
        *,
        bytes_per_token: Number,
        bytes_per_sample: Number = 0,
        column: str | None = None,
    ) -> CostModel:
        """The same costs with other bytes, in `column` (default: the model's only one)."""
        if column is None and len(self.terms) == 1:
            column = self.columns[0]
        if column not in self.columns:
            allowed = ", ".join(self.columns)
            raise refuse("no such column", column, allowed, ("cost", "with_memory", "column"))
        linear = quantise(bytes_per_token, BYTES_BITS, "bytes_per_token")
        constant = quantise(bytes_per_sample, BYTES_BITS, "bytes_per_sample")
        terms = tuple(
            replace(term, linear_bytes_q16=linear, constant_bytes_q16=constant)
            if term.column == column
            else term
            for term in self.terms
        )
        return replace(self, terms=terms)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON and YAML; `from_dict` gives the same model back, to the last bit."""
        terms = [
            {"column": term.column}
            | {name: value for name in COEFFICIENTS if (value := getattr(term, name))}
            for term in self.terms
        ]
        return {"kind": self.kind, "bin_q32": self.bin_q32, "terms": terms}


def model_from_terms(data: Mapping[str, Any]) -> CostModel:
    """The model that `CostModel.to_dict` described."""
    unknown = sorted(map(str, set(data) - {"kind", "bin_q32", "terms"}))
    if unknown:
        raise refuse("unknown key", unknown[0], "kind, bin_q32, terms")
    terms = data["terms"]
    if not isinstance(terms, list) or not all(isinstance(term, Mapping) for term in terms):
        raise refuse("not a list of terms", terms, "a list of mappings", ("cost", "terms"))
    for term in terms:
        strange = sorted(map(str, set(term) - {"column", *COEFFICIENTS}))
        if strange or "column" not in term:
            allowed = ", ".join(("column", *COEFFICIENTS))
            raise refuse("wrong keys", strange or list(term), allowed, ("cost", "terms"))
    made = tuple(CostTerm(**term) for term in terms)
    return CostModel(data.get("kind", ""), made, data.get("bin_q32", 0))


def add_models(models: Iterable[CostModel]) -> CostModel:
    """The sum of models; terms of one column become one."""
    terms: dict[str, CostTerm] = {}
    total = 0
    for model in models:
        total += model.bin_q32
        for term in model.terms:
            before = terms.get(term.column, CostTerm(term.column))
            added = {name: getattr(before, name) + getattr(term, name) for name in COEFFICIENTS}
            terms[term.column] = CostTerm(term.column, **added)
    return CostModel("sum", tuple(terms.values()), total)


def length_column(name: str, values: ArrayLike) -> Int64Array:
    """A column as the engine takes it: whole numbers, one dimension, int64."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise refuse(
            "not one-dimensional", f"shape {array.shape}", "one length per sample", (name,)
        )
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu":
        raise refuse("wrong dtype", str(array.dtype), "an integer dtype", ("cost", name))
    if array.dtype == np.uint64 and int(array.max()) > MAX_INT64:
        raise refuse("a length is 2^32 or more", int(array.max()), "below 2^32", ("cost", name))
    return np.ascontiguousarray(array, dtype=np.int64)


def _rounded(fixed: int, bits: int) -> int:
    return (fixed + (1 << (bits - 1))) >> bits
