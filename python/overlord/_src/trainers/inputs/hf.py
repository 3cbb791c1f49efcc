"""Inputs of Hugging Face models: packed documents that do not see each other, no second shift.

What these models do by themselves, and what is given so that they do it right:

- They shift `labels` inside. `shift_labels` are what we have, already shifted, and win where the
  model's loss takes them. `labels` are there as well, moved back by one place, for models compute a
  loss only where they see them. A row's last place has no such label, which counts where a document
  was cut there; without `shift_labels` that is refused.
- They see where documents begin by `position_ids`, if there is neither a mask nor a cache:
  `use_cache` is False. Flash attention does so only for one row, so rows are laid end to end unless
  the model is known to look at each (`flatten`).
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from overlord._src.errors import refused
from overlord._src.trainers.inputs.fields import (
    beside,
    cut_at_the_end,
    marked_targets,
    needed,
    one_back,
)

_BY_ROW = ("sdpa", "eager", "flex_attention")  # documents are told apart in every row
_WRAPPED = ("module", "_orig_mod", "base_model")


def inputs(
    batch: Any,
    *,
    model: Any = None,
    loss: bool = True,
    averaged_over: int = 1,
    varlen: bool = False,
    seq_idx: bool = False,
    flatten: bool | None = None,
) -> dict[str, Any]:
    """Keyword arguments of a causal language model of transformers.

    `model`: it, or one that wraps it, looked at for what its forward takes. `loss` False: only what
    is needed for logits. `averaged_over`: ranks over which gradients are averaged (the size of DDP
    or FSDP): losses summed, divided by `num_items_in_batch`, and averaged so, are those of the
    whole step. `varlen`, `seq_idx`: boundaries for kernels that want them besides. `flatten`: lay
    the rows end to end as [1, tokens]; None: where the attention needs it.
    """
    fields = needed(
        batch, "hf", "tokens", "positions", *(("targets", "loss_weights") if loss else ())
    )
    inner = _unwrapped(model)
    flat = _is_flat(batch, inner, varlen or seq_idx) if flatten is None else flatten
    tokens = fields["tokens"]
    shape = (1, -1) if flat else tuple(tokens.shape)
    given = {
        "input_ids": tokens.long().view(shape),
        "position_ids": fields["positions"].long().view(shape),
        "use_cache": False,
    }
    if varlen:
        given |= _boundaries(batch, fields)
    if seq_idx:
        given["seq_idx"] = _document_numbers(batch, fields).view(shape)
    if loss:
        given |= _losses(batch, fields, inner, shape, averaged_over)
    return given


def _losses(
    batch: Any, fields: dict[str, Any], model: Any, shape: tuple[int, ...], averaged_over: int
) -> dict[str, Any]:
    shifted = marked_targets(batch, fields, "hf").view(shape)
    counted = max(batch.step_target_tokens, 1) / averaged_over
    given = {"labels": one_back(shifted), "num_items_in_batch": counted}
    if model is None or takes(model, "shift_labels"):
        given["shift_labels"] = shifted
    elif cut_at_the_end(batch) or _is_slice(batch):
        raise refused(
            ("model_inputs", "hf"),
            f"{type(model).__name__} shifts its labels itself and takes no `shift_labels`, and the "
            "last target of a row is of a document that was cut there",
            advice="compute the loss from logits (loss=False) with `targets` and `loss_weights`, "
            "or pack without cutting (packing: best_fit, over_length: truncate or drop)",
        )
    if model is not None and not takes(model, "num_items_in_batch"):
        del given["num_items_in_batch"]
    return given


def _is_slice(batch: Any) -> bool:
    return bool(batch.cu_seqlens_padded[-1] != batch.tokens.size)


def _boundaries(batch: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """For kernels over variable lengths: of every place, padding included."""
    padded = fields["cu_seqlens_padded"]
    longest = int(np.diff(batch.cu_seqlens_padded).max())
    return {
        "cu_seq_lens_q": padded,
        "cu_seq_lens_k": padded,
        "max_length_q": longest,
        "max_length_k": longest,
    }


def _document_numbers(batch: Any, fields: dict[str, Any]) -> Any:
    lengths = np.diff(batch.cu_seqlens_padded)
    numbers = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    return beside(numbers, fields["positions"])


def _is_flat(batch: Any, model: Any, boundaries: bool) -> bool:
    if boundaries or batch.tokens.shape[0] == 1:
        return True
    config = getattr(model, "config", None)
    return getattr(config, "_attn_implementation", None) not in _BY_ROW


def _unwrapped(model: Any) -> Any:
    """The model inside what trains, compiles or adapts it."""
    found = True
    while found:
        found = False
        for name in _WRAPPED:
            inner = getattr(model, name, None)
            if inner is not None and inner is not model and hasattr(inner, "forward"):
                # PreTrainedModel.base_model is the part without the head.
                if name == "base_model" and not hasattr(model, "peft_config"):
                    continue
                model, found = inner, True
                break
    return model


def takes(model: Any, name: str) -> bool:
    """Whether a model's forward takes a keyword, or passes it on to a loss that does."""
    words = inspect.signature(model.forward).parameters
    if name in words:
        return True
    loss = getattr(model, "loss_function", None)
    if loss is None or not any(word.kind is word.VAR_KEYWORD for word in words.values()):
        return False
    return name in inspect.signature(loss).parameters
