"""What NeMo Automodel's recipes take for packed sequences ("thd")."""

from __future__ import annotations

from typing import Any

import numpy as np

from overlord._src.batch.tensors import as_tensor
from overlord._src.trainers.inputs.fields import (
    check_whole,
    marked_targets,
    needed,
    row_boundaries,
)

NO_PACK = -1000  # fills up rows that have fewer documents than others


def inputs(batch: Any) -> dict[str, Any]:
    """input_ids, labels (already shifted, -100 ignored) and position_ids, int64 [rows, tokens].

    `seq_lens` and `seq_lens_padded`, int64 [rows, most documents of a row]: their lengths without
    and with the padding behind them, then -1000. Its losses do not shift labels.
    """
    check_whole(batch, "automodel")
    fields = needed(batch, "automodel", "tokens", "targets", "loss_weights", "positions")
    real, padded, _ = row_boundaries(batch, int(batch.tokens.shape[0]))
    most = max(len(row) for row in real) - 1
    lengths = {}
    for name, rows in (("seq_lens", real), ("seq_lens_padded", padded)):
        filled = np.full((len(rows), most), NO_PACK, np.int64)
        for out, row in zip(filled, rows, strict=True):
            out[: len(row) - 1] = np.diff(row)
        lengths[name] = as_tensor(filled)
    return {
        "input_ids": fields["tokens"].long(),
        "labels": marked_targets(batch, fields, "automodel"),
        "position_ids": fields["positions"].long(),
        **lengths,
        "qkv_format": "thd",
    }
