"""Splitting costs over bins in NumPy: the baselines beside the native balancer."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.simulate.columns import Integers


def longest_first(costs: Integers, bins: int) -> Integers:
    """Longest processing time first: the costliest goes to the bin with the least so far."""
    order = np.argsort(-costs, kind="stable")
    heap = [(0, number) for number in range(bins)]
    chosen = np.empty(len(costs), dtype=np.int64)
    placed = []
    for cost in costs[order].tolist():
        load, number = heap[0]
        placed.append(number)
        heapq.heapreplace(heap, (load + cost, number))
    chosen[order] = placed
    return chosen


def longest_first_equal_count(costs: Integers, bins: int) -> Integers:
    """The same, with counts per bin that differ by one at most."""
    count = len(costs)
    room = [count // bins + (number < count % bins) for number in range(bins)]
    heap = [(0, number) for number in range(bins) if room[number]]
    order = np.argsort(-costs, kind="stable")
    placed = []
    for cost in costs[order].tolist():
        load, number = heapq.heappop(heap)
        placed.append(number)
        room[number] -= 1
        if room[number]:
            heapq.heappush(heap, (load + cost, number))
    chosen = np.empty(count, dtype=np.int64)
    chosen[order] = placed
    return chosen


def longest_first_in_pipeline(
    costs: Integers, bins: int, microbatches: int, stages: int
) -> Integers:
    """Longest first, where a bin is a pipeline: its time is what it holds, and the largest
    microbatch once more for each further stage. Keeps a giant's bin from taking more work."""
    heap = [(0.0, number, 0, 0) for number in range(bins)]
    order = np.argsort(-costs, kind="stable")
    placed = []
    for cost in costs[order].tolist():
        _, number, load, largest = heap[0]
        placed.append(number)
        load, largest = load + cost, max(largest, cost)
        time = load + (stages - 1) * max(largest, load / microbatches)
        heapq.heapreplace(heap, (time, number, load, largest))
    chosen = np.empty(len(costs), dtype=np.int64)
    chosen[order] = placed
    return chosen


def bin_loads(costs: Integers, chosen: Integers, bins: int) -> Integers:
    """What each bin holds; items with a negative bin are in none."""
    there = chosen >= 0
    loads = np.bincount(chosen[there], weights=costs[there], minlength=bins)
    return np.rint(loads).astype(np.int64)


def places_within(owner: Integers, bins: int) -> tuple[npt.NDArray[Any], Integers]:
    """Each item's number among those of its bin, in order of arrival, and each bin's count."""
    counts = np.bincount(owner, minlength=bins)
    order = np.argsort(owner, kind="stable")
    place = np.empty(len(owner), dtype=np.int64)
    place[order] = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return place, counts
