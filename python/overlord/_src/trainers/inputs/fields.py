"""Fields of a microbatch as several forms want them: places without documents, marked targets."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.batch.tensors import as_tensor
from overlord._src.errors import refused

Array = npt.NDArray[Any]
IGNORED = -100


def needed(batch: Any, form: str, *names: str) -> dict[str, Any]:
    """The tensors of a batch, all of these among them."""
    fields: dict[str, Any] = batch.torch()
    missing = [name for name in names if name not in fields]
    if missing:
        raise refused(
            ("model_inputs", form),
            f"this rank has no {', '.join(missing)}",
            advice="set delivery.all_stages to true, and no delivery.broadcast along its axes",
        )
    return fields


def check_whole(batch: Any, form: str) -> None:
    """Documents in one piece, as they are without context parallelism."""
    if batch.tokens.size != int(batch.cu_seqlens_padded[-1]) or batch.hdp is not None:
        raise refused(
            ("model_inputs", form),
            "this rank has a slice of each sequence",
            advice="set delivery.cp_slicing to trainer, or make the mesh without cp",
        )


def marked_targets(batch: Any, fields: dict[str, Any], form: str) -> Any:
    """int64 targets, already shifted, -100 where they carry no loss."""
    weights = batch.loss_weights
    if weights.dtype.kind == "f" and not np.isin(weights, (0, 1)).all():
        raise refused(
            ("model_inputs", form),
            "a batch transform gave weights other than 0 and 1, and this trainer counts a target "
            "or does not",
            advice="weigh the losses of single tokens by `loss_weights` in a loop of your own",
        )
    return fields["targets"].long().masked_fill(fields["loss_weights"] == 0, IGNORED)


def moved_back(batch: Any, shifted: Any, form: str) -> Any:
    """Labels for models that shift them: at the place of the token itself, -100 elsewhere."""
    if cut_at_the_end(batch):
        raise refused(
            ("model_inputs", form),
            "the last target of a row is of a document that was cut there, and labels that the "
            "model shifts cannot hold it",
            advice="pack without cutting: packing best_fit, over_length truncate or drop",
        )
    return one_back(shifted)


def cut_at_the_end(batch: Any) -> bool:
    """Whether a row's last target carries loss: of a document that was cut there.

    Of the host's arrays, for asking a device would wait until it has done all before.
    """
    return bool((batch.loss_weights[:, -1] != 0).any())


def beside(array: Array, like: Any) -> Any:
    """A tensor of what was made on the host, where `like` is, and no wait for that device."""
    tensor = as_tensor(array)
    if like.device.type == "cuda":
        return tensor.pin_memory().to(like.device, non_blocking=True)
    return tensor.to(like.device)


def one_back(shifted: Any) -> Any:
    """Every target one place on, where models that shift look for it; a row's last has no place."""
    labels = shifted.new_full(shifted.shape, IGNORED)
    labels[:, 1:] = shifted[:, :-1]
    return labels


def padding(batch: Any) -> Array:
    """Bool, shaped like this rank's tokens or targets: places that no document has."""
    holds = np.zeros(int(batch.cu_seqlens_padded[-1]) + 1, np.int8)
    starts, lengths = batch.cu_seqlens_padded[:-1], np.diff(batch.cu_seqlens)
    np.add.at(holds, starts, 1)
    np.add.at(holds, starts + lengths, -1)
    outside: Array = np.cumsum(holds[:-1], dtype=np.int8) == 0
    like = batch.tokens if batch.tokens is not None else batch.targets
    index = batch.token_index
    return outside.reshape(like.shape) if index is None else outside[index]


def counted_positions(batch: Any) -> Array:
    """int64 positions, in which every gap between documents counts from 0 like one of its own.

    For trainers that take each 0 for the start of a document: padding is then few of them.
    """
    gap = padding(batch)
    places = np.broadcast_to(np.arange(gap.shape[1]), gap.shape)
    begins = gap & ~np.pad(gap, ((0, 0), (1, 0)))[:, :-1]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    counted: Array = np.where(gap, places - first, batch.positions).astype(np.int64)
    return counted


def row_boundaries(batch: Any, rows: int) -> tuple[list[Array], list[Array], int]:
    """Boundaries of every row, counted from its start, real and padded, and the length of rows."""
    real, padded = batch.cu_seqlens, batch.cu_seqlens_padded
    length = int(padded[-1]) // rows
    cuts = np.searchsorted(padded, np.arange(rows + 1) * length)
    parts = [slice(begin, end + 1) for begin, end in itertools.pairwise(cuts.tolist())]
    own = [[bounds[part] - bounds[part.start] for part in parts] for bounds in (real, padded)]
    return own[0], own[1], length
