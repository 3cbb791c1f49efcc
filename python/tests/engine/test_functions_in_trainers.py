"""Functions of one's own in planning, where a node plans: it asks them in a trainer's process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from namespaces import network
from planned import functions, tired, with_functions
from test_hosts import in_namespaces
from test_node_comes_back import TWO, all_end_well, kill_node, status_of
from test_rank_comes_back import killed_at
from test_serve import served
from trainers import (
    TESTS,
    Trainer,
    embedded_hashes,
    go_on,
    hashes_of,
    in_time,
    trainers,
    trainers_on_hosts,
    until_nothing_left,
)

import overlord as ol

FOUR = {"dp": 2, "tp": 2}
BOTH: dict[str, Any] = {"functions": ["quadratic", "heaviest_first"]}
ASKED = "cost function quadratic (version 1)"
pytestmark = pytest.mark.deadline(180)


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Trainers' costs wait for this file at their fifth question."""
    path = tmp_path / "gate"
    monkeypatch.setenv("GATE", str(path))
    return path


def expected_of(config: dict[str, Any], mesh: dict[str, int]) -> dict[int, str]:
    return embedded_hashes(config, mesh, callouts=functions())


def rest_of(config: dict[str, Any], rank: int, state: Any) -> str:
    """The hash of what a rank reads from a state on."""
    job = ol.job(config, mesh=ol.mesh(**TWO), callouts=functions())
    loaders = job.train(ranks="all", hash=True, engine="embedded")
    loaders.load_state_dict(state)
    for _ in loaders.steps():
        pass
    return str(loaders[rank].rank_hash())


def asked(gate: Path, rank: int = 0) -> bool:
    return gate.with_name(f"{gate.name}.{rank}").exists()


def test_several_processes_give_the_stream_of_one(config: dict[str, Any], sockets: Path) -> None:
    native = embedded_hashes(config, FOUR)
    config = with_functions(config)
    expected = expected_of(config, FOUR)
    assert expected != native, "the functions place otherwise"
    with trainers(config, FOUR, **BOTH) as started:
        all_end_well(started, expected)
    until_nothing_left(sockets)


def test_a_node_of_its_own_asks_the_trainers(
    config: dict[str, Any], tmp_path: Path, sockets: Path
) -> None:
    config = with_functions(config)
    config_file = tmp_path / "own.yaml"
    config_file.write_text(json.dumps(config))
    node = sockets / "node"
    with (
        served(config_file, node),
        trainers(str(config_file), TWO, node=str(node), **BOTH) as started,
    ):
        assert hashes_of(started) == expected_of(config, TWO)


def test_one_that_fails_ends_all_ranks_before_the_same_step(config: dict[str, Any]) -> None:
    config = with_functions(config, tired)
    with trainers(config, FOUR, functions=["tired", "heaviest_first"]) as started:
        for trainer in started:
            word = trainer.until("end")
            assert word["error"] == "UserFunctionError"
            assert (
                "cost function tired (version 1), step 3: raised ZeroDivisionError" in word["text"]
            )
            assert [said["step"] for said in trainer.words if "step" in said] == [0, 1, 2]


def test_one_that_hangs_is_named_and_holds_up_nothing_else(
    config: dict[str, Any], sockets: Path, gate: Path
) -> None:
    config = with_functions(config)
    with trainers(config, TWO, **BOTH) as started:
        in_time(lambda: asked(gate), "it is asked")
        found: list[dict[str, Any]] = []

        def answers() -> bool:
            found[:] = [status for status in [status_of(sockets)] if status is not None]
            return bool(found)

        in_time(answers, "the node answers meanwhile")
        [status] = found
        wait = status["planner"]["waits_for_function"]
        assert (wait["function"], wait["step"], wait["rank"]) == (ASKED, 4, 0)
        assert (
            f"the planner waits for the {ASKED}, asked about step 4 where rank 0 is"
            in (status["waits"])
        )
        gate.touch()
        all_end_well(started, expected_of(config, TWO))
        assert not asked(gate, 1), "one process is asked"


