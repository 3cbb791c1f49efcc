"""The best packer we could write in NumPy: documents concatenated and cut at sequence ends.

A step costs two list comprehensions over its documents and a dozen calls into NumPy; no Python runs
per token. All four matrices lie in one slab, because one large allocation costs least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

Documents = list[Any]  # one-dimensional arrays of token ids
Batch = dict[str, Any]
FIELDS = ("tokens", "targets", "positions", "loss_weights")


def allocate(count: int) -> Any:
    """Memory for the four matrices of a step of `count` tokens."""
    return np.empty((4, count), np.int32)


def name_fields(step: tuple[Any, Any], context: int) -> Batch:
    """The fields of a packed step as views of its slab, an array or a torch tensor."""
    slab, cu_seqlens = step
    rows = slab.reshape(4, -1, context)
    weights = rows[3].view(np.float32) if isinstance(slab, np.ndarray) else _float_view(rows[3])
    return {
        "tokens": rows[0],
        "targets": rows[1],
        "positions": rows[2],
        "loss_weights": weights,
        "cu_seqlens": cu_seqlens,
    }


def _float_view(tensor: Any) -> Any:
    import torch

    return tensor.view(torch.float32)


class NumpyPacker:
    """Fills steps of `bins` sequences of `context` tokens; what is over goes to the next step."""

    def __init__(self, context: int, bins: int, allocate: Callable[[int], Any] = allocate) -> None:
        self.context = context
        self.step_tokens = context * bins
        self._allocate = allocate
        self._iota = np.arange(context, dtype=np.int32)
        self._row_ends = np.arange(1, bins + 1, dtype=np.int64) * context
        self._waiting: Documents = []

    def pack(self, documents: Iterable[Documents]) -> Iterator[tuple[Any, Any]]:
        """(slab, cu_seqlens) of step after step, from lists of documents."""
        for more in documents:
            yield from self.add(more)

    def add(self, more: Documents) -> Iterator[tuple[Any, Any]]:
        """The steps that these documents complete."""
        waiting = self._waiting + more
        ends = np.cumsum(np.fromiter(map(len, waiting), np.int64, len(waiting)))
        first, used = 0, 0
        while used + self.step_tokens <= ends[-1]:
            stop = used + self.step_tokens
            last = int(np.searchsorted(ends, stop))
            taken = waiting[first : last + 1]
            over = int(ends[last]) - stop
            if over:
                whole = taken[-1]
                taken[-1], waiting[last] = whole[:-over], whole[-over:]
            yield self._fill(taken, ends[first : last + 1] - used)
            first, used = (last if over else last + 1), stop
        self._waiting = waiting[first:]

    def _fill(self, documents: Documents, ends: Any) -> tuple[Any, Any]:
        count = self.step_tokens
        slab = self._allocate(count)
        matrices = slab if isinstance(slab, np.ndarray) else slab.numpy()
        tokens, targets, positions, weights = matrices
        flat = np.concatenate(documents)
        tokens[:] = flat
        targets[:-1] = flat[1:]
        ends[-1] = count
        cuts = np.unique(np.concatenate((ends, self._row_ends)))
        cu_seqlens = np.empty(len(cuts) + 1, np.int32)
        cu_seqlens[0] = 0
        cu_seqlens[1:] = cuts
        iota = self._iota
        pieces = np.diff(cu_seqlens).tolist()
        np.concatenate([iota[:length] for length in pieces], out=positions)
        loss = weights.view(np.float32)
        loss.fill(1.0)
        cuts -= 1
        loss[cuts] = 0.0
        targets[cuts] = 0
        return slab, cu_seqlens
