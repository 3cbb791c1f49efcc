"""Why a sample is where it is, what limits a plan, and what differs between two plans.

All of it is read from the graph a plan was made with and from the plan's own report; nothing is
guessed after the fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[np.int64]]
MILLISECOND = 1e6


@dataclass(frozen=True)
class PlannedStep:
    """A plan with its columns, its report and the graph behind it."""

    plan: Any
    columns: Columns
    report: dict[str, Any] | None
    graph: dict[str, Any]
    sources: Sequence[str]

    @classmethod
    def read(cls, cursor: Any, plan: Any, sources: Sequence[str]) -> PlannedStep:
        """Of the plan that a cursor gave last."""
        return cls(plan, plan.columns(), plan.report(), cursor.graph(), list(sources))


def advice(report: dict[str, Any]) -> str:
    """What would make the step faster, by what limits it."""
    bound, largest = report["lower_bound_ns"], report["limiting_sample"]["cost_ns"]
    gap = report["consumer_max_ns"] / bound - 1 if bound else 0.0
    if report["step_ns"] > 1.1 * report["even_step_ns"] and report["bound_by"] == "mean":
        return "the pipeline is not full: more microbatches per step, or strategy.order: search"
    if report["bound_by"] != "mean" and largest * 2 > bound:
        return "one long document sets the pace: split it over ranks (cp), delay it, or cut it"
    if gap > 0.01:
        return "the balancer left a gap: try method lpt_search at level interleaved"
    return "close to the bound: only other data or more ranks would help"


def report_lines(step: PlannedStep) -> list[str]:
    """The plan's report in words."""
    report = step.report
    if report is None:
        return ["dealt in arrival order; add strategy.cost to see how even the work is"]
    mean = report["total_ns"] / report["consumers"]
    gap = report["consumer_max_ns"] / report["lower_bound_ns"] - 1 if mean else 0.0
    sample = report["limiting_sample"]
    name = f"{step.sources[sample['source']]}[{sample['pass']}:{sample['position']}]"
    return [
        f"predicted step {report['step_ns'] / MILLISECOND:.2f} ms; in arrival order "
        f"{report['arrival_step_ns'] / MILLISECOND:.2f} ms; with even microbatches "
        f"{report['even_step_ns'] / MILLISECOND:.2f} ms",
        f"fullest consumer {report['limiting_consumer']}: "
        f"{report['consumer_max_ns'] / MILLISECOND:.2f} ms, max/mean "
        f"{report['consumer_max_ns'] / mean if mean else 1:.4f}, {gap:.2%} over the lower bound "
        f"(set by {report['bound_by']}); microbatches max/mean "
        f"{report['microbatch_max_ns'] / max(1, report['microbatch_mean_ns']):.3f}",
        f"its heaviest document is {name} in sequence {report['limiting_bin']}, "
        f"{sample['cost_ns'] / MILLISECOND:.2f} ms",
        f"advice: {advice(report)}",
    ]


def find_sample(step: PlannedStep, text: str) -> list[int]:
    """Rows of a sample named `source[pass:position]`; a cut document has several."""
    name, bracket, rest = text.partition("[")
    number, colon, position = rest.rstrip("]").partition(":")
    if not bracket or not colon or not number.isdigit() or not position.isdigit():
        raise ValueError(f"--sample: {text!r} is not source[pass:position], like web[0:17]")
    if name not in step.sources:
        raise ValueError(
            f"--sample: there is no source {name!r}; there are: {', '.join(step.sources)}"
        )
    columns = step.columns
    rows = np.flatnonzero(
        (columns["source"] == step.sources.index(name))
        & (columns["pass"] == int(number))
        & (columns["position"] == int(position))
    )
    return [int(row) for row in rows]


def explain_row(step: PlannedStep, row: int) -> list[str]:
    """One segment's way through the step, primitive by primitive."""
    columns, graph = step.columns, step.graph
    at = {name: int(values[row]) for name, values in columns.items()}
    costs = graph["sample_costs"]
    lines = [
        f"drawn from {step.sources[at['source']]}, pass {at['pass']}, position {at['position']}: "
        f"tokens {at['first']} to {at['first'] + at['count']}",
        f"packed into sequence {at['bin']} with "
        f"{int((columns['bin'] == at['bin']).sum()) - 1} other segments",
    ]
    if len(costs):
        bins = graph["bin_costs"]
        heavier = int((bins > bins[at["bin"]]).sum())
        lines.append(
            f"costs {costs[row] / MILLISECOND:.3f} ms; its sequence "
            f"{bins[at['bin']] / MILLISECOND:.3f} ms, number {heavier + 1} of {len(bins)} by cost"
        )
    for edge in np.flatnonzero(graph["from"] == graph["samples"] + at["bin"]):
        seat = int(graph["to"][edge]) - graph["samples"] - graph["bins"]
        consumer, microbatch = divmod(seat, graph["microbatches"])
        verb = {"deal": "dealt in turn", "balance": "balanced", "order": "moved by order"}
        verb["user"] = "placed by your function"
        name = graph["op_names"][int(graph["op"][edge])]
        lines.append(f"{verb.get(name, name)} to consumer {consumer}, microbatch {microbatch}")
    return lines


