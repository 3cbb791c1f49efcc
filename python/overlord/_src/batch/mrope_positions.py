"""Positions as models with media want them: in three planes, or between those of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.media_batch import Media
from overlord._src.native import core

Array = npt.NDArray[Any]


def _spans(media: Mapping[str, Media], names: Sequence[str], merge: int) -> list[list[int]]:
    """First token, then tokens in time, height and width, of every item of the fields."""
    found: list[list[int]] = []
    for name in names:
        if name not in media:
            continue
        grids = media[name].grid_thw // [1, merge, merge]
        for (first, end), grid in zip(media[name].token_spans, grids, strict=True):
            if end - first != grid.prod():
                raise ValueError(
                    f"media {name}: an item of {end - first} placeholders has a grid of "
                    f"{' x '.join(map(str, grid))} after merging {merge} x {merge} patches; name "
                    "the fields whose placeholders are patches in `fields`, or another `merge`"
                )
            found.append([int(first), *map(int, grid)])
    return sorted(found)


def patched_fields(media: Mapping[str, Media], merge: int) -> list[str]:
    """The fields whose placeholders stand for merged patches."""

    def fits(one: Media) -> bool:
        tokens = one.token_spans[:, 1] - one.token_spans[:, 0]
        return bool((tokens == (one.grid_thw // [1, merge, merge]).prod(axis=1)).all())

    return [name for name, one in media.items() if fits(one)]


def mrope_positions(
    starts: Array,
    lengths: Array,
    media: Mapping[str, Media],
    names: Sequence[str],
    merge: int,
) -> Array:
    """int32 [3, tokens of the whole microbatch]: each document alone, 0 where there is none."""
    spans = _spans(media, names, merge)
    planes = np.zeros((3, int(starts[-1])), np.int32)
    for begin, length in zip(starts[:-1].tolist(), lengths.tolist(), strict=True):
        own = [(first - begin, t, h, w) for first, t, h, w in spans if 0 <= first - begin < length]
        counted: Any = core.mrope_positions(length, own)
        planes[:, begin : begin + length] = counted
    return planes


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
