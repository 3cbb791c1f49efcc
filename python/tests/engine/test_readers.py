"""Ranks that the trainer serves hold no loader, and nobody waits for them, on any engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reported import more_of_the_worst
from trainers import embedded_hashes, hashes_of, trainers, trainers_on_hosts, until_nothing_left

import overlord as ol

SERVED = {"broadcast": ["tp"], "readers": "fields"}
MESH = {"dp": 2, "tp": 2}


def served(config: dict[str, Any], **delivery: Any) -> dict[str, Any]:
    return {**config, "delivery": {**SERVED, **delivery}}


@pytest.mark.parametrize(
    ("mesh", "delivery", "expected"),
    [
        ({"dp": 2, "tp": 2}, {}, [0, 2]),
        ({"dp": 2, "tp": 2}, {"readers": "all"}, [0, 1, 2, 3]),
        ({"pp": 3, "tp": 2}, {}, [0, 2, 4]),
        ({"pp": 3, "tp": 2}, {"readers": "payload"}, [0, 4]),
        ({"pp": 3, "tp": 2}, {"readers": "payload", "all_stages": True}, [0, 2, 4]),
        ({"cp": 2, "tp": 2}, {"broadcast": ["tp", "cp"]}, [0]),
        ({"dp": 2, "tp": 2}, {"broadcast": []}, [0, 1, 2, 3]),
    ],
)
def test_who_reads(
    config: dict[str, Any], mesh: dict[str, int], delivery: dict[str, Any], expected: list[int]
) -> None:
    assert ol.job(served(config, **delivery), mesh=ol.mesh(**mesh)).readers == expected


def test_those_who_read_get_what_they_got_among_all(config: dict[str, Any]) -> None:
    everybody = embedded_hashes(served(config, readers="all"), MESH)
    assert embedded_hashes(served(config), MESH) == {rank: everybody[rank] for rank in (0, 2)}


def test_processes_serve_without_waiting_for_the_others(
    config: dict[str, Any], sockets: Path
) -> None:
    expected = embedded_hashes(served(config), MESH)
    with trainers(served(config), MESH, only=[0, 2]) as started:
        assert hashes_of(started) == expected
        for trainer in started:
            assert trainer.until("end")["end"] == "good"
    until_nothing_left(sockets)


def test_hosts_serve_without_waiting_for_the_others(
    config: dict[str, Any], sockets: Path, free_port: int
) -> None:
    """Also one of whose ranks none reads: it has no node."""
    expected = embedded_hashes(served(config, broadcast=["cp", "tp"]), {"dp": 2, "cp": 2, "tp": 2})
    wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1"}
    config["runtime"]["wire"] = wire
    configs = [served(config, broadcast=["cp", "tp"])] * 4
    mesh = {"dp": 2, "cp": 2, "tp": 2}
    with trainers_on_hosts(configs, mesh, [[]] * 4, only=[0, 4]) as started:
        assert hashes_of(started) == expected
        for trainer in started:
            assert trainer.until("end")["end"] == "good"
    until_nothing_left(sockets)


@pytest.mark.parametrize("engine", ["processes", "embedded"])
def test_losses_of_those_who_read_are_all(
    config: dict[str, Any], sockets: Path, engine: str
) -> None:
    """One planner hears everybody that could report: served ranks are not missed."""
    config["mixture"] |= {
        "schedule": {"kind": "rule", "version": 1},
        "feedback": {"delay": 3, "reporters": [0, 2]},
    }
    rule = ol.mix.rule(more_of_the_worst, version=1)
    among_all = embedded_hashes(served(config, readers="all"), MESH, [0, 2], rule)
    expected = {rank: among_all[rank] for rank in (0, 2)}
    if engine == "embedded":
        assert embedded_hashes(served(config), MESH, [0, 2], rule) == expected
        return
    told = {"reports": [0, 2], "rule": "more_of_the_worst"}
    with trainers(served(config), MESH, only=[0, 2], **told) as started:
        assert hashes_of(started) == expected


def test_a_state_goes_from_those_who_read_to_all(config: dict[str, Any]) -> None:
    with ol.job(served(config), mesh=ol.mesh(**MESH)).train(ranks="all") as loaders:
        next(loaders.steps())
        state = loaders.state_dict()
        after = next(loaders.steps())[2][0].tokens.copy()
    with ol.job(served(config, readers="all"), mesh=ol.mesh(**MESH)).train(ranks="all") as loaders:
        loaders.load_state_dict(state)
        step = next(loaders.steps())
        assert (step[2][0].tokens == after).all() and step[3][0].tokens is None


def test_a_rank_that_does_not_read_is_told_why(config: dict[str, Any]) -> None:
    job = ol.job(served(config), mesh=ol.mesh(**MESH))
    for ranks in (1, [0, 1]):
        with pytest.raises(ol.ConfigError, match=r"delivery\.readers is fields.*allowed: 0, 2"):
            job.train(ranks)


def test_what_does_not_go_with_ranks_that_stay_away(config: dict[str, Any]) -> None:
    config["mixture"] |= {"schedule": {"kind": "odm"}, "feedback": {"reporters": [1]}}
    with pytest.raises(ol.ConfigError, match="rank 1 is to report losses and would not read"):
        ol.job(served(config), mesh=ol.mesh(**MESH))
    config["mixture"]["feedback"]["reporters"] = "all"
    with pytest.raises(ol.ConfigError, match=r"feedback\.reporters is all"):
        ol.job(served(config), mesh=ol.mesh(**MESH))


@pytest.mark.parametrize("engine", ["embedded", "processes", "ray"])
@pytest.mark.parametrize("ranks", ["all", [0]], ids=["whole", "one"])
def test_their_mesh_stays(
    config: dict[str, Any], sockets: Path, free_port: int, engine: str, ranks: Any
) -> None:
    """Refused before anything starts, also where there are several hosts."""
    config["runtime"]["wire"] = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1"}
    job = ol.job(served(config), mesh=ol.mesh(**MESH))
    with job.train(ranks=ranks, engine=engine) as loaders:
        for more in ({}, {"ranks": [0, 1]}):
            with pytest.raises(ol.ConfigError, match=r"delivery\.readers.*restart from a state"):
                loaders.rebuild("dp=4", **more)
    assert not [*sockets.iterdir()]
