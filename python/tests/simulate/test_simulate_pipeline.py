"""The 1F1B model against a simulator that knows nothing of recurrences, and the order of bins."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from overlord._src.simulate.pipeline import makespan, schedule
from overlord._src.simulate.planner_seam import order_microbatches
from overlord_bench._native import bench_core


def by_events(times: list[float], stages: int) -> float:
    """Stages that each take the next of their own list as soon as its input is there."""
    forward, backward = [t / 3 for t in times], [2 * t / 3 for t in times]
    lists = []
    for stage in range(stages):
        warm = min(stages - 1 - stage, len(times))
        runs = [("f", number) for number in range(warm)]
        for number in range(len(times)):
            if warm + number < len(times):
                runs.append(("f", warm + number))
            runs.append(("b", number))
        lists.append(runs)
    finished: dict[tuple[str, int, int], float] = {}
    clock = [0.0] * stages
    while any(lists):
        for stage in range(stages):
            if not lists[stage]:
                continue
            kind, number = lists[stage][0]
            if kind == "f":
                before = ("f", stage - 1, number) if stage else None
                took = forward[number]
            else:
                last = stage == stages - 1
                before = ("f", stage, number) if last else ("b", stage + 1, number)
                took = backward[number]
            if before is not None and before not in finished:
                continue
            start = max(clock[stage], finished[before] if before else 0.0)
            clock[stage] = finished[(kind, stage, number)] = start + took
            lists[stage].pop(0)
    return max(clock)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("microbatches", [1, 2, 5, 8, 16])
def test_the_recurrence_is_the_simulation(stages: int, microbatches: int) -> None:
    times = np.random.default_rng(stages * 100 + microbatches).lognormal(0, 0.8, (4, microbatches))
    found = makespan(times, stages)
    for row, value in zip(times.tolist(), found.tolist(), strict=True):
        assert value == pytest.approx(by_events(row, stages))


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 5), (4, 9), (8, 24)])
def test_the_planners_own_model_agrees(stages: int, microbatches: int) -> None:
    forward = np.random.default_rng(microbatches).integers(1, 10**6, microbatches)
    order = np.arange(microbatches, dtype=np.uint32)[None, :]
    expected = bench_core().pipeline_makespan(forward, stages, order)[0]
    assert makespan(3.0 * forward[None, :], stages)[0] == pytest.approx(expected, rel=1e-9)


def test_even_microbatches_take_the_textbook_time() -> None:
    assert makespan(np.full((1, 12), 3.0), 4)[0] == pytest.approx(3.0 * (12 + 4 - 1))


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 3), (4, 2), (4, 9)])
def test_the_schedule_runs_everything_once(stages: int, microbatches: int) -> None:
    runs = schedule(stages, microbatches)
    assert len(set(runs)) == len(runs) == 2 * stages * microbatches


@pytest.mark.parametrize(("stages", "microbatches"), [(4, 16), (8, 16), (8, 32)])
def test_order_gains_against_chance(stages: int, microbatches: int) -> None:
    rng = np.random.default_rng(7)
    times = np.maximum(rng.normal(1e9, 3e8, (40, microbatches)), 5e7)
    by_chance = makespan(times, stages)
    order = order_microbatches(times, stages)
    assert np.array_equal(np.sort(order, axis=1), np.tile(np.arange(microbatches), (40, 1)))
    ordered = makespan(np.take_along_axis(times, order, axis=1), stages)
    assert by_chance.mean() / ordered.mean() > 1.15


@pytest.mark.parametrize("seed", range(6))
def test_the_slowest_pipeline_is_ordered_almost_best(seed: int) -> None:
    times = np.random.default_rng(seed).lognormal(20, 0.6, (1, 6))
    every = np.array(list(permutations(range(6))))
    best = makespan(times[0][every], 4).min()
    found = makespan(np.take_along_axis(times, order_microbatches(times, 4), axis=1), 4)[0]
    assert best <= found * (1 + 1e-9) and found <= best * 1.03
