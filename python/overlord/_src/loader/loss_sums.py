"""Sums by source: of losses as a trainer reports them, and of what the mixture has asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_LOSS_ONE = 2**12  # as in the engine


def known_source(name: str, names: Sequence[str]) -> bool:
    """True, or an error that names the sources there are."""
    if name not in names:
        raise ValueError(f"losses: no source {name!r} in this stream; sources: {', '.join(names)}")
    return True


def quantised(name: str, loss_sum: float, tokens: int) -> tuple[int, int]:
    """A loss sum as the engine counts it: in units of 2**-12, exactly rounded."""
    if not math.isfinite(loss_sum) or abs(loss_sum) > 2**32:
        raise ValueError(
            f"losses: the loss sum of source {name} is {loss_sum}; report finite sums, and leave "
            "out what cannot be used"
        )
    if int(tokens) != tokens or not 0 <= tokens <= 2**46:
        raise ValueError(f"losses: the token count of source {name} is {tokens}")
    return round(float(loss_sum) * _LOSS_ONE), int(tokens)


def shares_asked(sources: Mapping[str, Any], unit: str) -> dict[str, float]:
    """The share that each source of a described state was asked for since step 0."""
    key = "samples" if unit == "samples" else "tokens"
    asked = {name: float(source[key]) + source["debt"] for name, source in sources.items()}
    total = sum(asked.values()) or 1.0
    return {name: value / total for name, value in asked.items()}
