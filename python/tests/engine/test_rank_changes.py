"""Ranks are lost while a job runs, the others go on without them, and later they are back: the data
plane lives on, and the steps hold what they would have held."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from test_rebuild import digest, static
from trainers import (
    Trainer,
    ended_at_last,
    kill_all,
    processes_of,
    until_nothing_left,
)

import overlord as ol

pytestmark = pytest.mark.deadline(240)
WHOLE, HALF = {"dp": 2, "tp": 2}, {"dp": 1, "tp": 2}
STEPS, LOST, BACK = 50, 10, 30

PROGRAM = (
    r"""
import hashlib, json, os, sys
from typing import Any
import overlord as ol
"""
    + inspect.getsource(digest)
    + r"""
told = json.loads(sys.argv[1])
rank = int(os.environ["RANK"])


def say(**words):
    print(json.dumps({"rank": rank, **words}), flush=True)


def obey():
    order = json.loads(sys.stdin.readline())
    if "mesh" in order:
        say(first=loader.rebuild(order["mesh"], order.get("step"), order["ranks"]))


try:
    job = ol.job(told["config"], mesh=ol.mesh(**told["mesh"]))
    loader = job.train(rank, engine="processes")
    say(joins=True)
    for batch in loader:
        say(step=batch.step, part=batch.microbatch, place=loader.place, digest=digest(batch),
            mesh=loader.mesh.text())
        if [batch.step, batch.microbatch] in told["pauses"]:
            say(paused=batch.step)
            obey()
    say(content=loader.content_hash())
    loader.close()
    say(end="good")
except BaseException as error:
    say(end="bad", error=type(error).__name__, text=str(error))
"""
)


class Surviving(Trainer):
    """A trainer that goes on as it is told at its pauses."""

    program = PROGRAM

    def order(self, **words: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def got(self) -> dict[int, list[dict[str, Any]]]:
        """By step, what counts: of a step that begins anew only that."""
        steps: dict[int, list[dict[str, Any]]] = {}
        for word in self.words:
            if "part" not in word:
                continue
            if word["part"] == 0:
                steps = {step: parts for step, parts in steps.items() if step < word["step"]}
            steps.setdefault(word["step"], []).append(word)
        return steps


def started(config: dict[str, Any], rank: int, pauses: list[list[int]]) -> Surviving:
    return Surviving({"config": config, "mesh": WHOLE, "pauses": pauses}, rank, 4, "test", 0)


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("victim", [None, "loaders", "node"])
def test_a_group_is_lost_inside_a_step_and_back_twenty_steps_later(
    config: dict[str, Any], sockets: Path, victim: str | None, named: bool
) -> None:
    """Rank 3 is killed; rank 2, of the same group, has no place and waits; both come back."""
    if victim and named:
        pytest.skip("one way is enough")
    config |= {"steps": STEPS, "delivery": {"microbatch_size": 4}}
    whole, content = static(config, WHOLE)
    half, same = static(config, HALF)
    assert same == content
    pauses = [[LOST, 0], [BACK, 0]]
    ranks = [started(config, rank, pauses) for rank in range(4)]
    with ended_at_last(ranks):
        for trainer in ranks:
            assert trainer.until("paused")["paused"] == LOST
        before = processes_of(sockets)
        ranks[3].kill()
        if victim:
            kill_all(sockets, victim)
        step = {"step": LOST} if named else {}
        for trainer in ranks[:2]:
            trainer.order(mesh=HALF, ranks=[0, 1], **step)
        first = {trainer.until("first")["first"] for trainer in ranks[:2]}
        # Unnamed it is what the planner has heard of; of the last step perhaps not yet.
        assert len(first) == 1 and first <= ({LOST} if named else {LOST - 1, LOST, LOST + 1})
        ranks[2].order()  # it goes on, and waits
        if min(first) <= LOST:  # it begins anew
            for trainer in ranks[:2]:
                assert trainer.until("paused")["paused"] == LOST
            for trainer in ranks[:2]:
                trainer.order()
        for trainer in ranks[:2]:
            assert trainer.until("paused")["paused"] == BACK
        ranks.append(started(config, 3, []))
        if named:
            ranks[4].until("joins")  # else it may come before its place is there, or behind that
        ranks[0].order(mesh=WHOLE, ranks=[0, 1, 2, 3], step=BACK)
        assert ranks[0].until("first")["first"] == BACK
        ranks[1].order()
        for trainer in ranks[:3]:  # that step begins anew
            assert trainer.until("paused")["paused"] == BACK
        if victim is None:
            assert processes_of(sockets) == before, "node, loaders and constructors lived on"
        for trainer in ranks[:3]:
            trainer.order()
        living = [ranks[0], ranks[1], ranks[2], ranks[4]]
        for trainer in living:
            trainer.until("end")
            assert trainer.words[-1]["end"] == "good", trainer.words[-1]
        got = {trainer.rank: trainer.got() for trainer in living}
        for step in range(min(first), LOST + 2):
            got[2].pop(step, None)  # it has no place in these: what it had of them is void
        for trainer in living:
            for step, parts in got[trainer.rank].items():
                lost = min(first) <= step < BACK
                expected = (half if lost else whole)[trainer.rank][step]
                assert [part["digest"] for part in parts] == expected, (trainer.rank, step)
                assert parts[0]["mesh"] == ol.mesh(**(HALF if lost else WHOLE)).text()
        assert set(got[0]) == set(range(STEPS))
        assert set(got[2]) == {*range(min(first)), *range(BACK, STEPS)}
        assert set(got[3]) == set(range(BACK, STEPS))
        contents = {word["content"] for one in living for word in one.words if "content" in word}
        assert contents == {content}
    until_nothing_left(sockets, "nothing is left")


def test_a_place_in_another_order(config: dict[str, Any]) -> None:
    """In one process of all ranks; the ones that are left change places."""
    config["steps"] = 12
    four, _ = static(config, {"dp": 4})
    two, _ = static(config, {"dp": 2})
    with ol.job(config, mesh=ol.mesh(dp=4)).train(ranks="all", engine="embedded") as loaders:
        steps = {rank: loaders[rank].steps() for rank in range(4)}
        for step in range(3):
            for rank in range(4):
                assert [digest(batch) for batch in next(steps[rank])] == four[rank][step]
        assert loaders.rebuild({"dp": 2}, 2, ranks=[3, 1]) == 2
        for step in range(2, 12):
            for place, rank in enumerate((3, 1)):
                assert [digest(batch) for batch in next(steps[rank])] == two[place][step]
                assert loaders[rank].place == place
        assert loaders[3].state_dict()["step"] == 12


@pytest.mark.parametrize(
    ("ranks", "mesh", "why"),
    [
        ([0, 1, 2], {"dp": 3}, "bins"),
        ([0, 0], {"dp": 2}, "named twice"),
        ([0, 1, 2], {"dp": 2}, "name one rank for every place"),
    ],
)
def test_what_does_not_fit_is_refused(
    config: dict[str, Any], ranks: list[int], mesh: dict[str, int], why: str
) -> None:
    with ol.job(config, mesh=ol.mesh(dp=4)).train(ranks="all", engine="embedded") as loaders:
        next(loaders.steps())
        with pytest.raises(ol.InvalidArgumentError, match=why):
            loaders.rebuild(mesh, ranks=ranks)
        with pytest.raises(ol.ConfigError, match="0 to 3"):
            loaders.rebuild({"dp": 1}, ranks=[4])
        next(loaders.steps())
