"""The mesh of a running job changes at a step boundary: the steps before are those of the old mesh,
the steps from it on those of the new, on every rank, whoever asks and whoever dies meanwhile."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trainers import (
    Trainer,
    ended_at_last,
    in_time,
    kill_all,
    processes_of,
    until_nothing_left,
    until_paused,
)

import overlord as ol

FOUR, PAIRS, SLICES, STAGES = {"dp": 4}, {"dp": 2, "tp": 2}, {"cp": 4}, {"pp": 2, "dp": 2}


def digest(batch: Any) -> str:
    """What a rank sees of a microbatch."""
    seen = hashlib.sha256()
    for name, array in sorted(batch.arrays().items()):
        seen.update(name.encode() + str(array.shape).encode() + array.tobytes())
    return seen.hexdigest()


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


try:
    job = ol.job(told["config"], mesh=ol.mesh(**told["mesh"]))
    loader = job.train(rank, engine="processes")
    if told.get("state") is not None:
        loader.load_state_dict(told["state"])
    for batches in loader.steps():
        step = batches[-1].step
        say(step=step, mesh=loader.mesh.text(), digests=[digest(batch) for batch in batches])
        for change in told["changes"]:
            if step == change["after"] and rank in change["ranks"]:
                say(first=loader.rebuild(change["mesh"], change.get("step")))
        if step + 1 == told.get("save_at"):
            say(state=loader.state_dict())
        if step in told.get("pauses", ()):
            say(paused=step)
            sys.stdin.readline()
    say(content=loader.content_hash())
    loader.close()
    say(end="good")
except BaseException as error:
    say(end="bad", error=type(error).__name__, text=str(error))
"""
)


class Changing(Trainer):
    """A trainer that asks for other meshes."""

    program = PROGRAM

    def all_words(self) -> list[dict[str, Any]]:
        """What it said, to its good end."""
        if not self.words or "end" not in self.words[-1]:
            self.until("end")
        assert self.words[-1]["end"] == "good", self.words[-1]
        return self.words


Seen = dict[int, dict[int, list[str]]]  # by rank and step


def static(config: dict[str, Any], mesh: dict[str, int]) -> tuple[Seen, str]:
    """What every rank gets where the mesh never changes, and the hash of the content."""
    seen: Seen = {}
    with ol.job(config, mesh=ol.mesh(**mesh)).train(ranks="all", engine="embedded") as loaders:
        for step, batches in enumerate(loaders.steps()):
            for rank, parts in batches.items():
                seen.setdefault(rank, {})[step] = [digest(batch) for batch in parts]
        return seen, loaders.content_hash()


@contextlib.contextmanager
def changing(
    config: dict[str, Any], changes: list[dict[str, Any]], **told: Any
) -> Iterator[list[Changing]]:
    message = {"config": config, "mesh": FOUR, "changes": changes, **told}
    started = [Changing(message, rank, 4, "test", 0) for rank in range(4)]
    with ended_at_last(started):
        yield started


def meshes_by_step(words: list[dict[str, Any]]) -> dict[int, str]:
    return {word["step"]: word["mesh"] for word in words if "step" in word}


def check_seats(
    started: list[Changing], config: dict[str, Any], held: list[tuple[int, dict[str, int]]]
) -> None:
    """Every rank got every step once, as on the mesh that held then, and knew the mesh."""
    expected = {ol.mesh(**mesh).text(): static(config, mesh) for _, mesh in held}
    contents = {content for _, content in expected.values()}
    assert len(contents) == 1
    for trainer in started:
        words = trainer.all_words()
        steps = [word for word in words if "step" in word]
        assert [word["step"] for word in steps] == list(range(steps[0]["step"], config["steps"]))
        for word in steps:
            mesh = [mesh for first, mesh in held if first <= word["step"]][-1]
            assert word["mesh"] == ol.mesh(**mesh).text(), word["step"]
            seen, _ = expected[word["mesh"]]
            assert word["digests"] == seen[trainer.rank][word["step"]], (trainer.rank, word["step"])
        assert {word["content"] for word in words if "content" in word} <= contents


