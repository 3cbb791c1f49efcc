"""Orders of microbatches: ours, simple and random ones, and the best of all where they are few."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from overlord._version import __version__

_RANDOM_ORDERS = 100
_UNIT = 1_000_000  # mean forward time of a microbatch


def _costs(case: dict[str, Any], seeds: int) -> Iterator[NDArray[np.int64]]:
    """Log-normal forward times of the microbatches of one pipeline, for every seed."""
    sigma = math.sqrt(math.log(1 + case["cv"] ** 2))
    for seed in range(seeds):
        random = np.random.default_rng([seed, case["stages"], case["microbatches"]])
        drawn = random.lognormal(-sigma * sigma / 2, sigma, case["microbatches"])
        yield np.maximum(1, np.round(drawn * _UNIT)).astype(np.int64)


def _permutations(count: int) -> NDArray[np.uint32]:
    return np.array(list(itertools.permutations(range(count))), dtype=np.uint32)


def _shuffles(count: int) -> NDArray[np.uint32]:
    random = np.random.default_rng(11)
    return np.array([random.permutation(count) for _ in range(_RANDOM_ORDERS)], dtype=np.uint32)


def _measure_case(case: dict[str, Any], method: str, seeds: int) -> dict[str, float]:
    from overlord._src.native import core

    from overlord_bench._native import bench_core

    stages, count = case["stages"], case["microbatches"]
    parts = case.get("virtual_stages", 1)
    relative, seconds, over_best, over_bound = [], [], [], []
    orders = {"random": _shuffles, "brute_force": _permutations}.get(method)
    tried = orders(count) if orders else None
    for costs in _costs(case, seeds):
        # As if all microbatches had the mean cost.
        even = float(costs.mean()) * 3 * (count + (stages - 1) / parts)
        if tried is not None:
            spans = bench_core().pipeline_makespan(costs, stages, tried, parts)
            makespan = statistics.fmean(spans) if method == "random" else min(spans)
            if method == "brute_force":
                ours = core.pipeline_order(costs, stages, "search", parts)
                over_best.append(ours["makespan"] / makespan)
        else:
            ordered = core.pipeline_order(costs, stages, method, parts)
            makespan = ordered["makespan"]
            over_bound.append(makespan / ordered["lower_bound"])
            seconds.append(ordered["seconds"])
        relative.append(makespan / even)
    figures = {"makespan_over_even": statistics.fmean(relative)}
    if seconds:
        figures["time_ms"] = statistics.median(seconds) * 1e3
        figures["makespan_over_bound"] = statistics.fmean(over_bound)
    if over_best:
        figures["search_over_best"] = statistics.fmean(over_best)
        figures["search_over_best_worst"] = max(over_best)
    return figures


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Per case the mean makespan, over that of equal microbatches, and the time to order."""
    found: dict[str, Any] = {"version": __version__}
    for case in work["cases"]:
        if work["method"] == "brute_force" and case["microbatches"] > 8:
            continue
        for key, value in _measure_case(case, work["method"], work["seeds"]).items():
            found[f"{case['name']}/{key}"] = value
    return found
