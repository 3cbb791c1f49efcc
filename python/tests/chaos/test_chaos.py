"""Kill -9 of every process of a job, at random moments, again and again (`make chaos`).

Never a hang, never a wrong byte to a survivor, never anything left; the stream goes on after
nodes, loaders, constructors and tokenizer workers, and a new attempt goes on from the state of a
dead one.
CHAOS_ROUNDS (100) is the number of kills of each, CHAOS_SEED decides the moments.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from overlord._src.corpus import STARTER, ensure_corpus
from overlord._src.corpus.config_text import starter_config
from trainers import in_time, nothing_left, processes_of

sys.path.insert(0, str(Path(__file__).parent))
from survivors import (
    BEYOND_BUFFERS,
    HANG_SECONDS,
    START_SECONDS,
    Attempt,
    Reference,
    children_of,
    holdings,
    pause,
    running,
)

pytestmark = pytest.mark.chaos

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "100"))
SEED = os.environ.get("CHAOS_SEED", "1")
KILLS_OF_A_RUN = 7  # one more than the supervisor's eight within a minute would end the job
MESH = {"dp": 2}
ATTACH_SECONDS = 8
ROWS = 16  # few at a time, so that tokenizers are asked often
SLACK = 8  # descriptors and segments that may come and go


class Job:
    """A config whose sockets lie in a folder of their own, and what its ranks have to see."""

    def __init__(self, starter: Path, folder: Path) -> None:
        self.sockets = folder / "sockets"
        self.sockets.mkdir(mode=0o700)
        told = yaml.safe_load(starter.read_text())
        told |= {"context": 256, "bins": 4, "index_dir": str(folder / "index")}
        told["sources"]["web"]["window_rows"] = ROWS
        told["runtime"] |= {
            "processes": {
                "directory": str(self.sockets),
                "loaders": 2,
                "attach_seconds": ATTACH_SECONDS,
            },
        }
        config = starter.with_name(f"{folder.name}.yaml")
        config.write_text(yaml.safe_dump(told))
        self.config = str(config)
        self.reference = Reference(self.config, MESH)
        self.reference.at(0, 0)  # builds the indexes

    def attempt(self, **told: object) -> Attempt:
        return Attempt(self.config, MESH, self.reference, **told)  # type: ignore[arg-type]

    def processes(self, victim: str) -> list[int]:
        """The processes of one kind, now."""
        found = processes_of(self.sockets)
        if victim == "node":
            return [pid for pid, name in found.items() if name.endswith("overlord-node")]
        if victim == "tokenizer":
            return sorted(children_of(set(self.processes("loaders"))))
        if victim == "several":
            return self.processes("loaders") + self.processes("constructors")
        return [pid for pid, name in found.items() if name.startswith(f"overlord: {victim}")]

    def gone(self) -> bool:
        strangers = set(processes_of(Path(self.config).parent)) - children_of({os.getpid()})
        return nothing_left(self.sockets) and not strangers  # the reference tokenises here


@pytest.fixture(scope="module")
def long_starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The starter's corpus with so much text that no run gets to its end."""
    folder = tmp_path_factory.mktemp("corpus")
    web, *others = STARTER.sources
    web = replace(web, documents=4000, row_group=ROWS)
    ensure_corpus(folder / "data", replace(STARTER, sources=(web, *others)))
    config = folder / "mix.yaml"
    config.write_text(starter_config())
    return config


@pytest.fixture
def job(long_starter: Path, tmp_path: Path) -> Job:
    return Job(long_starter, tmp_path)


def kill(pids: list[int]) -> int:
    killed = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def held_by(job: Job, attempt: Attempt, victim: str) -> dict[int, tuple[int, int]]:
    """What the processes hold that live through the kills of a victim."""
    names = {"node"} if victim == "several" else {"node", "loaders", "constructors"} - {victim}
    pids = [pid for name in sorted(names) for pid in job.processes(name)]
    pids += [rank.process.pid for rank in attempt.ranks]
    return {pid: holdings(pid) for pid in pids}


