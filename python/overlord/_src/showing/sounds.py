"""Sounds to look at: waveforms as SVG, spectra as small pictures."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from overlord._src.showing.histogram import svg_text
from overlord._src.showing.pixels import Pixels

_POINTS = 320  # columns of a waveform
# Colours of a spectrum from quiet to loud.
_RAMP = np.array(
    [(12, 14, 40), (56, 26, 110), (150, 40, 120), (226, 84, 76), (250, 170, 60), (252, 250, 200)],
    np.float64,
)


def waveform_svg(samples: Any, seconds: float, width: int = 640, height: int = 90) -> str:
    """Least and largest sample of every column, as one shape."""
    lowest, highest = _envelope(samples, _POINTS)
    columns = len(lowest)
    middle, reach = height / 2 - 6, height / 2 - 8
    scale = reach / max(1e-9, max(max(highest), -min(lowest)))
    step = width / columns
    upper = [f"{at * step:.1f},{middle - value * scale:.1f}" for at, value in enumerate(highest)]
    lower = [f"{at * step:.1f},{middle - value * scale:.1f}" for at, value in enumerate(lowest)]
    points = " ".join([*upper, *reversed(lower)])
    marks = "".join(
        svg_text(width * share, height - 1, f"{seconds * share:.2g} s", anchor=anchor)
        for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    )
    return (
        f'<svg class="wave" viewBox="0 0 {width} {height}" role="img" aria-label="waveform">'
        f'<line class="axis" stroke="#d9dde5" x1="0" y1="{middle:.1f}" x2="{width}" '
        f'y2="{middle:.1f}"/>'
        f'<polygon class="bar" fill="#2c5fb3" points="{points}"/>{marks}</svg>'
    )


def _envelope(samples: Any, most: int) -> tuple[list[float], list[float]]:
    """Least and largest sample of each of at most so many stretches."""
    mono = np.asarray(samples, np.float64)
    if mono.ndim == 2:
        mono = mono.mean(axis=1)
    columns = max(1, min(most, len(mono)))
    edges = np.arange(columns + 1) * len(mono) // columns
    parts = [mono[begin:end] for begin, end in pairwise(edges.tolist())]
    lowest = [float(part.min()) if len(part) else 0.0 for part in parts]
    return lowest, [float(part.max()) if len(part) else 0.0 for part in parts]


def spectrum_picture(mels: Any, high: int = 160) -> Pixels:
    """A log-mel spectrum [mels, frames] in colours, low notes at the bottom."""
    values = np.asarray(mels, np.float64)[::-1]
    low, top = float(values.min()), float(values.max())
    place = (values - low) / max(top - low, 1e-9) * (len(_RAMP) - 1)
    index = np.minimum(place.astype(np.int64), len(_RAMP) - 2)
    share = (place - index)[..., None]
    colours = _RAMP[index] * (1 - share) + _RAMP[index + 1] * share
    factor = max(1, high // len(values))
    levels: Pixels = np.rint(colours).astype(np.uint8)
    return levels.repeat(factor, axis=0).repeat(2, axis=1)
