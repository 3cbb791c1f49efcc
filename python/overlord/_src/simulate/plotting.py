"""The main pictures as PNG, for slides. Needs matplotlib, which is not a dependency."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from overlord._src.errors import refused
from overlord._src.simulate.placing import BASELINE, DEFAULT
from overlord._src.simulate.report import Report, look_of, setting

_COLORS = {"first": "#b07a14", "best": "#2c5fb3", "other": "#9aa4b5"}


def require_matplotlib() -> Any:
    """The package, set to draw without a screen; refused where it is absent."""
    try:
        matplotlib = importlib.import_module("matplotlib")
    except ModuleNotFoundError:
        raise refused(
            ("--png",),
            "needs matplotlib, which is not installed",
            advice="install it, or use --svg, which needs nothing",
        ) from None
    matplotlib.use("Agg")
    return matplotlib


def write_pngs(report: Report, folder: Path) -> list[Path]:
    """Bars, lines and heat maps as PNG files."""
    require_matplotlib()
    pyplot = importlib.import_module("matplotlib.pyplot")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in (("step_time", _bars), ("steps", _lines), ("work", _heat)):
        figure = draw(pyplot, report)
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=144, bbox_inches="tight")
        pyplot.close(figure)
        written.append(path)
    return written


def _bars(pyplot: Any, report: Report) -> Any:
    items = report["strategies"]
    figure, axes = pyplot.subplots(figsize=(9, 0.6 + 0.5 * len(items)))
    values = [item["step_ms"]["mean"] for item in items.values()]
    drawn = axes.barh(
        [item["title"] for item in items.values()],
        values,
        color=[_COLORS[look_of(name)] for name in items],
    )
    notes = [f" {value:,.0f} ms" for value in values]
    axes.bar_label(drawn, notes)
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds per step", title="Predicted time of a step, by strategy")
    axes.margins(x=0.12)
    figure.text(0.01, -0.04, setting(report), fontsize=8)
    return figure


def _lines(pyplot: Any, report: Report) -> Any:
    figure, axes = pyplot.subplots(figsize=(9, 4))
    for name, item in report["strategies"].items():
        axes.plot(
            item["per_step"]["step_ms"],
            label=item["title"],
            color=_COLORS[look_of(name)] if name in (BASELINE, DEFAULT) else None,
            linewidth=2.4 if name == DEFAULT else 1.4,
            marker="o" if report["steps"] == 1 else None,
        )
    axes.set(xlabel="step", ylabel="milliseconds", title="Predicted time, step by step")
    axes.set_ylim(bottom=0)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def _heat(pyplot: Any, report: Report) -> Any:
    names = [name for name in (BASELINE, "hybrid", DEFAULT) if name in report["strategies"]]
    names = names or list(report["strategies"])[:1]
    panels = [report["strategies"][name]["first_step_loads_ms"] for name in names]
    largest = max(max(row) for rows in panels for row in rows)
    figure, axes = pyplot.subplots(1, len(names), figsize=(9, 3.6), squeeze=False)
    for place, name, rows in zip(axes[0], names, panels, strict=True):
        image = place.imshow(rows, aspect="auto", cmap="Blues", vmin=0, vmax=largest)
        place.set(title=report["strategies"][name]["title"], xlabel="microbatch")
    axes[0][0].set_ylabel("data-parallel group")
    figure.colorbar(image, ax=axes[0].tolist(), label="ms of backbone work per rank")
    return figure
