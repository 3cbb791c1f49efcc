"""What a transform worker does with whole microbatches instead of rows of text.

Frames are those of `transform_worker.py`; a microbatch is one row of bytes, little-endian, and so
is what came of it:

  question  u64 key, u64 step, u32 microbatch, u32 group, then as an answer
  answer    u32 arrays, of each: u32 length, name, u8 element, u8 sides, u64 side[sides]; behind all
            of them their values, each array that has any at the next multiple of 64 bytes

The answer has the arrays that the function replaced. What it raises, or gives in the wrong shape,
is a bad row with the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from overlord._workers import tokenizer_worker as framing
from overlord._workers.answers import BAD, TEXT, Wrong, reason

_KINDS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")  # as model::Element
_ELEMENTS = tuple(np.dtype(f"<{kind}") for kind in _KINDS)
_REPLACEABLE = ("tokens", "targets", "loss_weights")
_HEAD = struct.Struct("<QQII")
_ALIGNMENT = 64

Microbatch = dict[str, Any]
Batch = Callable[[list[Any]], Any]


def read_question(frame: bytes) -> Microbatch:
    """A microbatch as the function sees it: arrays over the frame's memory, read-only."""
    key, step, _, _ = _HEAD.unpack_from(frame)
    batch: Microbatch = {"key": key, "step": step, "media": {}}
    for name, array in read_arrays(frame, _HEAD.size).items():
        place, key_in = batch, name
        if name.startswith("media/"):
            field, _, key_in = name.removeprefix("media/").rpartition("/")
            place = batch["media"].setdefault(field, {"data": None})
        place[key_in] = array
    return batch


def read_arrays(frame: bytes, at: int = 0) -> dict[str, Any]:
    """Arrays by name, over the frame's memory."""
    (count,) = struct.unpack_from("<I", frame, at)
    at += 4
    told = []
    for _ in range(count):
        (length,) = struct.unpack_from("<I", frame, at)
        name = frame[at + 4 : at + 4 + length].decode()
        at += 4 + length
        element, sides = struct.unpack_from("<BB", frame, at)
        shape = struct.unpack_from(f"<{sides}Q", frame, at + 2)
        at += 2 + 8 * sides
        told.append((name, _ELEMENTS[element], shape))
    arrays = {}
    for name, dtype, shape in told:
        values = int(np.prod(shape, dtype=np.int64))
        at = _aligned(at) if values else at
        array = np.frombuffer(frame, dtype, values, at if values else 0).reshape(shape)
        array.flags.writeable = False
        arrays[name] = array
        at += values * dtype.itemsize
    return arrays


def write_arrays(arrays: Mapping[str, Any]) -> bytes:
    """One frame of arrays, as an answer has them."""
    head = [struct.pack("<I", len(arrays))]
    for name, array in arrays.items():
        told = name.encode()
        head.append(struct.pack("<I", len(told)) + told)
        element = _ELEMENTS.index(array.dtype.newbyteorder("<"))
        head.append(struct.pack(f"<BB{array.ndim}Q", element, array.ndim, *array.shape))
    pieces: list[bytes | memoryview] = [b"".join(head)]
    at = len(pieces[0])
    for array in arrays.values():
        if array.nbytes:
            pieces.append(bytes(_aligned(at) - at))
            pieces.append(memoryview(_plain(array)).cast("B"))
            at = _aligned(at) + array.nbytes
    return b"".join(pieces)


def _aligned(at: int) -> int:
    return -(-at // _ALIGNMENT) * _ALIGNMENT


def _plain(array: Any) -> Any:
    """The values in one run, little-endian."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def answer_body(call: Batch, name: str, frames: Sequence[bytes]) -> bytes:
    """The answer to the one microbatch of a request, from the byte after its count of rows on."""
    kind, text = TEXT, b""
    try:
        given = [read_question(frames[0])]
        answer = call(list(given))
        if not isinstance(answer, list | tuple) or len(answer) != len(given):
            told = f"{len(answer)} of them" if hasattr(answer, "__len__") else "no list"
            raise Wrong(f"answered {type(answer).__name__} ({told}), not a list of 1 dict")
        text = write_arrays(_replaced(given[0], answer[0]))
    except MemoryError:
        raise  # the process ends, and is looked into
    except BaseException as error:
        kind, text = BAD, reason(name, error)
    return struct.pack("<QQBI", len(text), 0, kind, len(text)) + text


def _replaced(given: Microbatch, answer: Any) -> dict[str, Any]:
    """The arrays that are not those it was given; all others are left out."""
    if not isinstance(answer, dict):
        raise Wrong(f"answered {type(answer).__name__} for a microbatch, not a dict")
    arrays = {}
    for key, value in answer.items():
        if key in given and value is given[key]:
            continue
        if key == "media":
            arrays.update(_replaced_media(given["media"], value))
        elif key in _REPLACEABLE:
            arrays[key] = _fitting(key, given[key], value)
        else:
            raise Wrong(
                f"answered {key!r}, which is planned or not known; allowed: "
                f"{', '.join(_REPLACEABLE)}, media.NAME.data"
            )
    return arrays


def _replaced_media(given: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise Wrong(f"answered {type(answer).__name__} for media, not a dict")
    arrays = {}
    for field, told in answer.items():
        if field not in given:
            raise Wrong(f"answered media.{field}, and the microbatch has {sorted(given)}")
        if not isinstance(told, dict):
            raise Wrong(f"answered {type(told).__name__} for media.{field}, not a dict")
        for key, value in told.items():
            if key in given[field] and value is given[field][key]:
                continue
            if key != "data" or given[field]["data"] is None:
                raise Wrong(f"answered media.{field}.{key}; of media only data may be replaced, "
                             "where it is given")  # fmt: skip
            arrays[f"media/{field}/data"] = _fitting(
                f"media.{field}.data", given[field]["data"], value
            )
    return arrays


def _fitting(key: str, before: Any, value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        raise Wrong(f"answered {type(value).__name__} for {key}, not a NumPy array")
    if value.dtype != before.dtype or value.shape != before.shape:
        raise Wrong(
            f"answered {key} as {value.dtype}{list(value.shape)}, not "
            f"{before.dtype}{list(before.shape)}"
        )
    return value


def read_frame(stream: BinaryIO) -> list[bytes] | None:
    """The frame of the next request; None at the end of the input."""
    magic = stream.read(4)
    if not magic:
        return None
    if magic != framing.REQUEST:
        raise framing.FramingError(f"a request starts with {framing.REQUEST!r}, got {magic!r}")
    rows, size, end = struct.unpack("<IQQ", stream.read(20))
    if rows != 1 or end != size or size > framing.MAX_BYTES:
        raise framing.FramingError(f"a request of {rows} rows and {size} bytes, not one microbatch")
    return [stream.read(size)]
