"""Positions of patches between those of a learnt table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _between(size: int, side: int) -> tuple[Array, Array, Array]:
    """For `size` places spread over 0 to side - 1: the neighbours and how far from the lower."""
    place = np.linspace(0, side - 1, size, dtype=np.float64).astype(np.float32)
    low = place.astype(np.int64)
    return low, np.minimum(low + 1, side - 1), place - low.astype(np.float32)


def interpolated_positions(grids: Array, side: int, merge: int) -> tuple[Array, Array]:
    """See `Media.interpolated_positions`."""
    indexes: list[Array] = []
    weights: list[Array] = []
    for t, high, wide in grids.tolist():
        if high % merge or wide % merge:
            raise ValueError(f"a grid of {high} x {wide} patches does not divide by merge {merge}")
        up, down, lower = _between(high, side)
        left, right, further = _between(wide, side)
        rows = np.stack([up, up, down, down])[:, :, None] * side
        index = rows + np.stack([left, right, left, right])[:, None, :]
        above, before = (1 - lower)[:, None], (1 - further)[None, :]
        below, behind = lower[:, None], further[None, :]
        weight = np.stack([above * before, above * behind, below * before, below * behind])
        for parts, out in ((index, indexes), (weight, weights)):
            cut = parts.reshape(4, high // merge, merge, wide // merge, merge)
            ordered = cut.transpose(0, 1, 3, 2, 4).reshape(4, -1)
            out.append(np.tile(ordered, (1, t)))
    if not indexes:
        return np.zeros((4, 0), np.int64), np.zeros((4, 0), np.float32)
    return np.concatenate(indexes, axis=1), np.concatenate(weights, axis=1)
