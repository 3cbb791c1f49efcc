"""Rows of a media slab back to pictures, as the model sees them: patches put together, levels back.

What a chain did is read from its text; what it cut away or shrank stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Steps = dict[str, dict[str, str]]


def chain_steps(text: str) -> Steps:
    """Steps of a chain in its text form, by name; their options as text."""
    steps: Steps = {}
    for part in text.split(";"):
        name, *options = part.split()
        steps[name] = dict(option.split("=", 1) for option in options)
    return steps


def pictures_of(rows: Any, grid_thw: Sequence[int], chain: str) -> list[Pixels]:
    """The pictures of one item, height x width x 3: one, or one for each tile or frame."""
    steps = chain_steps(chain)
    array = np.asarray(rows)
    if "patchify" in steps:
        planes = _whole_planes(array, [int(side) for side in grid_thw], steps["patchify"])
    elif "planes" in steps:
        planes = array
    else:
        planes = array.transpose(0, 3, 1, 2)
    if "normalise" in steps:
        planes = _levels(planes, steps["normalise"])
    if planes.shape[1] == 1:
        planes = planes.repeat(3, axis=1)
    return [np.ascontiguousarray(one.transpose(1, 2, 0)) for one in planes]


def _whole_planes(rows: Any, grid: list[int], options: dict[str, str]) -> Any:
    """Patches as pictures: [times, channels, height, width]."""
    times, high, wide = grid
    patch, merge = int(options["patch"]), int(options.get("merge", 1))
    channels = rows.shape[1] // (int(options.get("temporal", 1)) * patch * patch)
    if options["layout"] == "vit_last":
        cut = rows.reshape(times, high, wide, patch, patch, channels).transpose(0, 5, 1, 3, 2, 4)
    elif options["layout"] == "vit":
        cut = rows.reshape(times, high, wide, channels, patch, patch).transpose(0, 3, 1, 4, 2, 5)
    else:  # blocks of merge x merge patches; a still is in every frame of a patch
        shape = (times, high // merge, wide // merge, merge, merge, channels, -1, patch, patch)
        cut = rows.reshape(shape)[:, :, :, :, :, :, 0].transpose(0, 5, 1, 3, 6, 2, 4, 7)
    return cut.reshape(times, channels, high * patch, wide * patch)


def _levels(planes: Any, options: dict[str, str]) -> Any:
    """Normalised values as levels from 0 to 255."""

    def per_channel(name: str) -> Any:
        values = [float(value) for value in options[name].split(",")]
        return np.array(values, np.float64)[None, : planes.shape[1], None, None]

    shares = planes.astype(np.float64) * per_channel("std") + per_channel("mean")
    return np.clip(np.rint(shares * 255), 0, 255).astype(np.uint8)
