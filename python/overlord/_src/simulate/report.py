"""A simulation's report for people and programs: rows of tables, words, JSON, pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from overlord._src.showing import charts as drawing
from overlord._src.simulate import own_strategy
from overlord._src.simulate.placing import BASELINE, DEFAULT

Report = dict[str, Any]
_LOOKS = {BASELINE: "first", DEFAULT: "best"}
_OURS = (DEFAULT, "one_owner", own_strategy.NAME)
STRATEGY_HEADINGS = (
    "strategy",
    "step ms",
    "speed-up",
    "worst step ms",
    "groups",
    "microbatches",
    "encoder ranks",
    "over even work",
    "most tokens",
    "exchanged",
)


def show_size(value: float) -> str:
    """Bytes with a decimal unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= size * 0.9995:  # which three digits round up to the unit
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def strategy_rows(report: Report) -> list[tuple[str, ...]]:
    """One row per strategy, in the words of STRATEGY_HEADINGS; imbalance is max / mean."""
    rows: list[tuple[str, ...]] = []
    for item in report["strategies"].values():
        imbalance = item["imbalance"]
        encoder = f"{imbalance['encoder']:.3f}" if "encoder" in imbalance else "-"
        rows.append(
            (
                item["title"],
                f"{item['step_ms']['mean']:,.1f}",
                f"{item['speedup_vs_arrival']:.2f}x",
                f"{item['step_ms']['max']:,.1f}",
                f"{imbalance['dp']:.3f}",
                f"{imbalance['microbatch']:.3f}",
                encoder,
                f"{item['over_even']:.3f}",
                f"{item['largest_microbatch_tokens']:,}",
                show_size(item["exchange_bytes"]) if item["exchange_bytes"] else "-",
            )
        )
    return rows


def hop_rows(report: Report) -> list[tuple[str, str]]:
    """Bytes of a step on each hop."""
    hops = report["bytes_per_step"]
    words = {
        "storage_to_loader": "storage to loaders",
        "loader_to_constructor": "loaders to constructors",
        "constructor_to_client": "constructors to ranks",
        "constructor_to_client_with_broadcast": "the same, broadcast over tp by the trainer",
        "colocated_storage_to_loader": "storage to colocated loaders, for comparison",
    }
    return [(text, show_size(hops[name])) for name, text in words.items()]


def memory_rows(report: Report) -> list[tuple[str, str]]:
    """Host memory of the whole job by role."""
    memory = report["memory"]
    rows = [(name, show_size(value)) for name, value in memory["roles_bytes"].items()]
    rows.append(("all roles", show_size(memory["total_bytes"])))
    workers = memory["assumed"]["colocated_workers"]
    rows.append(
        (
            f"colocated loaders, {workers} workers per process",
            f"{show_size(memory['colocated_bytes'])} ({memory['colocated_over_roles']:.1f}x)",
        )
    )
    return rows


def headline(report: Report) -> str:
    """The finding in one sentence."""
    strategies = report["strategies"]
    where = f"{report['workload']['name']} on {report['mesh']['ranks']:,} ranks"
    if DEFAULT not in strategies or len(strategies) == 1:
        best = min(strategies.values(), key=lambda item: float(item["step_ms"]["mean"]))
        return f"{where}: {best['title']} takes {best['step_ms']['mean']:,.1f} ms a step."
    ours = strategies[DEFAULT]["step_ms"]["mean"]
    others = {name: item for name, item in strategies.items() if name not in _OURS}
    quickest = min(others, key=lambda name: float(others[name]["step_ms"]["mean"]), default="")
    gains = [
        f"{others[name]['step_ms']['mean'] / ours:.2f}x as fast as {others[name]['title']}"
        for name in dict.fromkeys((BASELINE, "hybrid", quickest))
        if name in others
    ]
    return f"{where}: a step of ours is predicted to be {', '.join(gains)}."