def test_a_rank_that_dies_while_it_is_asked_is_asked_again(
    config: dict[str, Any], sockets: Path, gate: Path
) -> None:
    config = with_functions(config)
    with trainers(config, TWO, tells_states=True, **BOTH) as started:
        in_time(lambda: asked(gate), "it is asked")
        started[0].until("kept")
        state = killed_at(started[0])
        gate.touch()
        told = {"config": config, "mesh": TWO, "engine": "auto", "tests": TESTS, "state": state}
        back = Trainer({**told, **BOTH}, 0, 2, "test", 0)
        started.append(back)  # ended with them
        assert back.until("hash")["hash"] == rest_of(config, 0, state)
        assert started[1].until("hash")["hash"] == expected_of(config, TWO)[1]
    until_nothing_left(sockets)


def test_a_planner_that_comes_back_asks_anew(
    config: dict[str, Any], sockets: Path, gate: Path
) -> None:
    """Killed while a function is at work, which answers a planner that is gone, and later again."""
    config = with_functions({**config, "steps": 40})
    with trainers(config, TWO, pause_after=20, **BOTH) as started:
        in_time(lambda: asked(gate), "it is asked")
        kill_node(sockets)
        gate.touch()
        for _ in range(10):
            started[1].until("step")
        kill_node(sockets)
        go_on(started)
        all_end_well(started, expected_of(config, TWO))
    until_nothing_left(sockets)


@pytest.mark.parametrize("reach", ["loopback", "namespaces"])
def test_one_planner_asks_for_all_hosts(
    config: dict[str, Any],
    sockets: Path,
    secrets: dict[str, str],
    free_port: int,
    reach: str,
) -> None:
    config = with_functions(config)
    if reach == "namespaces":
        with network(2):
            configs, prefixes = in_namespaces(config, secrets)
            with trainers_on_hosts(configs, FOUR, prefixes, **BOTH) as started:
                assert hashes_of(started) == expected_of(config, FOUR)
        return
    wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1"}
    own = {**config, "runtime": {**config["runtime"], "wire": wire}}
    with trainers_on_hosts([own, own], FOUR, [[], []], **BOTH) as started:
        assert hashes_of(started) == expected_of(config, FOUR)


def test_what_would_be_planned_twice_is_refused_with_the_way_out(config: dict[str, Any]) -> None:
    config = with_functions(config)
    with trainers(config, TWO, engine="embedded", **BOTH) as started:
        for trainer in started:
            word = trainer.until("end")
            assert "each process of an embedded engine plans for itself" in word["text"]
            assert 'use engine="processes"' in word["text"]
    with trainers_on_hosts([config, config], FOUR, [[], []], **BOTH) as started:
        for trainer in started:
            word = trainer.until("end")
            assert word["error"] == "ConfigError"
            assert "set runtime.wire.planner" in word["text"]


def test_ranks_with_another_version_are_told_apart(config: dict[str, Any]) -> None:
    config = with_functions(config)
    other = json.loads(json.dumps(config))
    other["strategy"]["cost"]["version"] = 2
    config["runtime"]["processes"]["attach_seconds"] = 20
    other["runtime"]["processes"]["attach_seconds"] = 20
    told = {"mesh": TWO, "engine": "auto", "tests": TESTS, **BOTH}
    one = Trainer({"config": config, **told}, 0, 2, "test", 0)
    two = Trainer({"config": other, **told}, 1, 2, "test", 0)
    try:
        for trainer in (one, two):
            word = trainer.until("end")
            assert word["end"] == "bad"
            assert "differ" in word["text"]
    finally:
        for trainer in (one, two):
            trainer.process.kill()
            trainer.process.wait()


def test_without_the_function_a_rank_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ol.ConfigError, match="names a Python function that is not given"):
        ol.job(with_functions(config), mesh=ol.mesh(**TWO))
