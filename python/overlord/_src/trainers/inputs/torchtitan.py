"""What torchtitan's loaders give: `input` and what goes to every stage beside it, and `labels`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from overlord._src.trainers.inputs.fields import (
    beside,
    check_whole,
    counted_positions,
    marked_targets,
    needed,
)

_MEDIA = (
    ("image", "pixel_values", "grid_thw"),
    ("video", "pixel_values_videos", "grid_thw_videos"),
)


def inputs(
    batch: Any,
    *,
    folded: bool = False,
    mrope: bool = False,
    special_tokens: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """input, positions and labels (int64, -100 ignored): [rows, tokens], `folded` [rows * tokens].

    Media fields named `image` and `video` come as `pixel_values` and `grid_thw`, and as
    `pixel_values_videos` and `grid_thw_videos`. `mrope` adds `mrope_positions`, three planes last.
    """
    check_whole(batch, "torchtitan")
    fields = needed(batch, "torchtitan", "tokens", "targets", "loss_weights", "positions")
    out = {
        "input": fields["tokens"].long(),
        "positions": beside(counted_positions(batch), fields["tokens"]),
        "labels": marked_targets(batch, fields, "torchtitan"),
    }
    if mrope:
        planes = np.moveaxis(batch.mrope_positions(), 0, -1).astype(np.int64)
        out["mrope_positions"] = beside(planes, fields["tokens"])
    if folded:
        out = {name: tensor.flatten(0, 1) for name, tensor in out.items()}
    media = batch.media
    for name, pixels, grid in _MEDIA:
        if name in media and media[name].data is not None:
            out |= {
                pixels: media[name].torch(),
                grid: beside(media[name].grid_thw, fields["tokens"]),
            }
    if special_tokens is not None:
        out["special_tokens"] = dict(special_tokens)
    return out
