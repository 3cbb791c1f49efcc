"""Batches as Megatron-LM's loops take them from an external loader."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.batch.tensors import as_tensor
from overlord._src.errors import refused
from overlord._src.trainers.inputs.fields import row_boundaries

Array = npt.NDArray[Any]


def inputs(
    batch: Any, *, packed: str | bool = False, hybrid: bool = False, rows: int | None = None
) -> dict[str, Any]:
    """tokens, labels, position_ids (int64) and loss_mask (float32), those that this rank has.

    `packed` adds boundaries, int32 [rows, length of a row + 1]: `True` (the same as "covering")
    `cu_seqlens` that cover every place, so that padding belongs to the document before it;
    "padded" the real ones as `cu_seqlens`, and these as `cu_seqlens_padded`. `hybrid` says in
    `local_cp_size` over how many ranks this microbatch's sequences are cut, and gives the
    boundaries of their parts here. `rows` of the microbatch, for ranks that have nothing else.
    """
    fields = batch.torch()
    out = {}
    for name, ours in (("tokens", "tokens"), ("labels", "targets"), ("position_ids", "positions")):
        if ours in fields:
            out[name] = fields[ours].long()
    if "loss_weights" in fields:
        out["loss_mask"] = fields["loss_weights"].float()
    if "labels" in out:  # a pad token may be none that the model has
        out["labels"] = out["labels"].masked_fill(out["loss_mask"] == 0, 0)
    if hybrid:
        out["local_cp_size"] = as_tensor(np.asarray(_ranks_of(batch), np.int32))
    if packed or hybrid:
        out |= _boundaries(batch, _rows(out, rows), "covering" if packed is True else packed)
    return out


def _ranks_of(batch: Any) -> int:
    share = batch.hdp
    if share is None:
        raise refused(
            ("model_inputs", "megatron", "hybrid"),
            "the job does not cut each sequence over ranks of its own",
            advice="give it strategy.hybrid (docs/reference/hdp.md)",
        )
    return len(share.ranks)


def _rows(out: dict[str, Any], rows: int | None) -> int:
    some = out.get("tokens", out.get("labels"))
    return (rows or 1) if some is None else int(some.shape[0])


def _boundaries(batch: Any, rows: int, kind: str | bool) -> dict[str, Any]:
    if kind not in ("covering", "padded", False):
        raise refused(
            ("model_inputs", "megatron", "packed"), "no such kind", kind, "covering, padded"
        )
    real, padded, length = row_boundaries(batch, rows)
    covering = [_filled(row, length) for row in padded]
    longest = np.asarray([np.diff(row).max() for row in padded], np.int32)
    out = {"cu_seqlens": np.stack(covering), "max_seqlen": longest}
    if kind == "padded":
        # What fills it up adds nothing: documents behind the last one are empty.
        out["cu_seqlens_padded"] = out["cu_seqlens"]
        out["cu_seqlens"] = np.stack([_filled(row, length) for row in real])
    return {name: as_tensor(value) for name, value in out.items()}


def _filled(row: Array, length: int) -> Array:
    filled = np.full(length + 1, row[-1], np.int32)
    filled[: len(row)] = row
    return filled
