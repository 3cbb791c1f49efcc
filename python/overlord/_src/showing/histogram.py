"""Histograms of lengths, sizes and durations: numbers, a line for a terminal, an SVG for a page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

_SHADES = " ▁▂▃▄▅▆▇█"
_SPREAD = 40  # largest over smallest from which bins grow by a factor
_PANEL, _HIGH = 270, 150


@dataclass(frozen=True)
class Histogram:
    """Counts of values by bin, and what the values are like."""

    name: str
    unit: str
    edges: tuple[float, ...]  # one more than counts
    counts: tuple[int, ...]
    total: int
    least: float
    median: float
    mean: float
    p99: float
    most: float

    def line(self) -> str:
        """The counts as one line of blocks; what is there is never blank."""
        top = max(self.counts)
        shades = len(_SHADES) - 1
        return "".join(_SHADES[-(-count * shades // top)] for count in self.counts)


def histogram(name: str, unit: str, values: Any, bins: int = 24) -> Histogram | None:
    """The histogram of whole, not negative numbers; None of no values."""
    array = np.asarray(values, np.float64)
    if array.size == 0:
        return None
    bins = min(bins, max(8, array.size))
    least, most = float(array.min()), float(array.max())
    if most > _SPREAD * max(least, 1.0):
        edges = np.geomspace(max(least, 1.0), most, bins + 1)
        edges[0] = min(edges[0], least)
    else:
        spread = most - least + 1
        edges = np.linspace(least, most + 1, min(bins, int(spread)) + 1)
    edges[-1] = max(edges[-1], most)
    counts, _ = np.histogram(array, edges)
    median, p99 = (float(value) for value in np.quantile(array, [0.5, 0.99]))
    return Histogram(
        name,
        unit,
        tuple(edges.tolist()),
        tuple(int(count) for count in counts),
        int(array.size),
        least,
        median,
        float(array.mean()),
        p99,
        most,
    )


def show_value(value: float) -> str:
    """A number short enough for an axis: 1234 is 1.23k."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def histogram_row(one: Histogram) -> tuple[str, ...]:
    """Cells of a table."""
    numbers = (one.least, one.median, one.mean, one.p99, one.most)
    return (
        one.name,
        one.unit,
        show_value(one.total),
        *(show_value(number) for number in numbers),
        one.line(),
    )


ROW_HEADINGS = ("of", "unit", "rows", "least", "median", "mean", "p99", "most", "spread")


def svg_text(x: float, y: float, text: str, look: str = "note", anchor: str = "start") -> str:
    """Text whose attributes hold where a page's styles do not."""
    paint = 'fill="#1d2532" font-size="13"' if look == "name" else 'fill="#5c6880" font-size="11"'
    return (
        f'<text class="{look}" {paint} font-family="sans-serif" x="{x:.1f}" y="{y:.1f}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def histogram_svg(one: Histogram) -> str:
    """A small chart; a page's styles may paint `bar`, `axis`, `name` and `note` anew."""
    left, right, top, bottom = 12, _PANEL - 12, 46, _HIGH - 26
    wide = (right - left) / len(one.counts)
    tallest = max(one.counts)
    facts = f"{one.total:,}: median {show_value(one.median)}, mean {show_value(one.mean)}"
    parts = [
        f'<svg class="chart" viewBox="0 0 {_PANEL} {_HIGH}" role="img" '
        f'aria-label="{escape(f"{one.name}, {one.unit}")}">',
        svg_text(left, 18, one.name, "name"),
        svg_text(left, 34, f"{facts} {one.unit}"),
    ]
    for at, count in enumerate(one.counts):
        high = max((bottom - top) * count / tallest, 1.0) if count else 0.0
        low, end = one.edges[at], one.edges[at + 1]
        parts.append(
            f'<rect class="bar" fill="#2c5fb3" x="{left + at * wide:.1f}" '
            f'y="{bottom - high:.1f}" width="{max(wide - 1, 0.8):.1f}" height="{high:.1f}">'
            f"<title>{show_value(low)} to {show_value(end)}: {count:,}</title></rect>"
        )
    parts.append(
        f'<line class="axis" stroke="#d9dde5" x1="{left}" y1="{bottom}" x2="{right}" '
        f'y2="{bottom}"/>'
    )
    marks = [(0, "start"), (len(one.counts) // 2, "middle"), (len(one.counts), "end")]
    for at, anchor in marks if len(one.counts) > 3 else marks[::2]:
        place = left + at * wide
        parts.append(svg_text(place, bottom + 16, show_value(one.edges[at]), anchor=anchor))
    return "\n".join([*parts, "</svg>"])
