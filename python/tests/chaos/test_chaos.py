"""Kill -9 and SIGSTOP of every process of a job, at random moments, over and over (`make chaos`).

Never a hang, never a wrong byte to a survivor, no segment twice, never anything left; the stream
goes on after nodes, loaders, constructors and workers, and a new attempt goes on from the state
of a dead one. What counts is what the ranks themselves have written down.
CHAOS_ROUNDS (100) is the number of faults of each, CHAOS_SEED decides the moments, CHAOS_STOP (30)
is the longest time in seconds that a process is stopped.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from corpora import write_megatron
from overlord._src.corpus import STARTER, ensure_corpus
from overlord._src.corpus.config_text import starter_config
from trainers import in_time, nothing_left, processes_of

import overlord as ol

sys.path.insert(0, str(Path(__file__).parent))
from survivors import (
    BEYOND_BUFFERS,
    HANG_SECONDS,
    START_SECONDS,
    Attempt,
    Reference,
    Ways,
    children_of,
    holdings,
    pause,
    running,
)

pytestmark = pytest.mark.chaos

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "100"))
SEED = os.environ.get("CHAOS_SEED", "1")
LONGEST_STOP = float(os.environ.get("CHAOS_STOP", "30"))
KILLS_OF_A_RUN = 7  # one more than the supervisor's eight within a minute would end the job
MESH = {"dp": 2}
ATTACH_SECONDS = 8
ROWS = 16  # few at a time, so that tokenizers are asked often
SLACK = 8  # descriptors and segments that may come and go


KINDS = ("node", "loaders", "constructors", "tokenizer")


def with_shadows(told: dict[str, Any], _: Path) -> None:
    for source in told["sources"].values():
        source["shadows"] = 1


def with_feedback(schedule: dict[str, Any]) -> Callable[[dict[str, Any], Path], None]:
    def follow(told: dict[str, Any], _: Path) -> None:
        told["mixture"] |= {"schedule": schedule, "feedback": {"delay": 3, "reporters": [0, 1]}}

    return follow


def with_late_rows(told: dict[str, Any], folder: Path) -> None:
    """Documents with ids that no vocabulary has: their lengths are known, their bytes are not."""
    dice = np.random.default_rng(2)
    documents = [dice.integers(1, 100, dice.integers(5, 60)) for _ in range(400)]
    for bad in range(7, 400, 40):
        documents[bad][2] = 1_000_000
    write_megatron(folder / "late", [[document] for document in documents], "int32")
    late = {"files": str(folder / "late.bin"), "bad_rows_allowed": 1_000_000}
    told["sources"]["late"] = late
    told["mixture"]["weights"]["late"] = 0.3


# What a job has beside text, tokenizers and ready tokens; and what its ranks do.
CHANGES: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "shadows": with_shadows,
    "losses": with_feedback({"kind": "odm"}),
    "rule": with_feedback({"kind": "rule", "version": 1}),
    "late_rows": with_late_rows,
}
WAYS = {
    "losses": Ways(reports=True),
    "rule": Ways(reports=True, rule="more_of_the_worst"),
    "rebuild": Ways(meshes=[{"cp": 2}, {"dp": 2}]),
}
JOBS = ("plain", "shadows", "losses", "rule", "late_rows", "rebuild")


class Job:
    """A config whose sockets lie in a folder of their own, and what its ranks have to see."""

    def __init__(self, starter: Path, folder: Path, kind: str = "plain") -> None:
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
        ways = WAYS.get(kind, Ways())
        CHANGES.get(kind, lambda *_: None)(told, folder)
        config = starter.with_name(f"{folder.name}.yaml")
        config.write_text(yaml.safe_dump(told))
        self.config = str(config)
        for source in told["sources"].values():  # one process has no shadows
            source.pop("shadows", None)
        alone = starter.with_name(f"{folder.name}-alone.yaml")
        alone.write_text(yaml.safe_dump(told))
        self.reference = Reference(str(alone), MESH, ways)
        self.reference.at(0, 0)  # builds the indexes

    @contextlib.contextmanager
    def explained(self, attempt: Attempt) -> Iterator[None]:
        """What the job waits for when something is late."""
        try:
            yield
        except AssertionError as error:
            for rank in attempt.ranks:
                error.add_note(f"rank {rank.rank} is at step {rank.step}, its end: {rank.end}")
            for folder in self.sockets.iterdir():
                with contextlib.suppress(ol.OverlordError):
                    status = ol._src.native.core.ask_node(str(folder))
                    kept = ("waits", "gone", "recoveries", "term", "planner", "clients")
                    error.add_note(str({name: status[name] for name in kept}))
            error.add_note(str(processes_of(self.sockets)))
            raise

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
        if victim == "any":
            return [pid for name in KINDS for pid in self.processes(name)]
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


def stop(pids: list[int], seconds: float) -> int:
    """Stop processes, and wake those that are left after a time."""
    stopped = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in stopped):
        pause(0.01)
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return len(stopped)


# A run ends when role processes die more than eight times in a minute; a stopped one is killed.
FAULTS_OF_A_RUN = 5


@pytest.mark.parametrize("fault", ["killed", "stopped"])
@pytest.mark.parametrize("victim", [*KINDS, "any"])
@pytest.mark.parametrize("kind", JOBS)
def test_nobody_notices(
    long_starter: Path, tmp_path: Path, kind: str, victim: str, fault: str
) -> None:
    """Faults of one kind of process; ranks read beyond all that was ready before each."""
    job = Job(long_starter, tmp_path, kind)
    dice = random.Random(f"{SEED} {kind} {victim} {fault}")
    done, longest = 0, 0.0
    while done < ROUNDS:
        told = job.attempt(pace=dice.choice([0.0005, 0.002, 0.01]))
        with running(told) as attempt, job.explained(attempt):
            for rank in attempt.ranks:
                rank.advance(1 + dice.randrange(20), START_SECONDS)
            for _ in range(min(FAULTS_OF_A_RUN, ROUNDS - done)):
                if victim == "tokenizer" and not job.processes(victim):
                    break  # all text is tokenised and kept
                in_time(lambda: bool(job.processes(victim)), f"there is a {victim} process")
                pause(dice.random() * dice.choice([0.0, 0.01, 0.2]))
                living = job.processes(victim)
                chosen = dice.sample(living, min(1 if fault == "stopped" else 2, len(living)))
                short = dice.choice([0.05, 1.0, 5.0, LONGEST_STOP]) * dice.random()
                seconds = dice.choice([LONGEST_STOP] * 3 + [short])
                names = [processes_of(job.sockets).get(pid, "tokenizer") for pid in chosen]
                begun = time.monotonic()
                done += (kill(chosen) if fault == "killed" else stop(chosen, seconds)) > 0
                over = time.monotonic() - begun
                for rank in attempt.ranks:
                    rank.advance(BEYOND_BUFFERS)
                took = time.monotonic() - begun
                print(f"{names} {fault} for {over:.1f} s, all read on after {took:.1f} s")
                longest = max(longest, took)
            attempt.finish()
        in_time(job.gone, "nothing is left")
    print(f"{kind}, {victim} {fault}: {done} times, at most {longest:.1f} s until all read on")


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
