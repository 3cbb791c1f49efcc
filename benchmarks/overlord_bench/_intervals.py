"""An interval around a median that asks nothing of how the numbers are spread."""

from __future__ import annotations

import math
from collections.abc import Sequence


def of_median(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """Two of the values between which the median lies, and with what confidence.

    By the sign test: the narrowest pair of ranks, as far from both ends, that is confident enough;
    of fewer than six values least and most, which are less.
    """
    ordered, count = sorted(values), len(values)

    def held(rank: int) -> float:
        return 1 - float(2 * sum(math.comb(count, below) for below in range(rank)) / 2**count)

    ranks = [rank for rank in range(1, (count + 1) // 2 + 1) if held(rank) >= confidence]
    rank = max(ranks, default=1)
    return ordered[rank - 1], ordered[count - rank], held(rank)
