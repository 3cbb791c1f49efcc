"""Made-up costs of sequences for the balancers: web and long-tail lengths, alike for all."""

from __future__ import annotations

from typing import Any

import numpy as np

# mu and sigma of the log-normal, and the longest sequence.
SHAPES = {"web": (6.6, 1.2, 32_768), "long": (7.4, 1.7, 131_072)}


def draw_costs(shape: str, count: int) -> Any:
    """Work of `count` sequences: 24,576 s + s * s, in the constants of a 7B model."""
    mu, sigma, longest = SHAPES[shape]
    drawn = np.random.default_rng(11).lognormal(mu, sigma, count)
    lengths = np.clip(drawn, 1, longest).astype(np.int64)
    return 24_576 * lengths + lengths * lengths


def max_load(costs: Any, bin_of: Any, bins: int) -> int:
    """Load of the fullest bin, exactly."""
    loads = np.zeros(bins, np.int64)
    np.add.at(loads, bin_of, costs)
    return int(loads.max())
