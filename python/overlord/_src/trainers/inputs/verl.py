"""What verl's SFT engines take: documents by themselves, and a mask at the tokens themselves."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from overlord._src.errors import refused
from overlord._src.trainers.inputs.fields import check_whole, marked_targets, needed


def inputs(
    batch: Any, *, padded: bool = False, pad_token: int = 0, max_length: int | None = None
) -> dict[str, Any]:
    """input_ids, position_ids and loss_mask (int64), nested (jagged) with a row per document.

    The engine predicts each token from those before it and moves the mask along: a token's mask
    says whether it is learnt itself, so that of a first token is 0. `padded` gives plain tensors,
    filled up at the right to `max_length` or the longest document, and an `attention_mask`.
    """
    check_whole(batch, "verl")
    fields = needed(batch, "verl", "tokens", "targets", "loss_weights", "positions")
    counted = (marked_targets(batch, fields, "verl") >= 0).long().flatten()
    flat = {"input_ids": "tokens", "position_ids": "positions"}
    rows: dict[str, list[Any]] = {name: [] for name in (*flat, "loss_mask")}
    starts, lengths = batch.cu_seqlens_padded[:-1], np.diff(batch.cu_seqlens)
    for begin, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        if not length:
            continue
        for name, ours in flat.items():
            rows[name].append(fields[ours].flatten()[begin : begin + length].long())
        rows["loss_mask"].append(_moved(counted[begin : begin + length]))
    if padded:
        return _padded(rows, pad_token, max_length)
    torch: Any = importlib.import_module("torch")
    return {
        name: torch.nested.as_nested_tensor(parts, layout=torch.jagged)
        for name, parts in rows.items()
    }


def _moved(counted: Any) -> Any:
    """From the places that predict to the tokens that are predicted."""
    if bool(counted[-1]):
        raise refused(
            ("model_inputs", "verl"),
            "the last target of a document that was cut has loss, and verl finds targets among "
            "the tokens of the row",
            advice="pack without cutting: packing best_fit, over_length truncate or drop",
        )
    mask = counted.new_zeros(counted.shape)
    mask[1:] = counted[:-1]
    return mask


def _padded(rows: dict[str, list[Any]], pad_token: int, max_length: int | None) -> dict[str, Any]:
    longest = max(len(part) for part in rows["input_ids"])
    length = longest if max_length is None else max_length
    if longest > length:
        raise refused(("max_length",), "less than the longest document", length, f">= {longest}")
    rows["attention_mask"] = [part.new_ones(part.shape) for part in rows["input_ids"]]
    out = {}
    for name, parts in rows.items():
        filled = parts[0].new_full((len(parts), length), pad_token if name == "input_ids" else 0)
        for row, part in zip(filled, parts, strict=True):
            row[: len(part)] = part
        out[name] = filled
    return out
