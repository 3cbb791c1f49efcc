"""Why a sample is where it is, what limits a plan, and what differs between two plans.

All of it is read from the graph a plan was made with and from the plan's own report; nothing is
guessed after the fact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.plan_view.remedies import remedy_lines
from overlord._src.showing.charts import heat_maps

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
    cursor: Any = field(compare=False, repr=False)
    encoder: dict[str, Any] | None = None
    further_reports: Sequence[dict[str, Any]] = ()

    @classmethod
    def read(cls, cursor: Any, plan: Any, sources: Sequence[str]) -> PlannedStep:
        """Of the plan that a cursor gave last."""
        return cls(
            plan,
            plan.columns(),
            plan.report(),
            cursor.graph(),
            list(sources),
            cursor,
            plan.encoder(),
            plan.further_reports(),
        )


def group_lines(step: PlannedStep) -> list[str]:
    """Groups of hybrid data parallelism: how many ranks sequences have, how many microbatches."""
    groups = step.plan.hdp()
    if groups is None:
        return []
    sizes = np.diff(groups["rank_ends"], prepend=0)
    filled = np.diff(groups["sequence_ends"], prepend=0) > 0
    degrees, counts = np.unique(sizes[filled], return_counts=True)
    cut = int(np.diff(groups["sequence_ends"], prepend=0)[filled & (sizes > 1)].sum())
    rounds = groups["rank_microbatches"]
    offload = int(groups["offload_permille"].max(initial=0))
    listed = [f"{n} of {size}" for size, n in zip(degrees.tolist(), counts.tolist(), strict=True)]
    if len(listed) > 8:
        listed = [*listed[:4], "...", *listed[-3:]]
    return [
        f"{int(filled.sum())} groups over {len(rounds)} ranks ({', '.join(listed)} ranks); "
        f"{cut} of {len(groups['table'])} documents are cut",
        f"microbatches of a rank {int(rounds.min())} to {int(rounds.max())}; "
        f"offloaded at most {offload / 10:.1f} %; {int((~filled).sum())} ranks idle in a substep",
    ]


def hybrid_advice(report: dict[str, Any]) -> str:
    """The same for hybrid data parallelism, which cuts sequences itself."""
    if report["bound_by"] == "largest":
        return "one long document sets the pace on any number of ranks: more of the others a step"
    if report["consumer_max_ns"] > 1.03 * report["lower_bound_ns"]:
        return "groups do not fit together: more sequences a step, or a larger capacity"
    return "close to the bound: only other data or more ranks would help"


def report_lines(step: PlannedStep) -> list[str]:
    """The plan's reports in words: the backbone's, then the encoder's where there is one."""
    lines = _backbone_lines(step)
    lines[-1:-1] = [_further_line(number, item) for number, item in enumerate(step.further_reports)]
    return lines if step.encoder is None else [*_encoder_lines(step.encoder), *lines]


def _further_line(number: int, report: dict[str, Any]) -> str:
    mean = report["total_ns"] / report["consumers"]
    gap = report["consumer_max_ns"] / report["lower_bound_ns"] - 1 if mean else 0.0
    return (
        f"further cost {number}: fullest consumer {report['limiting_consumer']}: "
        f"{report['consumer_max_ns'] / MILLISECOND:.2f} ms, max/mean "
        f"{report['consumer_max_ns'] / mean if mean else 1:.4f}, {gap:.2%} over the lower bound"
    )


def _encoder_lines(encoder: dict[str, Any]) -> list[str]:
    report = encoder["report"]
    mean = report["total_ns"] / report["consumers"]
    gap = report["step_ns"] / report["lower_bound_ns"] - 1 if mean else 0.0
    moved = sum(int(item["pair_bytes"].sum()) for item in encoder["exchanges"])
    return [
        f"{encoder['module']}: {len(encoder['columns']['bin'])} samples over "
        f"{report['consumers']} consumers at {encoder['axis']}, predicted "
        f"{report['step_ns'] / MILLISECOND:.2f} ms; in arrival order "
        f"{report['arrival_step_ns'] / MILLISECOND:.2f} ms; max/mean "
        f"{report['step_ns'] / mean if mean else 1:.4f}, {gap:.2%} over the lower bound "
        f"(set by {report['bound_by']})",
        f"{encoder['module']}: {moved:,} bytes exchanged, {len(encoder['dummies'])} dummies",
    ]


