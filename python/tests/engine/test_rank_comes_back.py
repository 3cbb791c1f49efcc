"""A rank that is killed may be started again alone: it reads on from its own state, and the other
ranks wait for it meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_node_comes_back import TWO, kill_node, status_of, until_served_again
from test_reports import following
from trainers import (
    TESTS,
    Trainer,
    embedded_hashes,
    in_time,
    kill_all,
    processes_of,
    trainers,
    trainers_on_hosts,
    until_nothing_left,
    until_paused,
)

import overlord as ol

pytestmark = pytest.mark.deadline(240)
PAUSE = 20
KEPT = 4  # steps that a rank may lie behind what it had acknowledged


def hash_from(config: dict[str, Any], rank: int, state: Any) -> str:
    """Of what a rank reads from a state on."""
    loader = ol.job(config, mesh=ol.mesh(**TWO)).train(rank, hash=True, engine="embedded")
    if state is not None:
        loader.load_state_dict(state)
    for _ in loader.steps():
        pass
    return loader.rank_hash()


def state_at(trainer: Trainer, step: int) -> Any:
    [state] = [word["kept"] for word in trainer.words if word.get("at") == step]
    return state


def killed_at(trainer: Trainer) -> Any:
    """Kill it at any moment; the newest state that it has told."""
    trainer.kill()
    with pytest.raises(AssertionError, match="ended without saying"):
        trainer.until("nothing")
    return [word["kept"] for word in trainer.words if "kept" in word][-1]


def started_again(config: dict[str, Any], rank: int, state: Any) -> Trainer:
    """As its launcher would: with the same names as before."""
    told = {"config": config, "mesh": TWO, "engine": "auto", "tests": TESTS}
    told |= {"state": state, "tells_states": True}
    return Trainer(told, rank, 2, "test", 0)


def until_acknowledged(sockets: Path, steps: int) -> None:
    """Words of ranks take their time on a busy machine; so many plans are out beyond them."""

    def known() -> bool:
        status = status_of(sockets)
        return status is not None and status["planner"]["plans"] == steps + KEPT

    in_time(known, f"{steps} steps are acknowledged")


@pytest.mark.parametrize("behind", [0, 1, KEPT])
@pytest.mark.parametrize("victim", [0, 1])
def test_it_goes_on_where_its_state_says(
    config: dict[str, Any], sockets: Path, victim: int, behind: int
) -> None:
    """`behind`: so many steps that it had got are read again: their work died with it."""
    config["steps"] = 60
    with trainers(config, TWO, pause_after=PAUSE, tells_states=True) as started:
        until_paused(started)
        state = state_at(started[victim], PAUSE - behind)
        started[victim].kill()
        other = started[1 - victim]
        other.go()
        back = started_again(config, victim, state)
        started.append(back)  # ended with them
        assert back.until("hash")["hash"] == hash_from(config, victim, state)
        assert other.until("hash")["hash"] == embedded_hashes(config, TWO)[1 - victim]
    until_nothing_left(sockets)


def test_it_may_come_back_again_and_again(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 80
    with trainers(config, TWO, tells_states=True) as started:
        back = started[1]
        for _ in range(4):
            for _ in range(5):
                back.until("at")
            state = killed_at(back)
            back = started_again(config, 1, state)
            started.append(back)
        assert back.until("hash")["hash"] == hash_from(config, 1, state)
        assert started[0].until("hash")["hash"] == embedded_hashes(config, TWO)[0]
    until_nothing_left(sockets)


@pytest.mark.parametrize("why", ["too far", "loaders", "constructors"])
def test_what_nobody_keeps_is_refused_by_name(
    config: dict[str, Any], sockets: Path, why: str
) -> None:
    config["steps"] = 100_000
    with trainers(config, TWO, pause_after=PAUSE, tells_states=True) as started:
        until_paused(started)
        until_acknowledged(sockets, PAUSE)
        at = PAUSE - (KEPT + 2 if why == "too far" else KEPT - 1)
        started[1].kill()
        if why != "too far":
            before = set(processes_of(sockets))
            assert kill_all(sockets, why)

            def anew() -> bool:
                names = processes_of(sockets)
                return any(why in names[pid] for pid in set(names) - before)

            in_time(anew, "they are started again")
        back = started_again(config, 1, state_at(started[1], at))
        started.append(back)
        word = back.until("end")
        assert (word["end"], word["error"]) == ("bad", "UnavailableError")
        assert f"rank 1 comes back at step {at}" in word["text"]
        assert "restart the job from its states" in word["text"]


def check_refused(started: list[Trainer], back: Trainer) -> None:
    """One of two hosts' ranks is back: it is told, and so is the one that waits for it."""
    started.append(back)
    word = back.until("end")
    assert (word["end"], word["error"]) == ("bad", "UnavailableError"), word
    assert "rank 1 cannot come back alone, as one node plans for several hosts" in word["text"]
    assert "restart the job from its states" in word["text"]


def test_of_several_hosts_a_rank_that_comes_back_alone_is_refused(
    config: dict[str, Any], sockets: Path, free_port: int
) -> None:
    config["steps"] = 100_000
    config["runtime"]["wire"] = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1"}
    with trainers_on_hosts([config] * 2, TWO, [(), ()], pause_after=5) as started:
        until_paused(started)
        started[1].kill()
        told = {"config": config, "mesh": TWO, "engine": "auto", "tests": TESTS}
        check_refused(started, Trainer(told, 1, 2, "hosts", 0, 1))
        started[0].go()
        word = started[0].until("end")
        assert (word["end"], word["error"]) == ("bad", "UnavailableError"), word
    until_nothing_left(sockets)


def test_losses_that_it_has_not_heard_of_are_a_reason(
    config: dict[str, Any], sockets: Path
) -> None:
    config = following(config | {"steps": 100_000}, "odm", [0, 1])
    with trainers(config, TWO, reports=[0, 1], pause_after=5) as started:
        until_paused(started)
        started[1].kill()
        back = started_again(config, 1, None)
        started.append(back)
        word = back.until("end")
        assert (word["end"], word["error"]) == ("bad", "UnavailableError")
        assert "rank 1 cannot come back alone" in word["text"]


def test_the_others_wait_no_longer_than_for_a_node(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 100_000
    config["runtime"]["processes"]["recovery_seconds"] = 2
    with trainers(config, TWO) as started:
        for trainer in started:
            trainer.until("step")
        started[1].kill()
        word = started[0].until("end")
        assert (word["end"], word["error"]) == ("bad", "UnavailableError")
        assert "rank 1 is gone" in word["text"]
        assert "runtime.processes.recovery_seconds (2 s)" in word["text"]
        started[0].process.wait()
    until_nothing_left(sockets)


def test_the_node_may_die_with_it(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 60
    with trainers(config, TWO, pause_after=PAUSE, tells_states=True) as started:
        until_paused(started)
        state = state_at(started[1], PAUSE - 1)
        started[1].kill()
        kill_node(sockets)
        until_served_again(sockets, 1)
        back = started_again(config, 1, state)
        started.append(back)
        started[0].go()
        assert back.until("hash")["hash"] == hash_from(config, 1, state)
        assert started[0].until("hash")["hash"] == embedded_hashes(config, TWO)[0]
    until_nothing_left(sockets)
