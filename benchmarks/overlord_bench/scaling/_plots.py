"""The paper's figures as we measured them, as SVG, each with its claim in the subtitle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from overlord._src.showing.charts import Bar, bar_chart, number_grid
from overlord._src.simulate.memory import APPENDIX_A, CONSTANTS, GRID, ratio_grid

from overlord_bench.scaling import model, parallelism
from overlord_bench.scaling._fleets import COLOCATED
from overlord_bench.scaling._sizes import AUTO

FIG12_CLAIM = (
    "the paper: up to 13.5 times less memory; auto loses to plain actors in the small case"
)
_WAYS = {COLOCATED: "first", "plain": "other", AUTO: "best"}


def _bars(
    figures: Mapping[str, Any], keys: Mapping[str, tuple[str, str]], unit: float
) -> list[Bar]:
    """`keys`: label and look by figure; those that were not measured are left out."""
    return [
        Bar(label, figures[key] / unit, f"{figures[key] / unit:,.3g}", look)
        for key, (label, look) in keys.items()
        if figures.get(key)
    ]


def _fig12(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("small", "large"):
        for key, axis, unit in (
            ("pss_bytes", "MB of all processes of a host", 1e6),
            ("fetch_ms_p50", "milliseconds of a step, median", 1.0),
        ):
            keys = {f"fig12_{name}_{way}_{key}": (way, look) for way, look in _WAYS.items()}
            if bars := _bars(figures, keys, unit):
                title = f"Fig 12, {name}: {axis}"
                yield f"fig12_{name}_{key}", bar_chart(title, FIG12_CLAIM, axis, bars)


def _fig15(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    keys = {}
    for count in parallelism.COUNTS:
        keys[f"fig15_split_{count}_bytes_each"] = (f"split over {count}", "best")
        keys[f"fig15_loaders_{count}_bytes_each"] = (f"{count} loaders each", "other")
    if bars := _bars(figures, keys, 1e6):
        axis = "MB of a process of loaders"
        yield (
            "fig15",
            bar_chart("Fig 15: memory by source parallelism", parallelism.CLAIM, axis, bars),
        )


def _fig14(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    names = [key for key in vars(CONSTANTS) if f"model_{key}" in figures]
    if not names:
        return
    constants = replace(CONSTANTS, **{key: figures[f"model_{key}"] for key in names})
    panels = [
        (title, [[1 / value for value in row] for row in ratio_grid(case, constants=constants)])
        for title, case in APPENDIX_A.items()
    ]
    title = "Figs 14 and 17: colocated loaders over roles, by our constants"
    rows, columns = [f"CP {size}" for size in GRID], [f"PP {size}" for size in GRID]
    yield "fig14_fig17", number_grid(title, model.CLAIMS["fig14_paper"], rows, columns, panels)


def write_plots(figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """All that were measured."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for draw in (_fig12, _fig15, _fig14):
        for name, svg in draw(figures):
            path = folder / f"{name}.svg"
            path.write_text(svg)
            written.append(path)
    return written
