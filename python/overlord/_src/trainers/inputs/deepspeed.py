"""What loops under DeepSpeed take: a dict, or for its pipeline engine inputs and labels."""

from __future__ import annotations

from typing import Any

from overlord._src.trainers.inputs.fields import check_whole, marked_targets, needed


def inputs(batch: Any, *, pipeline: bool = False) -> dict[str, Any]:
    """input_ids, position_ids and shift_labels (int64, -100 ignored), [rows, tokens of the slice].

    The names of its sequence parallelism, whose ranks want contiguous slices
    (`delivery.cp_slicing: contiguous`), with labels that are already shifted. `pipeline`: `inputs`,
    the first two as a tuple, and `labels`; None on the stages that do not read them.
    """
    if not pipeline:
        fields = needed(batch, "deepspeed", "tokens", "targets", "loss_weights", "positions")
        return {
            "input_ids": fields["tokens"].long(),
            "position_ids": fields["positions"].long(),
            "shift_labels": marked_targets(batch, fields, "deepspeed"),
        }
    fields, first, last = batch.torch(), None, None
    if "tokens" in fields:
        check_whole(batch, "deepspeed")
        first = (fields["tokens"].long(), fields["positions"].long())
    if "targets" in fields:
        last = marked_targets(batch, fields, "deepspeed")
    return {"inputs": first, "labels": last}
