"""Writes the clips of the video bench: 10 s of H.264, shapes that move, and grain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

SECONDS, RATE = 10, 30


def _frames(width: int, height: int, seed: int) -> Iterator[Any]:
    """A drifting texture, two things that cross it, and a little noise: not free to predict."""
    drawn = np.random.default_rng(seed)
    coarse = drawn.uniform(40, 215, (height // 8 + 40, width // 8 + 40, 3))
    texture = np.kron(coarse, np.ones((8, 8, 1)))
    grain = drawn.normal(0, 4, (4, height, width, 1))
    rows, columns = np.mgrid[0:height, 0:width]
    speeds = drawn.uniform(20, 90, (2, 2))
    for index in range(SECONDS * RATE):
        time = index / RATE
        top, left = int(20 + 15 * np.sin(time)), int(12 * time)
        picture = texture[top : top + height, left : left + width].copy()
        for thing, (across, down) in enumerate(speeds):
            x, y = (across * time + 90 * thing) % width, (down * time + 40 * thing) % height
            near = (columns - x) ** 2 + (rows - y) ** 2 < (height // 6) ** 2
            picture[near] = (250 - 200 * thing, 60, 30 + 200 * thing)
        yield np.clip(picture + grain[index % 4], 0, 255).astype(np.uint8)


def names(work: dict[str, Any]) -> list[str]:
    """The files of a corpus."""
    return [str(Path(work["folder"]) / f"{i:04}.mp4") for i in range(work["files"])]


def _write(name: str, work: dict[str, Any], seed: int) -> None:
    import av  # type: ignore[import-not-found,unused-ignore]

    with av.open(name, "w", format="mp4") as file:
        stream: Any = file.add_stream("libx264", rate=Fraction(RATE))
        stream.width, stream.height = work["width"], work["height"]
        stream.pix_fmt = "yuv420p"
        for picture in _frames(work["width"], work["height"], seed):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode())


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Write what is not there yet."""
    Path(work["folder"]).mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names(work)):
        if not Path(name).exists():
            _write(name + ".part", work, seed)
            os.replace(name + ".part", name)
    return {"bytes": sum(Path(name).stat().st_size for name in names(work))}
