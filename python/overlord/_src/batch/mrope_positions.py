"""Positions in three planes, as models with media count them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.batch.media import Media
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
