"""ol.torch.broadcast: ranks that read hand on what the others need, one message a microbatch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from broadcast_rank import digest
from own_rank import said_by_ranks
from packed_job import packed_job
from test_golden_inputs import job_of
from trainers import until_nothing_left

import overlord as ol

torch: Any = pytest.importorskip("torch")
DELIVERIES: list[tuple[dict[str, int], dict[str, Any]]] = [
    ({"dp": 2, "tp": 2}, {"broadcast": ["tp"]}),
    ({"cp": 2, "tp": 2}, {"broadcast": ["tp", "cp"]}),
    ({"cp": 2, "tp": 2}, {"broadcast": ["tp"]}),  # what is handed on is a slice
    ({"pp": 2, "tp": 2}, {"broadcast": ["pp", "tp"], "all_stages": True}),
    ({"pp": 2, "tp": 2}, {"broadcast": ["tp"]}),
]


def run(
    folder: Path, cases: list[dict[str, Any]], engine: str = "embedded", per_host: int | None = None
) -> list[list[dict[str, Any]]]:
    """What every rank said of every case."""
    [world] = {math.prod(case["mesh"].values()) for case in cases}
    told = {"cases": cases, "rendezvous": f"file://{folder}/meet", "engine": engine}
    return said_by_ranks("broadcast_rank.py", told, world, per_host)


def reader_of(mesh: ol.Mesh, rank: int, axes: list[str]) -> int:
    """The rank at the same place, but first along these axes."""
    names = [name for name, _ in mesh.axes]
    wanted = [0 if name in axes else mesh.coordinate(rank, name) for name in names]
    return next(
        other
        for other in range(mesh.world_size)
        if [mesh.coordinate(other, name) for name in names] == wanted
    )


def levels_of(mesh: ol.Mesh, rank: int, axes: list[str]) -> int:
    """How often it takes part in handing on one message: axes whose outer ones it is first in."""
    names = [name for name, _ in mesh.axes]
    return sum(
        mesh.size(axis) > 1
        and all(
            mesh.coordinate(rank, outer) == 0
            for outer in axes
            if names.index(outer) < names.index(axis)
        )
        for axis in axes
    )


def test_every_rank_has_what_its_reader_read(tmp_path: Path) -> None:
    cases = []
    for mesh, delivery in DELIVERIES:
        shape = {"microbatch_size": 2, "readers": "fields", **delivery}
        cases.append({"mesh": mesh, "config": packed_job(tmp_path, steps=3, delivery=shape)})
    pictures = job_of(tmp_path, "pictures")
    pictures["delivery"] |= {"broadcast": ["tp"], "readers": "fields"}
    cases.append({"mesh": {"tp": 4}, "config": pictures})
    said = run(tmp_path, cases)
    for number, case in enumerate(cases):
        axes = case["config"]["delivery"]["broadcast"]
        job = ol.job(case["config"], mesh=ol.mesh(**case["mesh"]))
        with job.train(ranks="all", engine="embedded") as loaders:
            read = {rank: [digest(batch) for batch in loaders[rank]] for rank in job.readers}
        for rank, words in enumerate(said):
            word = words[number]
            assert word["reads"] == (rank in job.readers)
            assert word["got"] == read[reader_of(job.mesh, rank, axes)], (case["mesh"], axes, rank)
            levels = levels_of(job.mesh, rank, axes)
            # One message a microbatch and level, one for the end, two more while room is found.
            count = len(word["got"]) + 1
            assert count * levels <= word["messages"] <= (count + 2) * levels


def written_to(folder: Path, runtime: dict[str, Any]) -> dict[str, Any]:
    """Two ranks read the same microbatches, and each hands them on to another; all four overwrite
    every tensor of every batch, when they have seen it."""
    delivery = {"broadcast": ["tp"], "readers": "fields", "microbatch_size": 2, "all_stages": True}
    # A pool of few pages, used again and again.
    runtime |= {"constructor_budget": "256KiB", "prefetch": 2, "runway": 4}
    config = packed_job(folder, steps=30, delivery=delivery, runtime=runtime)
    return {"mesh": {"pp": 2, "tp": 2}, "config": config, "spoils": True}


def check_written_to(case: dict[str, Any], said: list[list[dict[str, Any]]]) -> None:
    """Every rank has what one process has whose tensors nobody touches."""
    job = ol.job(case["config"], mesh=ol.mesh(**case["mesh"]))
    with job.train(ranks="all", engine="embedded") as loaders:
        read = [{rank: digest(batch) for rank, batch in each.items()} for each in loaders.rounds()]
    expected = [each[0] for each in read]
    assert all(each == {0: each[0], 2: each[0]} for each in read) and len(set(expected)) == 120
    assert [words[0]["reads"] for words in said] == [True, False, True, False]
    for rank, words in enumerate(said):
        assert words[0].get("got") == expected, (rank, words[0].get("error"))


# Ranks that share pages, one on each of two hosts, and each with an engine of its own.
@pytest.mark.parametrize("engine", ["embedded", "processes", "hosts"])
def test_what_is_handed_on_may_be_written_to(
    engine: str, tmp_path: Path, sockets: Path, free_port: int
) -> None:
    runtime: dict[str, Any] = {"processes": {"directory": str(sockets)}}
    if engine == "hosts":
        runtime["wire"] = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1"}
    case = written_to(tmp_path, runtime)
    node = "processes" if engine == "hosts" else engine
    check_written_to(case, run(tmp_path, [case], node, per_host=2 if engine == "hosts" else 4))
    until_nothing_left(sockets)


def test_ranks_that_are_served_hear_of_a_failure(tmp_path: Path) -> None:
    delivery = {"broadcast": ["tp"], "readers": "fields"}
    case = {"config": packed_job(tmp_path, delivery=delivery), "mesh": {"tp": 2}, "fails_after": 3}
    [first], [second] = run(tmp_path, [case])
    assert first["error"] == "OSError: the disk is gone"
    assert second["error"].startswith("UnavailableError: the rank that reads for this one")
    assert second["error"].endswith("OSError: the disk is gone")
    assert len(second["got"]) == 3


def test_what_cannot_be_handed_on_is_refused(tmp_path: Path) -> None:
    from overlord._src.trainers.broadcast import broadcast

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/alone", rank=0, world_size=1
    )
    try:
        job = ol.job(packed_job(tmp_path))
        with pytest.raises(ol.ConfigError, match=r"delivery\.readers.*allowed: fields"):
            broadcast(job)
        with pytest.raises(ol.ConfigError, match="needed with a loader"):
            broadcast(None)
        with pytest.raises(ol.ConfigError, match="has 2 ranks"):
            broadcast(None, ol.mesh(tp=2), axes=["tp"])
        with job.train() as loader:
            with pytest.raises(ol.ConfigError, match="see different samples"):
                broadcast(loader, ol.mesh(dp=1), axes=["dp"])
            alone = broadcast(loader, ol.mesh(), axes=["tp"])
            assert next(alone).step == 0 and alone.messages == 0
            assert alone.state_dict() == loader.state_dict()
        with pytest.raises(ol.ConfigError, match=r"None.*its loader"):
            broadcast(None, ol.mesh(), axes=["tp"])
    finally:
        torch.distributed.destroy_process_group()
