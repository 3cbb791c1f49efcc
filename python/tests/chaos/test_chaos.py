"""Kill -9 and SIGSTOP of every process of a job, a full disk, too little memory: at random moments,
over and over (`make chaos`).

Never a hang, never a wrong byte to a survivor, no segment twice, never anything left; the stream
goes on after nodes, loaders, constructors and workers, and a new attempt goes on from the state
of a dead one. What counts is what the ranks themselves have written down.
CHAOS_ROUNDS (100) is the number of faults of each, CHAOS_SEED decides the moments, CHAOS_STOP (30)
is how many seconds a process is stopped, mostly.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from faults import kill, why_nobody_starves
from jobs import ATTACH_SECONDS, JOBS, Job
from storm import FAULTS, Storm
from survivors import BEYOND_BUFFERS, HANG_SECONDS, START_SECONDS, Attempt, holdings, pause, running
from trainers import in_time

pytestmark = pytest.mark.chaos

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "100"))
SEED = os.environ.get("CHAOS_SEED", "1")
LONGEST_STOP = float(os.environ.get("CHAOS_STOP", "30"))
KILLS_OF_A_RUN = 7  # one more than the supervisor's eight within a minute would end the job
SLACK = 8  # descriptors and segments that may come and go


def held_by(job: Job, attempt: Attempt, victim: str) -> dict[int, tuple[int, int]]:
    """What the processes hold that live through the kills of a victim."""
    names = {"node"} if victim == "several" else {"node", "loaders", "constructors"} - {victim}
    pids = [pid for name in sorted(names) for pid in job.processes(name)]
    pids += [rank.process.pid for rank in attempt.ranks]
    return {pid: holdings(pid) for pid in pids}


# A run ends when role processes die more than eight times in a minute; a stopped one is killed.
FAULTS_OF_A_RUN = 5


@pytest.mark.parametrize(("victim", "fault"), [*FAULTS, ("any", "killed"), ("any", "stopped")])
@pytest.mark.parametrize("kind", JOBS)
def test_nobody_notices(
    long_starter: Path, tmp_path: Path, disk: Path | None, kind: str, victim: str, fault: str
) -> None:
    """Faults of one kind; ranks read beyond all that was ready before each."""
    if fault == "full" and disk is None:
        pytest.skip("nothing can be mounted here")
    if fault == "starved" and (why := why_nobody_starves()):
        pytest.skip(why)
    job = Job(long_starter, tmp_path, kind, disk if fault == "full" else None)
    dice = random.Random(f"{SEED} {kind} {victim} {fault}")
    storm = Storm(job, dice, LONGEST_STOP)
    runs = 0
    while storm.done.total() < ROUNDS:
        runs += 1
        assert runs <= 3 + 2 * ROUNDS, f"hardly any fault comes about: {storm.done}"
        told = job.attempt(pace=dice.choice([0.0005, 0.002, 0.01]))
        with running(told) as attempt, job.explained(attempt):
            for rank in attempt.ranks:
                rank.advance(1 + dice.randrange(20), START_SECONDS)
            for _ in range(min(FAULTS_OF_A_RUN, ROUNDS - storm.done.total())):
                if not storm.strike(attempt, (victim, fault)):
                    break
            attempt.finish()
        in_time(job.gone, "nothing is left")
    print(f"{kind}, {storm.told()}")


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
