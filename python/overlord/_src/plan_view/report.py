"""What a plan tells about itself, as plain data: evenness per axis, fill, delay, debt, remedies.

The engine's report has the consumers' side. What context-parallel peers share is computed here,
from the plan's segments and the strategy's cost, because only people ask for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlord._src.job.job import Job
from overlord._src.job.open_stream import OpenStream
from overlord._src.lowering.strategy import cost_data, python_cost
from overlord._src.plan_view.explain import Columns, PlannedStep
from overlord._src.plan_view.remedies import remedies

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Layout(NamedTuple):
    """How documents lie in the sequences of a step."""

    context: int
    align: int


def told(job: Job, opened: OpenStream, step: PlannedStep) -> dict[str, Any]:
    """The report of a plan: also of one without a cost, with what needs none."""
    plan = step.plan
    return {
        "step": plan.step,
        "fill": plan.tokens / plan.capacity if plan.capacity else 0.0,
        "delay": delay_of(list(plan.delays)),
        "debt": {name: plan.debts[index] for index, name in enumerate(opened.source_names)},
        "debt_unit": opened.resolved.mixture.unit,
        "axes": axes_of(job, opened, step),
        "remedies": remedies(step.report) if step.report is not None else [],
        **(step.report or {}),
    }


def delay_of(histogram: list[int]) -> dict[str, Any]:
    """How long the segments of a step waited between being drawn and placed, in steps."""
    total = sum(histogram)
    waited = sum(steps * count for steps, count in enumerate(histogram))
    return {
        "histogram": histogram,
        "mean_steps": waited / total if total else 0.0,
        "max_steps": max((steps for steps, count in enumerate(histogram) if count), default=0),
    }


def axes_of(job: Job, opened: OpenStream, step: PlannedStep) -> dict[str, Any]:
    """Largest over mean load along each axis that has more than one rank; and of microbatches."""
    report = step.report
    if report is None:
        return {}
    sizes = dict(job.mesh.axes)
    mean = report["total_ns"] / report["consumers"]
    strategy = job.config.strategy
    axes: dict[str, Any] = {
        strategy.distribute.axis if strategy else "dp": {
            "max_over_mean": report["consumer_max_ns"] / mean if mean else 1.0,
            "max_ns": report["consumer_max_ns"],
            "mean_ns": mean,
        },
        "microbatch": {
            "max_over_mean": report["microbatch_max_ns"] / max(1, report["microbatch_mean_ns"]),
            "max_ns": report["microbatch_max_ns"],
            "mean_ns": report["microbatch_mean_ns"],
        },
    }
    stages = sizes.get("pp", 1)
    if stages > 1 and report["step_ns"]:
        # Stages have equal parts of the model, so what differs is how long they wait.
        axes["pp"] = {"busy": report["consumer_max_ns"] / stages / report["step_ns"]}
    slices = sizes.get("cp", 1)
    if slices > 1:
        ratio = slice_imbalance(job, opened, step, slices)
        if ratio is not None:
            axes["cp"] = {"max_over_mean": ratio}
    return axes


def slice_imbalance(job: Job, opened: OpenStream, step: PlannedStep, slices: int) -> float | None:
    """Time of the slowest context-parallel peer over the mean, summed over microbatches.

    None where the trainer slices, where sequences have lengths of their own, or where a function
    says what whole samples cost.
    """
    slicing, strategy = job.config.delivery.cp_slicing, job.config.strategy
    if slicing == "trainer" or strategy is None or strategy.cost is None:
        return None
    if python_cost(strategy.cost) is not None:
        return None
    if strategy.balance is not None and strategy.balance.atoms == "samples":
        return None
    graph, columns = step.graph, step.columns
    chunks = slices if slicing == "contiguous" else 2 * slices
    if slicing == "document_zigzag":
        lengths = -(-columns["count"] // chunks) * chunks
        parts = np.arange(chunks + 1)[None, :] * (lengths // chunks)[:, None]
        cost = _work(cost_data(strategy.cost), np.minimum(parts, columns["count"][:, None]))
        by_chunk, owner = np.diff(cost, axis=1), columns["bin"]
    else:
        layout = Layout(opened.resolved.context, opened.resolved.align)
        places = np.arange(graph["bins"])[:, None] * layout.context + (
            np.arange(chunks + 1)[None, :] * (layout.context // chunks)
        )
        cost = _work_before(cost_data(strategy.cost), columns, places, layout)
        by_chunk, owner = np.diff(cost, axis=1), np.arange(graph["bins"])
    by_rank = (
        by_chunk if chunks == slices else by_chunk[:, :slices] + by_chunk[:, : slices - 1 : -1]
    )
    seat = np.array(step.plan.placement())[:, :2]
    seats = seat[:, 0] * graph["microbatches"] + seat[:, 1]
    loads = np.zeros((int(seats.max()) + 1, slices))
    np.add.at(loads, seats[owner], by_rank)
    mean = float(loads.mean(axis=1).sum())
    return float(loads.max(axis=1).sum()) / mean if mean else 1.0


def _work(cost: dict[str, Any], lengths: Integers) -> Floats:
    """Nanoseconds of the first so many tokens of a document; constants are left out."""
    size = lengths.astype(np.float64)
    terms = [term for term in cost["terms"] if term["column"] == "tokens"]
    linear = sum(term.get("linear_q32", 0) for term in terms) / 2**32
    quadratic = sum(term.get("quadratic_q32", 0) for term in terms) / 2**32
    work: Floats = linear * size + quadratic * size * size
    return work


def _work_before(
    cost: dict[str, Any], columns: Columns, places: Integers, layout: Layout
) -> Floats:
    """Work of all tokens before these places; sequence b has the places from b * context on."""
    padded = -(-columns["count"] // layout.align) * layout.align
    before = np.concatenate([[0], np.cumsum(padded)])[:-1]
    first = np.searchsorted(columns["bin"], columns["bin"])  # the first segment of its sequence
    starts = columns["bin"] * layout.context + before - before[first]
    whole = np.concatenate([[0.0], np.cumsum(_work(cost, columns["count"]))])
    last = np.searchsorted(starts, places, side="right") - 1  # the last to start at or before it
    held = np.maximum(last, 0)
    inside = np.clip(places - starts[held], 0, columns["count"][held])
    return np.where(last >= 0, whole[held] + _work(cost, inside), 0.0)


def told_lines(data: dict[str, Any]) -> list[str]:
    """Delay, debt and axes in words."""
    delay, debt = data["delay"], data["debt"]
    counts = ", ".join(f"{steps}: {count}" for steps, count in enumerate(delay["histogram"]))
    lines = [f"segments by steps waited: {counts}; {delay['mean_steps']:.2f} on average"]
    owed = sorted(debt.items(), key=lambda item: -abs(item[1]))[:8]
    unit = data["debt_unit"]
    lines.append(f"mixture debt ({unit}): " + ", ".join(f"{n} {x:+,.1f}" for n, x in owed))
    parts = [
        f"{axis} {value['max_over_mean']:.4f}"
        for axis, value in data["axes"].items()
        if "max_over_mean" in value
    ]
    if parts:
        busy = data["axes"].get("pp", {}).get("busy")
        more = f"; pipeline busy {busy:.1%}" if busy is not None else ""
        lines.append("max/mean by axis: " + ", ".join(parts) + more)
    return lines
