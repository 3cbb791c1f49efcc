"""A corpus with a percent of hostile pictures: the good arrive once, the bad are named."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_corpus import PAD, check_hostile

PIL = pytest.importorskip("PIL.Image")

GOOD = 1200
RNG = np.random.default_rng(41)
FIELD = {
    "kind": "image",
    "from": ["jpg", "png", "webp"],
    "transform": "orient; resize width=16 height=16",
    "tokens": {"pad": PAD, "count": 2},
}


def pixels(width: int = 40, height: int = 30) -> np.ndarray[Any, Any]:
    """Smooth colours and a little noise."""
    x = np.linspace(0, 200, width)[None, :, None]
    y = np.linspace(0, 55, height)[:, None, None]
    return (
        (x + y * RNG.random(3) + RNG.integers(0, 8, (height, width, 3))).clip(0, 255).astype("u1")
    )


def saved(form: str, picture: Any = None, **options: Any) -> bytes:
    """The file of a picture."""
    out = io.BytesIO()
    picture = PIL.fromarray(pixels()) if picture is None else picture
    picture.save(out, form, **options)
    return out.getvalue()


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, data: bytes) -> bytes:
    """An RGB PNG whose header says what it wants."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def with_jpeg_size(data: bytes, width: int, height: int) -> bytes:
    """The same scan under a frame header that lies."""
    at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
    return data[: at + 5] + struct.pack(">HH", height, width) + data[at + 9 :]


def with_scans(data: bytes, count: int) -> bytes:
    """A progressive file whose last scan comes over and over."""
    last = data.rfind(b"\xff\xda")
    end = data.rfind(b"\xff\xd9")
    return data[:end] + data[last:end] * count + data[end:]


def good_pictures() -> dict[str, tuple[str, bytes]]:
    """Everything that real corpora have and that must arrive."""
    rgb = PIL.fromarray(pixels())
    exif = PIL.Exif()
    exif[0x0112] = 6
    odd = {
        "grey": ("jpg", saved("JPEG", rgb.convert("L"))),
        "cmyk": ("jpg", saved("JPEG", rgb.convert("CMYK"))),
        "progressive": ("jpg", saved("JPEG", rgb, progressive=True)),
        "turned": ("jpg", saved("JPEG", rgb, exif=exif)),
        "no_end": ("jpg", saved("JPEG", rgb)[:-2]),
        "tail": ("jpg", saved("JPEG", rgb) + b"\x00" * 1000),
        "alpha": ("png", saved("PNG", rgb.convert("RGBA"))),
        "palette": ("png", saved("PNG", rgb.convert("P"))),
        "deep": ("png", saved("PNG", PIL.fromarray(np.full((9, 9), 40_000, np.uint16)))),
        "one_pixel": ("png", saved("PNG", PIL.fromarray(pixels(1, 1)))),
        "thin": ("png", saved("PNG", PIL.fromarray(pixels(600, 1)))),
        "webp": ("webp", saved("WEBP", rgb, lossless=True)),
        "misnamed": ("jpg", saved("PNG", rgb)),  # found by content
    }
    forms = [("jpg", "JPEG"), ("png", "PNG"), ("webp", "WEBP")]
    for number in range(GOOD - len(odd)):
        suffix, form = forms[number % 3]
        size = int(RNG.integers(8, 60)), int(RNG.integers(8, 60))
        odd[f"plain{number}"] = (suffix, saved(form, PIL.fromarray(pixels(*size))))
    return odd


def bad_pictures() -> dict[str, tuple[str, bytes]]:
    """Named by what is wrong with them."""
    jpeg, whole = saved("JPEG"), saved("PNG")
    return {
        "empty": ("jpg", b""),
        "noise": ("jpg", RNG.integers(0, 256, 3000).astype("u1").tobytes()),
        "error_page": ("jpg", b"<!DOCTYPE html><html><body>404 Not Found</body></html>"),
        "cut_in_header": ("jpg", jpeg[:100]),
        "cut_in_scan": ("jpg", jpeg[: len(jpeg) // 2]),
        "claims_65500": ("jpg", with_jpeg_size(jpeg, 65_500, 65_500)[:1024]),
        "lying_frame": ("jpg", with_jpeg_size(jpeg, 400, 300)),
        "endless_scans": ("jpg", with_scans(saved("JPEG", progressive=True), 10_000)),
        "bomb": ("png", png(50_000, 50_000, zlib.compress(bytes(5_000_000), 9))),
        "no_pixels": ("png", png(0, 16, zlib.compress(b""))),
        "wrong_crc": ("png", whole[:40] + bytes([whole[40] ^ 255]) + whole[41:]),
        "cut_png": ("png", whole[: len(whole) - 30]),
        "short_rows": ("png", png(64, 64, zlib.compress(bytes(100)))),
        "gif": ("png", saved("GIF")),
        "cut_webp": ("webp", saved("WEBP")[:60]),
        "half_magic": ("png", b"\x89PNG\r\n"),
    }


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_every_good_picture_arrives_once_and_every_bad_one_is_named(
    tmp_path: Path, engine: str
) -> None:
    good, bad = good_pictures(), bad_pictures()
    assert len(bad) > len(good) / 100
    reasons = check_hostile(tmp_path, engine, good, bad, FIELD)
    words = {"empty": "0 bytes", "bomb": "max_pixels", "endless_scans": "max_scans", "gif": "GIF"}
    for name, word in words.items():
        assert word in reasons[name], (name, reasons[name])
