"""Whole plans of a large job: selection, placement, report, views and hashes of one step.

294,912 samples of web lengths from 306 sources, on 4,096 ranks (PP 8, DP 64, CP 2, TP 4, and one
more shape), balanced and ordered by a quadratic cost. Metadata is made up; nothing is read. Times
are CPU milliseconds of one core. Growth is the time over that at 1x, for 2x and 4x the samples and
the ranks. `bytes_per_sample` is heap memory that a planner holds right after a plan: posted
metadata, selected steps of the window and the next one, scratch, the plan and its graph, over the
samples of the window's steps.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from overlord_bench import _contract

SAMPLES, SOURCES, CONTEXT = 294_912, 306, 8192
SHAPES = {
    "pp8_dp64_cp2_tp4": {"pp": 8, "dp": 64, "cp": 2, "tp": 4},
    "pp4_dp128_cp1_tp8": {"pp": 4, "dp": 128, "cp": 1, "tp": 8},
}


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench planner")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="samples of a step")
    parser.add_argument("--steps", type=int, default=24, help="planned steps of every case")
    parser.add_argument("--json", default=None, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def lengths_of(count: int, seed: int = 7) -> Any:
    """Web lengths: log-normal, median 403 tokens, at most 32,768."""
    drawn = np.random.default_rng(seed).lognormal(6.0, 1.1, count)
    return np.clip(drawn, 4, 32_768).astype(np.uint32)


def _job(axes: dict[str, int]) -> tuple[Any, Any, Any]:
    """Lengths, mesh and strategy as the engine takes them."""
    from overlord._src.lowering.job_spec import lower_mesh
    from overlord._src.lowering.strategy import lower_strategy
    from overlord._src.mesh import Mesh
    from overlord.config import BalanceConfig, OrderConfig, StrategyConfig

    import overlord as ol

    strategy = StrategyConfig(
        cost=ol.cost.quadratic(1, 24576).to_dict(), balance=BalanceConfig(), order=OrderConfig()
    )
    mesh = Mesh.parse(",".join(f"{name}={size}" for name, size in axes.items()))
    return lengths_of(1 << 18), lower_mesh(mesh), lower_strategy(strategy)


def _bins(samples: int, axes: dict[str, int], lengths: Any) -> tuple[int, int]:
    """Sequences that hold about so many samples, and what their number is a multiple of."""
    unit = axes["dp"] * axes["pp"]
    pieces = float(np.ceil(lengths / CONTEXT).mean())  # longer documents are split
    return -int(-samples * float(lengths.mean()) / pieces / CONTEXT // unit) * unit, unit


def published(samples: int, axes: dict[str, int], steps: int, hosts: int) -> dict[str, Any]:
    """Plans of one shape that are told to loaders on so many hosts: CPU of each step."""
    from overlord_bench._native import bench_core

    lengths, mesh, native = _job(axes)
    bins, _ = _bins(samples, axes, lengths)
    found: dict[str, Any] = bench_core().publishing_times(
        lengths, SOURCES, CONTEXT, bins, mesh, native, steps, hosts
    )
    return found


def measure(samples: int, axes: dict[str, int], steps: int, window: int = 1) -> dict[str, Any]:
    """Plans of one shape; about so many samples a step, in a multiple of the groups' sequences."""
    from overlord_bench._native import bench_core

    lengths, mesh, native = _job(axes)
    bins, unit = _bins(samples, axes, lengths)

    def plan(bins: int, steps: int, window: int) -> dict[str, Any]:
        found: dict[str, Any] = bench_core().planning_times(
            lengths, SOURCES, CONTEXT, bins, mesh, native, steps, window
        )
        return found

    # Packing splits and carries some: ask for as many sequences as hold the samples wanted.
    bins = -int(-bins * samples / plan(bins, 8, 1)["samples_per_step"] // unit) * unit
    found = plan(bins, steps, window)
    first, *times = found["milliseconds"]  # the first one makes its memory and a whole window
    held = found["held_bytes"]
    window_samples = found["samples_per_step"] * window
    return {
        "plan_ms_p50": float(np.percentile(times, 50)),
        "plan_ms_p99": float(np.percentile(times, 99)),
        "plan_ms_mean": float(np.mean(times)),
        "first_plan_ms": float(first),
        "bytes_per_sample": sum(held.values()) / window_samples,
        "held_bytes": held,
        "metadata_bytes_per_posted_row": held["metadata"] / max(found["posted_rows"], 1),
        "plan_and_graph_bytes_per_sample": (held["plan"] + held["graph"])
        / found["samples_per_step"],
        "samples_per_step": found["samples_per_step"],
        "sequences_per_step": bins,
        "predicted_speedup": float(np.sum(found["arrival_step_ms"]) / np.sum(found["step_ms"])),
    }


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure both shapes, and how time grows."""
    options = _parse(arguments)
    host = _contract.machine()
    contenders: dict[str, Any] = {}
    for name, axes in SHAPES.items():
        contenders[f"overlord/{name}"] = measure(options.samples, axes, options.steps)
    first, base = next(iter(SHAPES.items()))
    windowed = measure(options.samples, base, options.steps, window=4)
    contenders["overlord/window_4"] = windowed
    figures: dict[str, Any] = {
        key: contenders[f"overlord/{first}"][key]
        for key in ("plan_ms_p50", "plan_ms_p99", "bytes_per_sample")
    }
    for key in ("plan_ms_p50", "plan_ms_p99", "plan_ms_mean", "first_plan_ms", "bytes_per_sample"):
        figures[f"{key}_window_4"] = windowed[key]
    for times in (2, 4):
        more = measure(options.samples * times, base, max(4, options.steps // 2))
        wide = measure(options.samples, {**base, "dp": base["dp"] * times}, options.steps)
        contenders[f"overlord/{times}x_samples"] = more
        contenders[f"overlord/{times}x_ranks"] = wide
        figures[f"growth_{times}x_samples"] = more["plan_ms_p50"] / figures["plan_ms_p50"]
        figures[f"growth_{times}x_ranks"] = wide["plan_ms_p50"] / figures["plan_ms_p50"]
    settings = {
        "samples": options.samples,
        "sources": SOURCES,
        "context": CONTEXT,
        "steps": options.steps,
        "shapes": SHAPES,
    }
    return _contract.report("planner", figures, contenders, settings, host)
