"""Histograms of what the indexes of a stream's sources keep: lengths, blobs, sides, durations."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from overlord._src.config.columns import base_name
from overlord._src.indexing import index_path
from overlord._src.native import core
from overlord._src.showing import page_parts
from overlord._src.showing.histogram import ROW_HEADINGS, Histogram, histogram, histogram_row

PAGE = "histograms.html"
WORDS = [ROW_HEADINGS.index(name) for name in ("of", "unit", "spread")]
# What the probe of a kind of media keeps behind the size in bytes.
_PROBED = {"image": (("width", "pixels"), ("height", "pixels"))}


def source_histograms(job: Any, opened: Any) -> dict[str, list[Histogram]]:
    """By source, what its index tells. Tokens only where it was built with lengths."""
    found: dict[str, list[Histogram]] = {}
    for source in opened.sources:
        name = base_name(source.name)
        if name in found:
            continue
        columns = core.index_columns(str(index_path(job.loaded, source.name)), source)
        made: list[Histogram | None] = []
        if columns["lengths"] is not None:
            lengths = columns["lengths"]
            what = "text" if columns["media"] else "length"  # placeholders are not counted
            made.append(histogram(f"{name}: {what}", "tokens", lengths[lengths != columns["bad"]]))
        for field, values in columns["media"].items():
            declared = job.config.sources[name].media[field]
            made += _media_histograms(name, field, declared, values, columns["absent"])
        found[name] = [one for one in made if one is not None]
    return found


def _media_histograms(
    source: str, field: str, declared: Any, values: Sequence[Any], absent: int
) -> list[Histogram | None]:
    sizes = values[0]
    there = sizes != absent
    made = [histogram(f"{source}: {field}", "bytes", sizes[there])]
    if declared.transform is None:
        return made  # nobody looked inside
    for (what, unit), column in zip(
        _PROBED.get(getattr(declared, "kind", "image"), ()), values[1:], strict=False
    ):
        made.append(histogram(f"{source}: {field} {what}", unit, column[there]))
    if len(values) > 2 and getattr(declared, "kind", "image") == "image":
        area = values[1][there].astype(np.int64) * values[2][there].astype(np.int64)
        made.append(histogram(f"{source}: {field} area", "pixels", area))
    return made


def histograms_page(job: str, found: dict[str, list[Histogram]]) -> str:
    """A page of all of them."""
    every = [one for histograms in found.values() for one in histograms]
    without = [name for name, histograms in found.items() if not histograms]
    parts = [
        f"<h1>{escape(job)}: what the indexes know</h1>",
        page_parts.table(ROW_HEADINGS, [histogram_row(one) for one in every], WORDS),
        "<h2>Spread</h2>",
        '<p class="quiet">Bins grow by a factor where the largest value is much larger than the '
        "smallest; numbers below a chart are edges of bins.</p>",
        page_parts.charts(every),
    ]
    if without:
        parts.append(f'<p class="quiet">{escape(advice(without))}</p>')
    return page_parts.page(f"{job}: histograms", parts)


def advice(without: Sequence[str]) -> str:
    """What to do about sources whose index has nothing to count."""
    return (
        f"not known of {', '.join(without)}: `overlord index --lengths` counts tokens, but not of "
        "sources with a `mask`"
    )


def write_histograms(job: str, found: dict[str, list[Histogram]], folder: Path) -> Path:
    """The page as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PAGE
    path.write_text(histograms_page(job, found))
    return path
