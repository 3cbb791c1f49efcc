"""Inputs as MaxText's pipelines give them: documents numbered in each row, 0 where nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np

from overlord._src.errors import refused


def inputs(batch: Any) -> dict[str, Any]:
    """NumPy arrays int32 [rows, context], as this process has them.

    Targets have the number 0 where they carry no loss: MaxText weighs by that.
    """
    if batch.tokens is None or batch.targets is None:
        raise refused(
            ("model_inputs", "maxtext"),
            "this rank has no tokens or no targets",
            advice="set delivery.all_stages to true",
        )
    rows, columns = batch.tokens.shape
    starts = batch.cu_seqlens_padded
    if starts[-1] != rows * columns:
        raise refused(
            ("delivery", "cp_slicing"),
            "MaxText slices its context itself",
            allowed="trainer",
        )
    lengths = np.diff(batch.cu_seqlens)
    place = np.arange(rows * columns) - np.repeat(starts[:-1], np.diff(starts))
    real = place < np.repeat(lengths, np.diff(starts))
    first = np.searchsorted(starts, np.arange(rows) * columns)  # document that begins each row
    number = np.repeat(np.arange(len(lengths)), np.diff(starts)).reshape(rows, columns)
    documents = (number - first[:, None] + 1) * real.reshape(rows, columns)
    counted = documents * (batch.loss_weights > 0)
    given = {
        "inputs": batch.tokens,
        "inputs_position": batch.positions,
        "inputs_segmentation": documents,
        "targets": batch.targets,
        "targets_position": batch.positions,
        "targets_segmentation": counted,
    }
    return {name: array.astype(np.int32) for name, array in given.items()}
