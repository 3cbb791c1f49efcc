"""Writes the pictures of the benches over images: photo-like JPEGs, and tars of them with captions.

A picture is noise whose strength falls with its frequency, as in photographs, with a few hard
edges; at quality 90 it takes about as many bytes as a photograph of its size.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from overlord_bench._contenders.media_stream import write_tar

QUALITY = 90


def _channel(drawn: np.random.Generator, height: int, width: int) -> Any:
    across, down = np.fft.rfftfreq(width), np.fft.fftfreq(height)
    far = np.sqrt(across[None, :] ** 2 + down[:, None] ** 2)
    far[0, 0] = 1.0
    waves = drawn.normal(size=far.shape) + 1j * drawn.normal(size=far.shape)
    plane = np.fft.irfft2(waves / far**1.5, (height, width))
    return plane / plane.std()


def pixels_of(seed: int) -> Any:
    """Sides of 500 to 1300."""
    drawn = np.random.default_rng(seed)
    width, height = (int(side) for side in drawn.integers(500, 1301, 2))
    light = _channel(drawn, height, width)
    colours = [light + 0.4 * _channel(drawn, height, width) for _ in range(3)]
    picture = np.clip(128 + 48 * np.stack(colours, 2), 0, 255)
    for _ in range(6):
        x, y = int(drawn.integers(0, width - 60)), int(drawn.integers(0, height - 60))
        wide, high = (int(side) for side in drawn.integers(30, 240, 2))
        picture[y : y + high, x : x + wide] *= drawn.uniform(0.3, 1.0, 3)
    return picture.astype(np.uint8)


def names(work: dict[str, Any]) -> list[str]:
    """The files of a corpus."""
    return [str(Path(work["folder"]) / f"{i:04}.jpg") for i in range(work["files"])]


def tar_name(work: dict[str, Any]) -> str:
    """All of them in one tar, each with a caption."""
    return str(Path(work["folder"]) / "pictures.tar")


def _write(seed: int, name: str) -> None:
    from PIL import Image

    if not Path(name).exists():
        Image.fromarray(pixels_of(seed)).save(name + ".part", "JPEG", quality=QUALITY)
        os.replace(name + ".part", name)


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Write what is not there yet, on all cores."""
    import PIL.Image  # noqa: F401  whoever is missing is missed here

    Path(work["folder"]).mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as writers:
        list(writers.map(_write, range(work["files"]), names(work)))
    write_tar(tar_name(work), names(work))
    return {"bytes": sum(Path(name).stat().st_size for name in names(work))}
