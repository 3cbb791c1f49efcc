"""Mixtures inside a mixture: a group of sources with one weight, and weights inside the group."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from overlord._src.config.field_types import refused_value

_FORM = "{weight: RATIO, of: {source: RATIO, ...}}"


def _flat(value: Any) -> Any:
    """Every source with its part of its group's weight; what holds no group stays as it is."""
    if not isinstance(value, Mapping) or not any(isinstance(v, Mapping) for v in value.values()):
        return value
    out: dict[str, Any] = {}
    for name, weight in value.items():
        inside = _members(name, weight) if isinstance(weight, Mapping) else {name: weight}
        twice = sorted(set(inside) & set(out))
        if twice:
            raise refused_value(
                f"the source {twice[0]} stands twice, outside of the group {name} too",
                "each source once",
            )
        out |= inside
    return out


def _members(name: str, group: Mapping[str, Any]) -> dict[str, float]:
    if set(group) != {"weight", "of"} or not isinstance(group["of"], Mapping):
        raise refused_value(f"{name} is a mapping, and no group of sources", _FORM)
    weights = _flat(group["of"])
    numbers = [_exact(name, weight) for weight in (group["weight"], *weights.values())]
    total = sum(numbers[1:], Fraction(0))
    if total <= 0:
        raise refused_value(f"the group {name} has no weight inside", _FORM, "raise one of them")
    parts = (numbers[0] * weight / total for weight in numbers[1:])
    return {source: float(part) for source, part in zip(weights, parts, strict=True)}


def _exact(name: str, weight: Any) -> Fraction:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < 2**64:
        raise refused_value(f"{weight!r} in the group {name} is no weight", "a finite number >= 0")
    return Fraction(repr(float(weight)))


Weights = Annotated[
    dict[str, float],
    BeforeValidator(_flat),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["number", "object"]}}),
]