def _backbone_lines(step: PlannedStep) -> list[str]:
    report = step.report
    if report is None:
        return ["dealt in arrival order; add strategy.cost to see how even the work is"]
    mean = report["total_ns"] / report["consumers"]
    gap = report["consumer_max_ns"] / report["lower_bound_ns"] - 1 if mean else 0.0
    sample = report["limiting_sample"]
    name = f"{step.sources[sample['source']]}[{sample['pass']}:{sample['position']}]"
    hybrid = step.plan.hdp() is not None
    return [
        f"predicted step {report['step_ns'] / MILLISECOND:.2f} ms; in arrival order "
        f"{report['arrival_step_ns'] / MILLISECOND:.2f} ms; "
        f"{'the lower bound is' if hybrid else 'with even microbatches'} "
        f"{report['even_step_ns'] / MILLISECOND:.2f} ms",
        f"fullest consumer {report['limiting_consumer']}: "
        f"{report['consumer_max_ns'] / MILLISECOND:.2f} ms, max/mean "
        f"{report['consumer_max_ns'] / mean if mean else 1:.4f}, {gap:.2%} over the lower bound "
        f"(set by {report['bound_by']}); microbatches max/mean "
        f"{report['microbatch_max_ns'] / max(1, report['microbatch_mean_ns']):.3f}",
        f"its heaviest document is {name} in {'microbatch' if hybrid else 'sequence'} "
        f"{report['limiting_bin']}, {sample['cost_ns'] / MILLISECOND:.2f} ms",
        *group_lines(step),
        *_limit_lines(report),
        *([f"advice: {hybrid_advice(report)}"] if hybrid else remedy_lines(report)),
    ]


def _limit_lines(report: dict[str, Any]) -> list[str]:
    if not report["memory_max_bytes"]:
        return []
    how = ", dealt in arrival order to keep the limit" if report["arrival_for_memory"] else ""
    return [f"largest microbatch {report['memory_max_bytes']:,} bytes{how}"]


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


_CONDITION = re.compile(r"^\s*([^<>=!]+?)\s*(<=|>=|!=|<|>|=)\s*(\S+)\s*$")


