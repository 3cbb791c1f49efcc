"""Writes the sounds of the audio bench: harmonics of a wandering pitch in syllables, and noise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 10


def _sound(rate: int, channels: int, seed: int) -> Any:
    drawn = np.random.default_rng(seed)
    time = np.arange(SECONDS * rate) / rate
    pitch = 120 + 40 * np.sin(2 * np.pi * 0.7 * time + drawn.uniform(0, 6)) + drawn.uniform(0, 80)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(k * phase + drawn.uniform(0, 6)) / k for k in range(1, 20))
    loudness = np.clip(np.sin(2 * np.pi * 2.3 * time + drawn.uniform(0, 6)) + 0.4, 0, None)
    both = [voice * loudness * 0.15 * gain for gain in (1.0, 0.8)[:channels]]
    noisy = [one + drawn.normal(0, 0.003, len(time)) for one in both]
    return np.clip(np.stack(noisy, 1), -1, 1)


def names(work: dict[str, Any]) -> list[str]:
    """The files of a corpus."""
    return [str(Path(work["folder"]) / f"{i:04}.flac") for i in range(work["files"])]


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Write what is not there yet."""
    import soundfile  # type: ignore[import-not-found,unused-ignore]

    Path(work["folder"]).mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names(work)):
        if Path(name).exists():
            continue
        samples = _sound(work["rate"], work["channels"], seed)
        soundfile.write(name + ".part", samples, work["rate"], "PCM_16", format="FLAC")
        os.replace(name + ".part", name)
    return {"bytes": sum(Path(name).stat().st_size for name in names(work))}
