"""Histograms of what the indexes of a stream's sources keep: lengths, blobs, sides, durations."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from overlord._src.config.columns import base_name
from overlord._src.index.indexing import index_path
from overlord._src.native import core
from overlord._src.showing import page_parts
from overlord._src.showing.histogram import ROW_HEADINGS, Histogram, histogram, histogram_row

PAGE = "histograms.html"
WORDS = [ROW_HEADINGS.index(name) for name in ("of", "unit", "spread")]


def source_histograms(job: Any, opened: Any) -> dict[str, list[Histogram]]:
    """By source, what its index tells. Tokens only where it was built with lengths."""
    found: dict[str, list[Histogram]] = {}
    for source in opened.sources:
        name = base_name(source.name)
        if name in found:
            continue
        columns = core.index_columns(str(index_path(job.loaded, source)), source)
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
    there = values[0] != absent
    columns = [column[there].astype(np.int64) for column in values]
    found = [("size", "bytes", columns[0])]
    if declared.transform is not None:  # otherwise nobody looked inside
        found += probed(declared.kind, columns[1:])
    return [histogram(f"{source}: {field} {what}", unit, column) for what, unit, column in found]


def probed(kind: str, values: Sequence[Any]) -> list[tuple[str, str, Any]]:
    """What the headers of a kind of media told the index: name, unit, one number per blob."""
    if kind in ("image", "video") and len(values) >= 2:
        wide, high = values[:2]
        return [
            ("width", "pixels", wide),
            ("height", "pixels", high),
            ("area", "pixels", wide * high),
        ]
    if kind == "audio" and len(values) >= 4:
        rate, _, low, more = values[:4]
        frames = low + (more << 32)
        return [("duration", "ms", frames * 1000 // np.maximum(rate, 1)), ("rate", "hertz", rate)]
    return []


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
