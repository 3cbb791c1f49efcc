"""PNG files from arrays, with nothing but zlib."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}


def encode_png(pixels: npt.NDArray[np.uint8], level: int = 6) -> bytes:
    """The file of height x width (grey) or height x width x 1, 3 or 4 samples of 8 bits."""
    array: Any = np.asarray(pixels)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] not in _COLOUR_TYPES:
        raise ValueError(f"not the samples of a picture: {array.dtype} {list(array.shape)}")
    height, width, channels = array.shape
    if height == 0 or width == 0:
        raise ValueError("a picture has at least one pixel")
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    body = zlib.compress(_filtered(array), level)
    return SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _filtered(array: Any) -> bytes:
    """Rows as differences to the row above (filter 2): flat areas and ramps become zeros."""
    height = array.shape[0]
    rows = array.reshape(height, -1)
    out = np.empty((height, rows.shape[1] + 1), np.uint8)
    out[:, 0] = 2
    out[0, 1:] = rows[0]
    out[1:, 1:] = rows[1:] - rows[:-1]  # modulo 256, as the format has it
    return out.tobytes()


def _chunk(name: bytes, data: bytes) -> bytes:
    check = zlib.crc32(data, zlib.crc32(name))
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)