@pytest.fixture
def job(config: dict[str, Any]) -> dict[str, Any]:
    config["align"] = 8
    config["steps"] = 30
    config["runtime"]["runway"] = 3
    return config


def test_one_process_of_all_ranks(job: dict[str, Any]) -> None:
    four, content = static(job, FOUR)
    slices, same = static(job, SLICES)
    assert content == same
    with ol.job(job, mesh=ol.mesh(**FOUR)).train(ranks="all", engine="embedded") as loaders:
        steps = enumerate(loaders.steps())
        for step, batches in itertools.islice(steps, 5):
            assert {r: [digest(b) for b in bs] for r, bs in batches.items()} == {
                rank: four[rank][step] for rank in range(4)
            }
        first = loaders.rebuild("cp=4")
        assert loaders[3].rebuild(ol.mesh(cp=4)) == first, "another rank asks for the same"
        back = loaders[1].rebuild(FOUR, step=first + 4)
        assert back == first + 4
        for step, batches in steps:
            new = first <= step < back
            assert loaders.mesh.text() == ol.mesh(**(SLICES if new else FOUR)).text()
            seen = slices if new else four
            for rank, parts in batches.items():
                assert [digest(batch) for batch in parts] == seen[rank][step], step
        assert loaders.content_hash() == content


def test_a_state_inside_a_step_is_bound_to_the_mesh_of_that_step(job: dict[str, Any]) -> None:
    with ol.job(job, mesh=ol.mesh(**FOUR)).train(ranks="all", engine="embedded") as loaders:
        first = loaders.rebuild(PAIRS)
        # Nobody stays behind: no rank gets a step that is further ahead than the runway.
        of_rank_0 = (batches[0] for batches in loaders.rounds())
        for batch in of_rank_0:
            if batch.step == first:
                break
        state = loaders[0].state_dict()
        rest = [digest(batch) for batch in itertools.islice(of_rank_0, 9)]
    with ol.job(job, mesh=ol.mesh(**PAIRS)).train(0, engine="embedded") as resumed:
        resumed.load_state_dict(state)
        assert [digest(batch) for batch in itertools.islice(resumed, 9)] == rest
    with (
        ol.job(job, mesh=ol.mesh(**FOUR)).train(0, engine="embedded") as other,
        pytest.raises(ol.StateMismatchError, match="another mesh can go on from a state"),
    ):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    "placing",
    [{}, {"loaders": 2, "constructors": 3}, {"constructors": 0}],
    ids=["one", "several", "together"],
)
def test_four_trainers_over_two_changes(
    job: dict[str, Any], sockets: Path, placing: dict[str, int]
) -> None:
    job["runtime"]["processes"] |= placing
    changes: list[dict[str, Any]] = [
        {"after": 2, "ranks": [1], "mesh": PAIRS, "step": 10},
        {"after": 12, "ranks": [0, 1, 2, 3], "mesh": SLICES},
    ]
    with changing(job, changes) as started:
        answers = [
            [word["first"] for word in trainer.all_words() if "first" in word]
            for trainer in started
        ]
        assert answers[1][0] == 10
        later = {answer[-1] for answer in answers}
        assert len(later) == 1, "all ranks asked for the second, and it is one"
        check_seats(started, job, [(0, FOUR), (10, PAIRS), (later.pop(), SLICES)])
    until_nothing_left(sockets, "nothing is left")


