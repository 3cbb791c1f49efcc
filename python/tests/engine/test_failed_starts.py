"""A start that fails: one cause, told to all ranks at once; no node is started again and again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from test_serve import served
from trainers import TESTS, Trainer, in_time, trainers, until_nothing_left

WORLD = 3
MESH = {"dp": WORLD}
TOLD_SECONDS = 20.0  # after the first rank knows: at once, on a machine that does much else
pytestmark = pytest.mark.deadline(180)


@pytest.fixture
def config(config: dict[str, Any]) -> dict[str, Any]:
    """One whose steps three groups can share."""
    config["bins"] = 12
    return config


def all_told(started: list[Trainer], cause: str) -> list[dict[str, Any]]:
    """The last words of all ranks, which name the cause and come at the same time."""
    words = []
    first = None
    for trainer in started:
        words.append(trainer.until("end", seconds=60))
        first = time.monotonic() if first is None else first
    assert time.monotonic() - first < TOLD_SECONDS
    assert all(word["end"] == "bad" and cause in word["text"] for word in words), words
    return words


def node_starts(tmp_path: Path) -> str:
    """Text for a rank: every node that it starts leaves a line in `starts`."""
    return f"""
import overlord._src.node.process as nodes
started_node = nodes.started_node
def counted(*words, **more):
    with open({str(tmp_path / "starts")!r}, "a") as file:
        file.write("start\\n")
    return started_node(*words, **more)
nodes.started_node = counted
"""


def count_starts(tmp_path: Path) -> int:
    return len((tmp_path / "starts").read_text().splitlines())


def test_a_source_that_cannot_be_indexed(
    config: dict[str, Any], tmp_path: Path, sockets: Path
) -> None:
    (tmp_path / "code.parquet").write_bytes(b"no parquet at all")
    first = {str(rank): node_starts(tmp_path) for rank in range(WORLD)}
    with trainers(config, MESH, first=first) as started:
        all_told(started, "code.parquet")
        until_nothing_left(sockets)
    assert count_starts(tmp_path) == 1


def test_a_rank_that_dies_while_it_opens_the_sources(config: dict[str, Any], sockets: Path) -> None:
    hangs = "before_the_job(lambda: (say(opening=True), wait_for('never')))"
    with trainers(config, MESH, first={str(rank): hangs for rank in range(WORLD)}) as started:
        [opener] = until_one_says(started, "opening")
        opener.kill()
        others = [trainer for trainer in started if trainer is not opener]
        all_told(others, "was to open the sources for this host has ended")
        until_nothing_left(sockets)


def until_one_says(started: list[Trainer], key: str) -> list[Trainer]:
    """Those that have said it, as soon as there are any."""

    def said() -> list[Trainer]:
        return [one for one in started if any(key in word for word in one.heard())]

    in_time(lambda: bool(said()), f"one says {key}", seconds=60)
    return said()


def test_a_node_that_cannot_be_run(config: dict[str, Any], tmp_path: Path, sockets: Path) -> None:
    program = tmp_path / "overlord-node"
    program.write_text("no program")
    program.chmod(0o700)
    broken = f"""
