"""Functions over microbatches as users write them, good and bad."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np

import overlord as ol

MASK = 999
_CALLS = itertools.count()


def _masked(batch: dict[str, Any]) -> dict[str, Any]:
    """Every seventh token or so becomes MASK and alone carries loss, by the key."""
    chosen = np.random.default_rng(batch["key"]).random(batch["tokens"].shape) < 1 / 7
    return {
        "tokens": np.where(chosen, MASK, batch["tokens"]).astype(batch["tokens"].dtype),
        "loss_weights": (batch["loss_weights"] * chosen).astype(batch["loss_weights"].dtype),
    }


@ol.transform(version="1")
def masked(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Masking, keyed."""
    return [_masked(batch) for batch in batches]


@ol.transform(version="2")
def masked_again(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same in another version."""
    return [_masked(batch) for batch in batches]


@ol.transform(version="1", lane="thread")
def masked_thread(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same on a thread."""
    return [_masked(batch) for batch in batches]


@ol.transform(version="1")
def shifted(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds to every token a number that follows from its document alone."""
    out = []
    for batch in batches:
        places = np.diff(batch["cu_seqlens_padded"])
        shift = np.repeat((batch["document_keys"] % 500).astype(np.int32), places)
        real = batch["loss_weights"] > 0
        out.append({"tokens": batch["tokens"] + shift.reshape(real.shape) * real})
    return out


@ol.transform(version="1")
def untouched(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Everything back as it came."""
    return [dict(batch) for batch in batches]


@ol.transform(version="1")
def described(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fails unless a microbatch is what docs/transforms.md says; targets become its own tokens."""
    out = []
    for batch in batches:
        tokens, bounds = batch["tokens"], batch["cu_seqlens_padded"]
        assert tokens.ndim == 2 and tokens.shape == batch["positions"].shape
        assert isinstance(batch["key"], int) and isinstance(batch["step"], int)
        assert bounds[0] == 0 and bounds[-1] == tokens.size
        assert len(batch["cu_seqlens"]) == len(bounds) == len(batch["document_keys"]) + 1
        starts = batch["positions"].reshape(-1)[bounds[:-1]]
        assert not starts.any() or (bounds[:-1] % tokens.shape[1] == 0)[starts > 0].all()
        assert batch["media"] == {}
        assert not any(a.flags.writeable for a in batch.values() if isinstance(a, np.ndarray))
        out.append({**batch, "targets": tokens.copy()})
    return out


@ol.transform(version="1")
def brighter(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds one to every value of every picture."""
    out: list[dict[str, Any]] = []
    for batch in batches:
        media = {}
        for name, field in batch["media"].items():
            assert len(field["grid_thw"]) == len(field["documents"]) == len(field["token_spans"])
            assert field["row_splits"][-1] == len(field["data"])
            media[name] = {"data": field["data"] + np.asarray(1, field["data"].dtype)}
        out.append({"media": media})
    return out


def _once(name: str) -> bool:
    """Whether nobody has been here before, in any process; the folder is OWN_BATCH_FOLDER."""
    try:
        os.close(os.open(Path(os.environ["OWN_BATCH_FOLDER"], name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@ol.transform(version="1")
def dies_once(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kills its first worker, then masks."""
    if batches[0]["step"] == 1 and _once("died"):
        os.kill(os.getpid(), signal.SIGKILL)
    return [_masked(batch) for batch in batches]


@ol.transform(version="1")
def raises_once(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Raises once, then masks."""
    if batches[0]["step"] == 1 and _once("raised"):
        raise OSError("a file was away for a moment")
    return [_masked(batch) for batch in batches]


@ol.transform(version="1")
def raises(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Raises at step 2."""
    if batches[0]["step"] == 2:
        raise ValueError("no such mask")
    return [{} for _ in batches]


@ol.transform(version="1", lane="thread")
def raises_thread(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same on a thread."""
    if batches[0]["step"] == 2:
        raise ValueError("no such mask")
    return [{} for _ in batches]


@ol.transform(version="1")
def dies(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kills every worker at step 2."""
    if batches[0]["step"] == 2:
        os._exit(5)
    return [{} for _ in batches]


@ol.transform(version="1")
def hangs(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Never returns at step 2."""
    if batches[0]["step"] == 2:
        threading.Event().wait()
    return [{} for _ in batches]


@ol.transform(version="1")
def other_shape(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tokens without their last column."""
    return [{"tokens": batch["tokens"][:, :-1]} for batch in batches]


@ol.transform(version="1")
def other_type(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Weights of another type."""
    return [{"loss_weights": batch["loss_weights"].astype(np.float64)} for batch in batches]


@ol.transform(version="1")
def moves(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Positions are planned."""
    return [{"positions": batch["positions"] + 1} for batch in batches]


@ol.transform(version="1")
def heavier(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Weights may only be lowered."""
    return [{"loss_weights": np.ones_like(batch["loss_weights"])} for batch in batches]


@ol.transform(version="1")
def foreign(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An id outside the vocabulary."""
    return [{"tokens": batch["tokens"] + 5000} for batch in batches]


@ol.transform(version="1")
def writes(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Writes into what it was given."""
    batches[0]["tokens"][:] = 1
    return [{} for _ in batches]


@ol.transform(version="1")
def too_few(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """No answer."""
    return []


@ol.transform(version="1")
def by_chance(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Not a function of its input."""
    shift = os.getpid() + next(_CALLS)
    return [{"tokens": (batch["tokens"] + shift) % 900} for batch in batches]