@pytest.mark.parametrize("victim", ["constructors", "loaders"])
def test_whoever_dies_at_the_change(job: dict[str, Any], sockets: Path, victim: str) -> None:
    """Killed at once when the change is asked for, and again when its first step is near."""
    changes = [
        {"after": 3, "ranks": [2], "mesh": PAIRS},
        {"after": 14, "ranks": [0], "mesh": STAGES},
    ]
    with changing(job, changes, pauses=[3, 7, 14]) as started:
        for pause in (3, 7, 14):
            for trainer in started:
                assert trainer.until("paused")["paused"] == pause
            for trainer in started:
                assert trainer.process.stdin is not None
                trainer.process.stdin.write("go\n")
                trainer.process.stdin.flush()
            # On a busy machine they may have read to the end meanwhile.
            in_time(
                lambda: kill_all(sockets, victim) or not processes_of(sockets),
                "there is one to kill",
            )
        words = [word for trainer in started for word in trainer.all_words()]
        first, second = sorted(word["first"] for word in words if "first" in word)
        check_seats(started, job, [(0, FOUR), (first, PAIRS), (second, STAGES)])
    until_nothing_left(sockets, "nothing is left")


def test_constructors_of_the_old_mesh_retire(job: dict[str, Any], sockets: Path) -> None:
    job["runtime"]["processes"] |= {"constructors": 4}
    changes = [{"after": 1, "ranks": [0], "mesh": SLICES}]
    with changing(job, changes, pauses=[20]) as started:
        until_paused(started)
        [node] = [path for path in sockets.iterdir() if path.is_dir()]

        def roles() -> dict[str, int]:
            status = ol._src.native.core.ask_node(str(node))
            return {
                process["name"]: process["roles"]
                for process in status["processes"]
                if process["name"].startswith("constructors-")
            }

        in_time(lambda: sum(roles().values()) == 1, "one constructor is left")
        assert any("constructors-0" in name for name in processes_of(sockets).values())


def test_states_of_both_sides_resume_on_any_mesh(job: dict[str, Any]) -> None:
    changes = [{"after": 1, "ranks": [3], "mesh": PAIRS, "step": 12}]
    pairs, _ = static(job, PAIRS)
    for saved in (8, 16):
        with changing(job, changes, save_at=saved) as started:
            states = [trainer.until("state")["state"] for trainer in started]
        assert all(state == states[0] for state in states)
        again = [{"after": saved, "ranks": [0], "mesh": PAIRS, "step": saved + 8}]
        with changing(job, again, state=states[0]) as started:
            check_seats(started, job, [(0, FOUR), (saved + 8, PAIRS)])
        with ol.job(job, mesh=ol.mesh(**PAIRS)).train(2, engine="embedded") as loader:
            loader.load_state_dict(states[0])
            for batches in loader.steps():
                seen = [digest(batch) for batch in batches]
                assert seen == pairs[2][batches[0].step]


def test_what_is_refused_says_what_to_do(job: dict[str, Any]) -> None:
    with ol.job(job, mesh=ol.mesh(**FOUR)).train(ranks="all", engine="embedded") as loaders:
        next(loaders.steps())
        with pytest.raises(ol.InvalidArgumentError, match=r"restart from a state, which resumes"):
            loaders.rebuild("dp=2")
        with pytest.raises(ol.InvalidArgumentError, match=r"step: 0 is planned already"):
            loaders.rebuild(PAIRS, step=0)
        with pytest.raises(ol.ConfigError, match="step"):
            loaders.rebuild(PAIRS, step=-1)
        next(loaders.steps())
    with (
        ol.job(job, mesh=ol.mesh(**FOUR)).train(1, engine="embedded") as alone,
        pytest.raises(ol.InvalidArgumentError, match="this one serves 1 of 4"),
    ):
        next(alone)
        alone.rebuild(PAIRS)


def test_a_refusal_reaches_the_trainer_that_asked(job: dict[str, Any]) -> None:
    changes = [{"after": 3, "ranks": [2], "mesh": {"dp": 8}}]
    with changing(job, changes) as started:
        word = started[2].until("end")
        assert word["error"] == "InvalidArgumentError"
        assert "dp=8" in word["text"] and "restart from a state" in word["text"]
        started[0].until("step")