import pathlib
import overlord._src.node.process as nodes
nodes.executable = lambda: pathlib.Path({str(program)!r})
"""
    with trainers(config, MESH, first={str(rank): broken for rank in range(WORLD)}) as started:
        words = all_told(started, f"cannot run {program}")
        assert {word["error"] for word in words} == {"ResourceError"}
        until_nothing_left(sockets)


def test_roles_that_cannot_start(config: dict[str, Any], tmp_path: Path, sockets: Path) -> None:
    waits = "say(waiting=True)\nwait_for('go')"
    first = {str(rank): node_starts(tmp_path) for rank in range(WORLD)}
    first[str(WORLD - 1)] += waits
    with trainers(config, MESH, first=first) as started:
        started[-1].until("waiting")
        in_time(lambda: any(sockets.glob("*/node")), "the node has opened its sources", 60)
        with (tmp_path / "web.parquet").open("ab") as file:
            file.write(b"changed since it was indexed")
        started[-1].go()
        words = all_told(started, "web.parquet")
        assert all("cannot start" in word["text"] for word in words)
        until_nothing_left(sockets)
    assert count_starts(tmp_path) == 1


def disagreeing(configs: list[Any], **told: Any) -> list[Trainer]:
    """Two ranks, each with its own config."""
    started = []
    for rank, own in enumerate(configs):
        message = {"config": own, "mesh": {"dp": 2}, "engine": "auto", "tests": TESTS, **told}
        started.append(Trainer(message, rank, 2, "test", 0))
    return started


def test_ranks_with_different_configs(config: dict[str, Any], sockets: Path) -> None:
    started = disagreeing([config, {**config, "seed": 6}])
    try:
        words = all_told(started, "every rank must use the same config")
        assert {word["error"] for word in words} == {"StateMismatchError"}
        until_nothing_left(sockets)
    finally:
        for trainer in started:
            trainer.process.kill()
            trainer.process.wait()


@pytest.mark.parametrize("first", [0, 1], ids=["the-right-one-first", "the-wrong-one-first"])
def test_a_rank_that_disagrees_with_a_node_of_its_own(
    config: dict[str, Any], tmp_path: Path, sockets: Path, first: int
) -> None:
    config_file, wrong = tmp_path / "mix.yaml", tmp_path / "wrong.yaml"
    config_file.write_text(json.dumps(config))
    wrong.write_text(json.dumps({**config, "seed": 6}))
    node = sockets / "node"
    with served(config_file, node):
        waits = {str(1 - first): "say(waiting=True)\nwait_for('go')"}
        started = disagreeing([str(config_file), str(wrong)], node=str(node), first=waits)
        try:
            started[1 - first].until("waiting")
            if first == 0:
                in_time(lambda: attached(node) == [0], "the right one waits", 60)
            else:
                started[1].until("end")
            started[1 - first].go()
            for trainer in started:
                word = trainer.words[-1] if first == trainer.rank == 1 else trainer.until("end")
                assert (word["end"], word["error"]) == ("bad", "StateMismatchError"), word
        finally:
            for trainer in started:
                trainer.process.kill()
                trainer.process.wait()
        # The node is there for the next attempt, with ranks that agree.
        with trainers(str(config_file), {"dp": 2}, node=str(node), run="again") as again:
            for trainer in again:
                assert trainer.until("end")["end"] == "good"
    until_nothing_left(sockets)


def attached(node: Path) -> list[int]:
    """Ranks that a node of two has, as it tells."""
    from overlord._src.native import core

    try:
        missing = core.ask_node(str(node))["missing"]
    except core.UnavailableError:
        return []
    return [rank for rank in range(2) if rank not in missing]


def test_a_failed_start_is_not_told_to_the_next_attempt(
    config: dict[str, Any], tmp_path: Path, sockets: Path
) -> None:
    """A launcher starts all ranks again while the node still waits for one to tell it the cause."""
    fails = "def fail(): raise OSError('a mount is missing')\nbefore_the_job(fail)"
    first = {str(rank): fails for rank in range(WORLD - 1)}
    first[str(WORLD - 1)] = "say(waiting=True)\nwait_for('never')"
    with trainers(config, MESH, first=first) as started:
        all_told(started[:-1], "a mount is missing")
        with trainers(config, MESH, restarts=1) as again:
            for trainer in again:
                assert trainer.until("end")["end"] == "good"
    until_nothing_left(sockets)


def test_a_state_that_does_not_fit(config: dict[str, Any], tmp_path: Path, sockets: Path) -> None:
    with trainers(config, MESH, stop_after=2) as started:
        saved = [trainer.until("state")["state"] for trainer in started]
        for trainer in started:
            trainer.until("end")
    until_nothing_left(sockets)
    first = {str(rank): node_starts(tmp_path) for rank in range(WORLD)}
    other = {**config, "context": 128}
    with trainers(other, MESH, state=saved[0], first=first) as started:
        words = all_told(started, "resume state")
        assert {word["error"] for word in words} == {"StateMismatchError"}
        until_nothing_left(sockets)
    assert count_starts(tmp_path) == 1