@pytest.mark.parametrize("victim", ["loaders", "constructors", "tokenizer", "several"])
def test_the_stream_goes_on_after_roles(job: Job, victim: str) -> None:
    dice = random.Random(f"{SEED} {victim}")
    done = 0
    while done < ROUNDS:
        with running(job.attempt(pace=dice.choice([0.0005, 0.002, 0.01]))) as attempt:
            for rank in attempt.ranks:
                rank.advance(1 + dice.randrange(20), START_SECONDS)
            held: dict[int, tuple[int, int]] = {}
            for _ in range(min(KILLS_OF_A_RUN, ROUNDS - done)):
                in_time(lambda: bool(job.processes(victim)), f"there is a {victim} process")
                pause(dice.random() * dice.choice([0.0, 0.01, 0.2]))
                living = job.processes(victim)
                count = dice.randint(1, 3) if victim == "several" else 1
                done += kill(dice.sample(living, min(count, len(living)))) > 0
                for rank in attempt.ranks:
                    rank.advance(BEYOND_BUFFERS)
                now = held_by(job, attempt, victim)
                for pid, (descriptors, segments) in now.items():
                    first = held.setdefault(pid, (descriptors, segments))
                    assert descriptors <= first[0] + SLACK, f"descriptors leak: {held} {now}"
                    assert segments <= first[1] + SLACK, f"segments leak: {held} {now}"
            attempt.finish()
        in_time(job.gone, "nothing is left")
    print(f"{victim}: killed {done} times")


@pytest.mark.parametrize("moment", ["serving", "starting"])
def test_a_dead_node_comes_back_or_ends_all_and_leaves_nothing(job: Job, moment: str) -> None:
    dice = random.Random(f"{SEED} node {moment}")
    outcomes = {"bad": 0, "good": 0}
    for _ in range(ROUNDS):
        with running(job.attempt()) as attempt:
            if moment == "serving":
                for rank in attempt.ranks:
                    rank.advance(1 + dice.randrange(5), START_SECONDS)
            else:
                in_time(lambda: bool(job.processes("node")), "there is a node", START_SECONDS)
            pause(dice.random() * dice.choice([0.0, 0.05, 0.3]))
            assert kill(job.processes("node")) or moment == "starting"
            for rank in attempt.ranks:
                # Until serving starts the next of the ranks starts another node.
                seconds = HANG_SECONDS + (ATTACH_SECONDS if moment == "starting" else 0)
                rank.drain()
                while rank.end is None and rank.step < BEYOND_BUFFERS:
                    rank.take(rank.until("rank", seconds))
                if moment == "serving":
                    assert rank.end is None, rank.end  # it reads on, beyond what was on its way
                if rank.end is not None:
                    assert rank.end["error"] in ("UnavailableError", "DeadlineError"), rank.end
                    rank.process.wait(HANG_SECONDS)  # the last of those who saw it die cleans up
                outcomes["good" if rank.end is None else "bad"] += 1
        in_time(job.gone, "nothing is left")
    print(f"node, {moment}: {outcomes}")


@pytest.mark.parametrize("victim", range(2))
def test_a_new_attempt_goes_on_after_a_dead_rank(job: Job, victim: int) -> None:
    dice = random.Random(f"{SEED} rank {victim}")
    old = job.attempt(save_every=3).start()
    attempts = [old]
    fenced = 0
    try:
        for round in range(ROUNDS):
            for rank in old.ranks:
                rank.advance(4 + dice.randrange(6), START_SECONDS)
            pause(dice.random() * dice.choice([0.0, 0.02]))
            old.ranks[victim].kill()
            fence = dice.random() < 0.5
            if not fence:
                old.kill()
            for rank in old.ranks:
                rank.drain()
            common = set.intersection(*(set(rank.saved) for rank in old.ranks))
            step = max(common)
            states = [rank.saved[step] for rank in old.ranks]
            assert all(state == states[0] for state in states)
            new = job.attempt(restarts=round + 1, state=states[0], save_every=3).start()
            attempts.append(new)
            for rank in new.ranks:
                rank.take(rank.until("step", START_SECONDS))
                assert rank.step >= step
                rank.saved.setdefault(step, states[0])
            for rank in old.ranks if fence else ():
                fenced += 1
                if rank.rank == victim:
                    continue
                while rank.end is None:
                    rank.take(rank.until("rank"))
                assert rank.end["error"] in ("CancelledError", "UnavailableError"), rank.end
            old.kill()
            old = new
        for rank in old.ranks:
            rank.advance(BEYOND_BUFFERS)
        old.finish()
    finally:
        for attempt in attempts:
            attempt.kill()
    in_time(job.gone, "nothing is left")
    print(f"rank {victim}: {ROUNDS} attempts, {fenced} ranks of old ones fenced")
