"""Placers of the simulator: every atom once, and ours ahead of every baseline on every workload."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from overlord._src.mesh import Mesh
from overlord._src.simulate import partition, planner_seam
from overlord._src.simulate.clients import clients_of
from overlord._src.simulate.costs import BACKBONE, ENCODER, cost_of, parse_model
from overlord._src.simulate.measures import bound_of, measure
from overlord._src.simulate.placing import STRATEGIES, Work
from overlord._src.simulate.simulation import Settings, simulate
from overlord._src.simulate.workloads import WORKLOADS

MESHES = ("dp=8", "pp=4,dp=8,tp=2", "pp=2,dp=4,cp=2,tp=2")
BASELINES = [name for name in STRATEGIES if name not in ("ours", "one_owner")]


def work_of(name: str, count: int, step: int = 0) -> Work:
    workload = WORKLOADS[name]
    columns = workload.draw(step, count, workload.default_context, "samples")
    return Work(cost_of(parse_model(workload.default_model), columns), columns.tokens)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("mesh", [*MESHES, "dp=1", "dp=5", "pp=3"])
@pytest.mark.parametrize("count", [64, 333])
def test_every_atom_is_placed_once(strategy: str, mesh: str, count: int) -> None:
    clients, microbatches = clients_of(Mesh.parse(mesh)), 6
    work = work_of("navit", count)
    placed = STRATEGIES[strategy].place(work, clients, microbatches)
    backbone, encoder = placed[BACKBONE], placed[ENCODER]
    assert backbone.axis == "dp" and encoder.axis == "world"
    assert len(backbone.owner) == len(backbone.microbatch) == count
    assert backbone.owner.min() >= 0 and backbone.owner.max() < clients.groups
    assert backbone.microbatch.min() >= 0 and backbone.microbatch.max() < microbatches
    assert work.encoder is not None
    assert np.array_equal(encoder.owner >= 0, work.encoder > 0)
    assert encoder.owner.max() < clients.world
    loads = partition.bin_loads(work.backbone, backbone.owner, clients.groups)
    assert int(loads.sum()) == int(work.backbone.sum())


@pytest.mark.parametrize("strategy", ["arrival", "sorted", "equal_count", "backbone", "one_owner"])
def test_without_exchange_the_encoder_stays_in_the_group(strategy: str) -> None:
    clients, work = clients_of(Mesh.parse("pp=2,dp=4,cp=2,tp=2")), work_of("coyo", 512)
    placed = STRATEGIES[strategy].place(work, clients, 4)
    owner = placed[ENCODER].owner
    assert np.array_equal(clients.bucket_of_rank()[owner], placed[BACKBONE].owner)
    time = measure(placed, work, clients, 4, embedding_bytes=work.tokens)
    assert time.exchange_bytes == 0


@pytest.mark.parametrize("strategy", ["arrival", "sorted", "equal_count"])
def test_counts_are_equal_where_promised(strategy: str) -> None:
    clients, work = clients_of(Mesh.parse("dp=6")), work_of("code", 250)
    placed = STRATEGIES[strategy].place(work, clients, 5)[BACKBONE]
    by_group = np.bincount(placed.owner, minlength=6)
    by_bin = np.bincount(placed.owner * 5 + placed.microbatch, minlength=30)
    assert by_group.max() - by_group.min() <= 1 and by_bin.max() - by_bin.min() <= 2


def report_of(name: str, mesh: str, steps: int = 6, **more: Any) -> dict[str, Any]:
    workload, parsed = WORKLOADS[name], Mesh.parse(mesh)
    microbatches = more.pop("microbatches", max(4, 2 * parsed.size("pp")))
    settings = Settings(
        workload,
        parsed,
        parse_model(workload.default_model),
        steps,
        parsed.data_size * microbatches * 8,
        microbatches,
        more.pop("context", workload.default_context),
        **more,
    )
    return simulate(settings)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_ours_is_ahead_of_every_baseline(name: str, mesh: str) -> None:
    strategies = report_of(name, mesh)["strategies"]
    times = {key: item["step_ms"]["mean"] for key, item in strategies.items()}
    slack = 1 + 1e-3  # rounding of bins that are even within the search's tolerance
    ours = strategies["ours"]["per_step"]["step_ms"]
    for baseline in BASELINES:
        theirs = strategies[baseline]["per_step"]["step_ms"]
        for mine, other in zip(ours, theirs, strict=True):  # in every step, not on average
            assert mine <= other * slack, baseline
    assert times["hybrid"] <= times["backbone"] * slack
    assert times["backbone"] <= times["arrival"] * slack
    if mesh != "dp=8":  # where a pipeline waits for its microbatches, the lead is real
        assert times["ours"] < 0.97 * min(times[name] for name in ("arrival", "backbone", "hybrid"))


def test_ours_is_ahead_on_packed_sequences() -> None:
    strategies = report_of("pretrain", "pp=2,dp=8", atoms="sequences")["strategies"]
    times = {key: item["step_ms"]["mean"] for key, item in strategies.items()}
    assert all(times["ours"] <= times[baseline] * 1.001 for baseline in BASELINES)


def test_the_gain_rises_with_the_context() -> None:
    gains = [
        report_of("navit", "pp=4,dp=8,tp=2", context=context)["strategies"]["ours"][
            "speedup_vs_arrival"
        ]
        for context in (4096, 8192, 16384)
    ]
    assert gains == sorted(gains) and gains[-1] > gains[0] * 1.1


def test_one_owner_is_near_to_two_without_exchange() -> None:
    strategies = report_of("navit", "dp=16")["strategies"]
    assert strategies["one_owner"]["exchange_bytes"] == 0 < strategies["ours"]["exchange_bytes"]
    near = strategies["one_owner"]["step_ms"]["mean"] / strategies["ours"]["step_ms"]["mean"]
    assert near <= 1.05


@pytest.mark.parametrize("encoder_time", ["before", "overlapped"])
@pytest.mark.parametrize("mesh", MESHES)
def test_no_placement_beats_the_bound(mesh: str, encoder_time: Any) -> None:
    clients = clients_of(Mesh.parse(mesh))
    for name in ("coyo", "audio", "code"):
        work = work_of(name, 256)
        bound = bound_of(work, clients, 8, encoder_time)
        for strategy in STRATEGIES.values():
            time = measure(strategy.place(work, clients, 8), work, clients, 8, encoder_time)
            assert time.step_ns >= bound.bound_ns * (1 - 1e-9), strategy.name


def test_the_bound_names_what_limits() -> None:
    clients = clients_of(Mesh.parse("dp=4"))
    even, giant = np.full(64, 10), np.array([1000] + [1] * 63)
    assert bound_of(Work({BACKBONE: even}, even), clients, 4).limited_by == "work"
    found = bound_of(Work({BACKBONE: giant}, giant), clients, 4)
    assert (found.limited_by, found.largest_tokens) == ("sample", 1000)
    media = bound_of(Work({BACKBONE: even, ENCODER: giant}, even), clients, 4)
    assert media.limited_by == "media"


def best_of_all(costs: list[int], bins: int) -> int:
    """The least fullest bin there is, by trying everything."""
    best = sum(costs)
    for code in range(bins ** len(costs)):
        loads = [0] * bins
        for cost in costs:
            loads[code % bins] += cost
            code //= bins
        best = min(best, max(loads))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_splits_are_near_to_the_best(seed: int) -> None:
    costs = np.random.default_rng(seed).integers(1, 100, 8)
    best = best_of_all(costs.tolist(), 3)
    first = partition.longest_first(costs, 3)
    searched = planner_seam.balance(costs, 3)
    fullest = [int(partition.bin_loads(costs, found, 3).max()) for found in (first, searched)]
    assert best <= fullest[1] <= fullest[0] <= best * (4 / 3 - 1 / 9) + 1e-9  # Graham's bound


def test_ranks_of_a_group_follow_the_mesh() -> None:
    mesh = Mesh.parse("pp=2,dp=3,cp=2,tp=2")
    clients = clients_of(mesh)
    assert (clients.groups, clients.group_ranks, clients.stages, clients.shards) == (3, 8, 2, 4)
    for bucket, ranks in enumerate(clients.bucket_ranks.tolist()):
        assert all(mesh.coordinate(rank, "dp") == bucket for rank in ranks)


def test_4096_ranks_take_one_process() -> None:
    workload = WORKLOADS["navit"]
    mesh = Mesh.parse("pp=8,dp=64,cp=2,tp=4")
    model = parse_model(workload.default_model)
    report = simulate(Settings(workload, mesh, model, 1, 32_768, 16, 8192))
    assert report["mesh"]["ranks"] == 4096
    assert report["strategies"]["ours"]["over_even"] < 1.05