def cost_grid(step: PlannedStep) -> npt.NDArray[np.float64]:
    """Cost (or tokens, without a cost) of every microbatch: consumers x microbatches."""
    graph, columns = step.graph, step.columns
    weights = graph["sample_costs"] if len(graph["sample_costs"]) else columns["count"]
    grid = np.zeros((graph["consumers"], graph["microbatches"]))
    np.add.at(grid, (columns["bucket"], columns["microbatch"]), weights)
    return grid


def draw_lines(step: PlannedStep, width: int = 64, rows: int = 16) -> list[str]:
    """Consumers x microbatches as shades, for a terminal; large grids are averaged."""
    grid = _coarse(cost_grid(step), rows, width)
    top = grid.max() or 1.0
    shades = " .:-=+*#%@"
    return [
        f"{number:5d} |" + "".join(shades[int(value / top * (len(shades) - 1))] for value in line)
        for number, line in enumerate(grid)
    ]


def _coarse(grid: npt.NDArray[np.float64], rows: int, columns: int) -> npt.NDArray[np.float64]:
    def parts(length: int, most: int) -> npt.NDArray[np.int64]:
        return np.unique(np.linspace(0, length, min(length, most) + 1).astype(np.int64))

    down, across = parts(grid.shape[0], rows), parts(grid.shape[1], columns)
    summed: npt.NDArray[np.float64] = np.add.reduceat(
        np.add.reduceat(grid, down[:-1], 0), across[:-1], 1
    )
    sizes: npt.NDArray[np.float64] = np.outer(np.diff(down), np.diff(across)).astype(np.float64)
    return summed / sizes


def draw_svg(step: PlannedStep, most: int = 128) -> str:
    """Consumers x microbatches as a heat map: darker costs more."""
    grid = _coarse(cost_grid(step), most, most)
    top, cell = grid.max() or 1.0, 12
    height, width = grid.shape[0] * cell + 64, max(360, grid.shape[1] * cell + 80)
    unit = "ms" if step.report is not None else "tokens"
    scale = MILLISECOND if step.report is not None else 1.0
    cells = "".join(
        f'<rect x="{60 + m * cell}" y="{40 + c * cell}" width="{cell - 1}" height="{cell - 1}" '
        f'fill="hsl(210,70%,{95 - 65 * value / top:.0f}%)"><title>consumer {c}, microbatch {m}: '
        f"{value / scale:.2f} {unit}</title></rect>"
        for c, line in enumerate(grid)
        for m, value in enumerate(line)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><text x="60" y="16">step {step.plan.step}: '
        f"work of every microbatch, darkest = {top / scale:.2f} {unit}</text>"
        f'<text x="60" y="32" fill="#666">across: microbatches; down: consumers</text>{cells}</svg>'
    )


def to_arrow(step: PlannedStep) -> Any:
    """The plan as an Arrow table, one row per segment, with costs where there are any."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        name: values for name, values in step.columns.items() if name != "source"
    }
    names = pa.array(step.sources).dictionary_encode().dictionary
    source = pa.DictionaryArray.from_arrays(
        pa.array(step.columns["source"].astype(np.int32)), names
    )
    if len(step.graph["sample_costs"]):
        columns["cost_ns"] = step.graph["sample_costs"]
    return pa.table({"source": source, **{name: pa.array(v) for name, v in columns.items()}})


def diff_lines(before: PlannedStep, after: PlannedStep, limit: int = 8) -> list[str]:
    """What differs between two plans: samples they do not share, and samples that moved."""
    first, second = _by_segment(before), _by_segment(after)
    gone, new = sorted(first.keys() - second.keys()), sorted(second.keys() - first.keys())
    moved = [key for key in first.keys() & second.keys() if first[key] != second[key]]
    lines = [
        f"step {before.plan.step} against step {after.plan.step}: {len(first)} and {len(second)} "
        f"segments, {len(gone)} only in the first, {len(new)} only in the second, "
        f"{len(moved)} moved",
        "same contents" if not gone and not new else "contents differ",
    ]
    for key in [*gone, *new][:limit]:
        side = "first" if key in first else "second"
        lines.append(f"only in the {side}: {before.sources[key[0]]}[{key[1]}:{key[2]}]+{key[3]}")
    for key in sorted(moved)[:limit]:
        lines.append(
            f"moved: {before.sources[key[0]]}[{key[1]}:{key[2]}]+{key[3]} from consumer "
            f"{first[key][0]}, microbatch {first[key][1]} to consumer {second[key][0]}, "
            f"microbatch {second[key][1]}"
        )
    for name, step in (("first", before), ("second", after)):
        if step.report is not None:
            lines.append(f"{name}: {report_lines(step)[0]}")
    return lines


def _by_segment(step: PlannedStep) -> dict[tuple[int, int, int, int], tuple[int, int]]:
    columns = step.columns
    keys = zip(
        *(columns[name].tolist() for name in ("source", "pass", "position", "first")), strict=True
    )
    places = zip(columns["bucket"].tolist(), columns["microbatch"].tolist(), strict=True)
    return dict(zip(keys, places, strict=True))
