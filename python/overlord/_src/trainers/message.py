"""A microbatch as one message: its arrays behind a head that says what lies where."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.batch.microbatch import BatchForm, Microbatch
from overlord._src.errors import refused
from overlord._src.native import core

Array = npt.NDArray[Any]
_HEAD = struct.Struct("<QQ")  # bytes of all, and of the text that names the arrays
_ALIGNED = 64
_ARRAYS = ("tokens", "targets", "loss_weights", "positions", "cu_seqlens", "cu_seqlens_padded")
_NUMBERS: tuple[str, ...] = (
    "step",
    "microbatch",
    "microbatches",
    "last_in_step",
    "max_seqlen",
    "num_docs",
)
_NUMBERS += ("num_tokens", "target_tokens", "step_target_tokens", "fill", "nbytes")


def arrays_of(batch: Microbatch) -> dict[str, Array]:
    """All arrays that make up what a rank was given."""
    if batch.hdp is not None or batch.encoder is not None:
        raise refused(
            ("delivery", "broadcast"),
            "with strategy.hybrid or strategy.encoder every rank has a part of its own",
            advice="read on every rank of such a job",
        )
    out = {name: array for name in _ARRAYS if (array := getattr(batch, name)) is not None}
    out["lineage"] = batch.lineage().view(np.int64)
    for name, media in batch.media.items():
        out[f"items.{name}"] = media._items
        if media.data is not None:
            out[f"data.{name}"] = media.data
    some = batch.tokens if batch.tokens is not None else batch.targets
    if some is not None and some.size != int(out["cu_seqlens_padded"][-1]):
        out["token_index"] = np.asarray(batch.token_index, np.int32)  # of a slice
    return out


def packed(batch: Microbatch) -> bytearray:
    """The message."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays_of(batch).items()}
    numbers = {name: getattr(batch, name) for name in _NUMBERS}
    shapes = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    text = json.dumps({"numbers": numbers, "arrays": shapes}).encode()
    at = _aligned(_HEAD.size + len(text))
    places = []
    for array in arrays.values():
        places.append(at)
        at = _aligned(at + array.nbytes)
    out = bytearray(at)
    _HEAD.pack_into(out, 0, at, len(text))
    out[_HEAD.size : _HEAD.size + len(text)] = text
    for place, array in zip(places, arrays.values(), strict=True):
        out[place : place + array.nbytes] = array.tobytes()
    return out


def told(text: Mapping[str, Any]) -> bytearray:
    """A message without arrays: the end, or what went wrong."""
    body = json.dumps(dict(text)).encode()
    out = bytearray(_HEAD.size + len(body))
    _HEAD.pack_into(out, 0, len(out), len(body))
    out[_HEAD.size :] = body
    return out


def length(message: Any) -> int:
    """Of a message whose begin is here."""
    return int(_HEAD.unpack_from(message, 0)[0])


def text_of(message: Any) -> dict[str, Any]:
    """What its head says."""
    size = int(_HEAD.unpack_from(message, 0)[1])
    text: dict[str, Any] = json.loads(bytes(message[_HEAD.size : _HEAD.size + size]))
    return text


def unpacked(message: Any) -> Microbatch:
    """The microbatch, over the memory of the message, which is its own."""
    text = text_of(message)
    size = int(_HEAD.unpack_from(message, 0)[1])
    at = _aligned(_HEAD.size + size)
    arrays = {}
    for name, kind, shape in text["arrays"]:
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize
        arrays[name] = message[at : at + nbytes].view(kind).reshape(shape)
        at = _aligned(at + nbytes)
    native = _Received(text["numbers"], arrays)
    return Microbatch(native, tuple, BatchForm(private=True), None, _NoStates())  # type: ignore[arg-type]


def _aligned(at: int) -> int:
    return -(-at // _ALIGNED) * _ALIGNED


class _Received:
    """What the engine's record of a microbatch tells, out of a message."""

    encoder = None

    def __init__(self, numbers: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        for name in _NUMBERS:
            setattr(self, name, numbers[name])
        for name in _ARRAYS:
            setattr(self, name, arrays.get(name))
        self._arrays = arrays

    def hdp(self) -> None:
        return None

    def lineage(self) -> Array:
        return self._arrays["lineage"]

    def media(self) -> dict[str, tuple[Array | None, Array]]:
        names = [name[6:] for name in self._arrays if name.startswith("items.")]
        return {
            name: (self._arrays.get(f"data.{name}"), self._arrays[f"items.{name}"])
            for name in names
        }

    def token_index(self, slicing: str) -> Array | None:
        if "token_index" in self._arrays:
            return self._arrays["token_index"].astype(np.int64)
        like = self._arrays.get("tokens", self._arrays.get("targets"))
        return None if like is None else np.arange(like.size).reshape(like.shape)


class _NoStates:
    """For ranks that do not read."""

    def state_dict(self, place: Any) -> dict[str, Any]:
        raise core.InvalidArgumentError(
            "this rank is served by another's broadcast and has no state: save that of a rank that "
            "reads, which is the same on all of them after whole steps"
        )