def where_rows(step: PlannedStep, texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """Rows of the samples that meet all conditions, like `image_patches>0` or `source=web`."""
    source: int | None = None
    conditions: list[tuple[str, str, int]] = []
    for text in texts:
        match = _CONDITION.match(text)
        if match is None:
            raise ValueError(f"--where: {text!r} is not COLUMN>NUMBER or source=NAME")
        name, comparison, value = match.groups()
        if name == "source":
            if comparison != "=" or value not in step.sources:
                raise ValueError(
                    f"--where: {text!r} is not source=NAME with one of: {', '.join(step.sources)}"
                )
            source = step.sources.index(value)
            continue
        if not value.isdigit():
            raise ValueError(f"--where: {text!r} compares with {value!r}, not with a whole number")
        conditions.append((name, comparison, int(value)))
    rows: npt.NDArray[np.int64] = step.cursor.samples(step.plan, source, conditions).astype(
        np.int64
    )
    return rows


def where_lines(step: PlannedStep, texts: Sequence[str]) -> list[str]:
    """How much of the step meets the conditions, and how evenly it is dealt."""
    rows = where_rows(step, texts)
    columns, consumers = step.columns, step.graph["consumers"]
    lines = [
        f"{' and '.join(texts)}: {len(rows)} of {step.graph['samples']} samples in "
        f"{len(np.unique(columns['bin'][rows]))} of {step.graph['bins']} sequences"
    ]
    values = {"samples": np.ones(len(rows)), "tokens": columns["count"][rows]}
    values.update({name: column[rows] for name, column in step.graph["columns"].items()})
    if len(step.graph["sample_costs"]):
        values["cost (ms)"] = step.graph["sample_costs"][rows] / MILLISECOND
    for name, own in values.items():
        sums = np.bincount(columns["bucket"][rows], weights=own, minlength=consumers)
        mean = float(sums.mean())
        lines.append(
            f"  {name}: {sums.sum():.6g}; by consumer min {sums.min():.6g}, max {sums.max():.6g}, "
            f"max/mean {sums.max() / mean if mean else 1:.4f}"
        )
    return lines


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
    if graph["columns"]:
        own = ", ".join(f"{name} {int(v[row])}" for name, v in graph["columns"].items())
        late = " (counted with the document's first segment)" if at["first"] else ""
        lines.append(f"metadata: {own}{late}")
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
    return lines if step.encoder is None else [*lines, *_encoder_way(step, row)]


def _encoder_way(step: PlannedStep, row: int) -> list[str]:
    """Where a segment is encoded, and for whom."""
    encoder = step.encoder or {}
    found = np.flatnonzero(encoder["backbone_segment"] == row)
    if not len(found):
        return [f"has nothing for the {encoder['module']}"]
    at, columns = int(found[0]), encoder["columns"]
    cost = step.graph["encoder"]["sample_costs"][at]
    return [
        f"{encoder['module']}: {int(columns['count'][at])} units, {cost / MILLISECOND:.3f} ms, "
        f"encoded by consumer {int(columns['bucket'][at])} at {encoder['axis']} in microbatch "
        f"{int(columns['microbatch'][at])}, for group {int(encoder['backbone_of'][at])}"
    ]


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
    """Consumers x microbatches as a heat map: darker costs more; large grids are averaged."""
    whole = cost_grid(step)
    timed = step.report is not None
    unit, scale = ("ms", MILLISECOND) if timed else ("tokens", 1.0)
    grid = _coarse(whole, most, most) / scale
    rows, columns = whole.shape
    every = grid.shape == whole.shape
    shown = "" if every else ", neighbours averaged"

    def told(group: int, place: int, value: float) -> str:
        return f"group {group}, microbatch {place}: {value:,.2f} {unit}"

    uneven = whole.max() / (whole.mean() or 1.0)
    return heat_maps(
        f"Step {step.plan.step}: work of every microbatch",
        f"{rows} groups of ranks x {columns} microbatches{shown}; "
        f"the largest has {uneven:.3f} of the mean. An even colour is even work",
        "group",
        "microbatch, in running order",
        f"{unit} of work",
        [("", grid.tolist())],
        told if every else None,
    )


def to_arrow(step: PlannedStep, where: Sequence[str] = ()) -> Any:
    """The plan as an Arrow table, one row per segment, with metadata, and costs if any."""
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
    for name, values in step.graph["columns"].items():
        taken = name in columns or name == "source"
        columns[f"metadata.{name}" if taken else name] = values
    table = pa.table({"source": source, **{name: pa.array(v) for name, v in columns.items()}})
    return table.take(pa.array(where_rows(step, where))) if where else table


def diff_lines(before: PlannedStep, after: PlannedStep, limit: int = 8) -> list[str]:
    """What differs between two plans: samples they do not share, and samples that moved."""
    first, second = _by_segment(before), _by_segment(after)
    gone, new = sorted(first.keys() - second.keys()), sorted(second.keys() - first.keys())
    moved = [key for key in first.keys() & second.keys() if first[key] != second[key]]
    lines = [
        f"step {before.plan.step} against step {after.plan.step}: {len(first)} and {len(second)} "
        f"segments, {len(gone)} only in the first, {len(new)} only in the second, "
        f"{len(moved)} moved",
        "same contents"
        if before.plan.content_hash == after.plan.content_hash or (not gone and not new)
        else "contents differ",
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
