"""What Qwen2-Audio in transformers takes: text, and spectrograms of all sounds one by one."""

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


def inputs(batch: Any, *, audio: str = "audio", loss: bool = True) -> dict[str, Any]:
    """input_ids, position_ids, labels, input_features [sounds, mels, frames] and their mask.

    `audio` names the media field: one chunk per sound, by `fit` and `log_mel`. The model shifts
    `labels` and takes the mean over its own microbatch; with `loss=False` there are none, and
    `targets` and `loss_weights` are yours to use with its logits.
    """
    check_whole(batch, "qwen_audio")
    fields = needed(batch, "qwen_audio", "tokens", "targets", "loss_weights", "positions")
    out = {
        "input_ids": fields["tokens"].long(),
        "position_ids": fields["positions"].long(),
        "use_cache": False,
    }
    sounds = batch.media.get(audio)
    if sounds is not None:
        chunks, frames, real = sounds.grid_thw.T
        if sounds.data is None or sounds.data.ndim != 3 or (chunks != 1).any():
            raise refused(
                ("model_inputs", "qwen_audio"),
                f"media {audio}: not one spectrogram per sound",
                advice="transform: [mono, resample: {rate: 16000}, fit: {samples: 480000}, "
                "log_mel: {mels: 128, tokens: qwen2_audio}]",
            )
        mask = np.arange(int(frames.max())) < real[:, None]
        out["input_features"] = sounds.torch()
        out["feature_attention_mask"] = beside(mask.astype(np.int64), fields["tokens"])
    if loss:
        shifted = marked_targets(batch, fields, "qwen_audio")
        out["labels"] = moved_back(batch, shifted, "qwen_audio")
    return out
