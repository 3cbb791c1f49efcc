"""With the embedded engine all roles live in the process that reads: none of them dies alone. When
the process is killed, another one goes on from its state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from trainers import Trainer, ended_at_last, until_paused

import overlord as ol

STEPS, PAUSE = 30, 12
MESH = {"dp": 2}


class Reader(Trainer):
    """Hosts all ranks, or its own one, and tells the state after every step."""

    program = r"""
import json, os, sys
import overlord as ol

told = json.loads(sys.argv[1])

def say(**words):
    print(json.dumps(words), flush=True)

job = ol.job(told["config"], mesh=ol.mesh(**told["mesh"]))
with job.train(ranks=told["ranks"], engine="embedded", hash=True) as loaders:
    if told["state"] is not None:
        loaders.load_state_dict(told["state"])
    for batches in loaders.steps():
        step = next(iter(batches.values()))[-1].step
        say(after=step, state=loaders.state_dict())
        if step + 1 == told["pause"]:
            say(paused=True)
            sys.stdin.readline()
    hashes = {str(rank): loader.rank_hash() for rank, loader in loaders.items()}
    say(hash=hashes, content=loaders.content_hash())
"""

    def __init__(
        self, config: dict[str, Any], ranks: Sequence[int] | str, rank: int = 0, state: Any = None
    ) -> None:
        pause = PAUSE if state is None else None
        told = {"config": config, "mesh": MESH, "ranks": ranks, "state": state, "pause": pause}
        super().__init__(told, rank, 2, "dies", 0)

    def state_after(self, step: int) -> Any:
        [state] = [word["state"] for word in self.words if word.get("after") == step]
        return state


def expected(config: dict[str, Any], ranks: Sequence[int] | str, state: Any) -> tuple[Any, str]:
    """What a process reads from a state on if nobody disturbs it: hashes by rank, and of all."""
    job = ol.job(config, mesh=ol.mesh(**MESH))
    with job.train(ranks=ranks, engine="embedded", hash=True) as loaders:
        if state is not None:
            loaders.load_state_dict(state)
        for _ in loaders.steps():
            pass
        hashes = {str(rank): loader.rank_hash() for rank, loader in loaders.items()}
        return hashes, loaders.content_hash()


@pytest.fixture
def job_config(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, "steps": STEPS}


def test_a_process_that_is_the_whole_job_goes_on_from_its_state(job_config: dict[str, Any]) -> None:
    """Loaders, constructors, planner and ranks die with it, at whatever they were."""
    with ended_at_last(started := [Reader(job_config, "all")]):
        until_paused(started)
        started[0].kill()
        state = started[0].state_after(PAUSE - 1)
        started.append(Reader(job_config, "all", state=state))
        word = started[1].until("hash")
    hashes, _ = expected(job_config, "all", state)
    _, content = expected(job_config, "all", None)
    assert (word["hash"], word["content"]) == (hashes, content)


def test_where_each_rank_plans_one_dies_and_comes_back_alone(
    job_config: dict[str, Any], tmp_path: Path
) -> None:
    """Nobody waits for it, and it may come from as far back as it likes."""
    job_config["runtime"]["journal"] = str(tmp_path / "journal")
    with ended_at_last(started := [Reader(job_config, [rank], rank) for rank in (0, 1)]):
        until_paused(started)
        started[1].kill()
        started[0].go()
        assert started[0].until("hash")["hash"] == expected(job_config, [0], None)[0]
        state = started[1].state_after(1)
        started.append(Reader(job_config, [1], 1, state))
        word = started[2].until("hash")
    hashes, content = expected(job_config, [1], state)
    assert (word["hash"], word["content"]) == (hashes, content)
    assert content == expected(job_config, [0], None)[1]
