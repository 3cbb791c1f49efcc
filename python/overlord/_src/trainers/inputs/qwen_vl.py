"""What models of the Qwen-VL family in transformers take: text, pictures, clips, four planes."""

from __future__ import annotations

from typing import Any

import numpy as np

from overlord._src.errors import refused
from overlord._src.trainers.inputs.fields import (
    beside,
    check_whole,
    marked_targets,
    moved_back,
    needed,
)


def inputs(
    batch: Any,
    *,
    image: str = "image",
    video: str = "video",
    merge: int = 2,
    loss: bool = True,
    averaged_over: int = 1,
) -> dict[str, Any]:
    """input_ids, position_ids [4, rows, tokens], pixel_values, image_grid_thw and labels.

    `image` and `video` name the media fields that are pictures and clips. Of the four planes the
    first counts tokens, which tells packed documents apart, and three are those of time, height and
    width. `shift_labels` are ours, already shifted; `labels` the same moved back, without which
    models compute no loss. `averaged_over`: ranks over which gradients are averaged.
    """
    check_whole(batch, "qwen_vl")
    fields = needed(batch, "qwen_vl", "tokens", "targets", "loss_weights", "positions")
    media = batch.media
    names = [name for name in (image, video) if name in media]
    planes = batch.mrope_positions(merge, names)
    positions = np.concatenate([batch.positions[None], planes]).astype(np.int64)
    out = {
        "input_ids": fields["tokens"].long(),
        "position_ids": beside(positions, fields["tokens"]),
        "use_cache": False,
    }
    for name, pixels, grid in (
        (image, "pixel_values", "image_grid_thw"),
        (video, "pixel_values_videos", "video_grid_thw"),
    ):
        if name in names:
            out |= {
                pixels: _data(media[name]),
                grid: beside(media[name].grid_thw, fields["tokens"]),
            }
    if loss:
        shifted = marked_targets(batch, fields, "qwen_vl")
        out["labels"] = moved_back(batch, shifted, "qwen_vl")
        out["shift_labels"] = shifted
        out["num_items_in_batch"] = batch.step_target_tokens / averaged_over
    return out


def _data(media: Any) -> Any:
    if media.data is None:
        raise refused(
            ("model_inputs", "qwen_vl"),
            f"media {media.name}: this rank gets no data, only where it belongs",
            advice="without strategy.encoder, and on ranks that have tokens",
        )
    return media.torch()