def limits(report: Report) -> str:
    """What keeps the best strategy from being faster, and what would help."""
    bound, steps = report["bound"], report["steps"]
    text = (
        f"With all work cut evenly a step would take {bound['even_ms']:,.1f} ms (pipeline bubbles "
        f"included); no placement can go below {bound['bound_ms']:,.1f} ms."
    )
    limited, tokens = bound["steps_limited_by"], bound["limiting_tokens"]
    if limited["sample"]:
        text += (
            f" In {limited['sample']} of {steps} steps one sample is longer than a fair share (up "
            f"to {tokens:,} tokens): more context-parallel ranks, delaying it or a larger batch "
            "would help; another balancer would not."
        )
    if limited["media"]:
        text += (
            f" In {limited['media']} of {steps} steps one sample's media takes an encoder rank "
            f"longer than its fair share (up to {tokens:,} tokens): smaller pictures, splitting "
            "them, or a larger batch would help; another balancer would not."
        )
    return text


def write_json(report: Report, path: Path) -> None:
    """The report as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def look_of(name: str) -> str:
    """How a strategy is drawn: the baseline and ours stand out."""
    return _LOOKS.get(name, "other")


def setting(report: Report) -> str:
    """What was simulated, on one line."""
    axes = ", ".join(f"{name} {size}" for name, size in report["mesh"]["axes"].items())
    return (
        f"{report['workload']['name']}, {report['model']['name']}, {report['mesh']['ranks']:,} "
        f"ranks ({axes}), {report['global_batch']:,} {report['workload']['atoms']} a step"
    )


def pictures(report: Report) -> dict[str, str]:
    """SVG text by file stem."""
    drawn = {
        "step_time": _step_time(report),
        "steps": _steps(report),
        "work": _work(report),
        "memory": _memory(report),
    }
    return drawn


def _step_time(report: Report) -> str:
    has_encoder = any(item["encoder_ms"] for item in report["strategies"].values())
    apart = has_encoder and report["encoder_time"] == "before"
    bars = [
        drawing.Bar(
            item["title"],
            item["step_ms"]["mean"],
            f"{item['step_ms']['mean']:,.0f} ms, {item['speedup_vs_arrival']:.2f}x as fast",
            look_of(name),
            item["encoder_ms"] if apart else 0.0,
        )
        for name, item in report["strategies"].items()
    ]
    return drawing.bar_chart(
        "Predicted time of a step, by strategy",
        f"Shorter is better. {setting(report)}, mean of {report['steps']} steps",
        "milliseconds per step",
        bars,
        "part of it spent in the encoder" if apart else "",
    )


def _steps(report: Report) -> str:
    lines = [
        drawing.Line(item["title"], item["per_step"]["step_ms"], look_of(name))
        for name, item in report["strategies"].items()
    ]
    return drawing.line_chart(
        "Predicted time, step by step",
        f"Lower and flatter is better. {setting(report)}",
        "step",
        "milliseconds",
        lines,
    )


def _work(report: Report) -> str:
    wanted = [name for name in (BASELINE, "hybrid", DEFAULT) if name in report["strategies"]]
    names = wanted or list(report["strategies"])[:3]
    panels = [
        (
            report["strategies"][name]["title"],
            report["strategies"][name]["first_step_loads_ms"],
        )
        for name in names
    ]
    groups, shown = report["mesh"]["groups"], len(panels[0][1])
    joined = "" if shown == groups else f"; {groups} groups joined into {shown} rows"
    return drawing.heat_maps(
        "Who works how much in the first step",
        "One row per data-parallel group, one cell per microbatch. An even colour is even work; "
        f"one dark cell makes all wait{joined}",
        "data-parallel group",
        "microbatch, in running order",
        "ms of backbone work per rank",
        panels,
    )


def _memory(report: Report) -> str:
    cases = report["memory"]["appendix_a"]
    panels = [
        (name, [[1 / value for value in row] for row in case["ratio"]])
        for name, case in cases["cases"].items()
    ]
    return drawing.number_grid(
        "How many times less host memory shared roles need",
        "Colocated loaders over roles (sources not split), the paper's Appendix A; rows cp, "
        "columns pp, 306 sources. About 1: no gain",
        [f"cp {size}" for size in cases["cp"]],
        [f"pp {size}" for size in cases["pp"]],
        panels,
    )


def write_pictures(report: Report, folder: Path) -> list[Path]:
    """The pictures as SVG files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pictures(report).items():
        path = folder / f"{name}.svg"
        path.write_text(text)
        written.append(path)
    return written
