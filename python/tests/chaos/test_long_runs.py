"""Faults of all kinds, some at once, every few seconds, in one long run of each job.

CHAOS_MINUTES is how long a run lasts; without it CHAOS_ROUNDS (100) is the number of its faults.
Kinds that the machine does not allow are left out: a full disk takes the right to mount one,
a lack of memory that to make control groups.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from faults import why_nobody_starves
from jobs import JOBS, Job
from storm import FAULTS, Storm
from survivors import START_SECONDS, pause, running
from trainers import in_time

pytestmark = pytest.mark.chaos

MINUTES = float(os.environ.get("CHAOS_MINUTES", "0"))
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "100"))
SEED = os.environ.get("CHAOS_SEED", "1")
LONGEST_STOP = 12.0  # a node may be silent for ten
LONGEST_PAUSE = 4.0  # until something happens again


@pytest.mark.parametrize("kind", JOBS)
def test_one_long_run(long_starter: Path, tmp_path: Path, disk: Path | None, kind: str) -> None:
    impossible = {"full"} if disk is None else set()
    if why_nobody_starves():
        impossible.add("starved")
    faults = [(victim, fault) for victim, fault in FAULTS if fault not in impossible]
    job = Job(long_starter, tmp_path, kind, disk)
    dice = random.Random(f"{SEED} {kind} long")
    storm = Storm(job, dice, LONGEST_STOP)
    with running(job.attempt(pace=0.01)) as attempt, job.explained(attempt):
        for rank in attempt.ranks:
            rank.advance(1, START_SECONDS)
        end = time.monotonic() + 60 * MINUTES
        while time.monotonic() < end if MINUTES else storm.done.total() < ROUNDS:
            # One kind of process, one fault: a batch that kills two tokenizers is an error.
            some = {victim: (victim, fault) for victim, fault in dice.sample(faults, 3)}
            storm.strike(attempt, *list(some.values())[: dice.randint(1, 3)])
            pause(dice.random() * LONGEST_PAUSE)
        attempt.finish()
    in_time(job.gone, "nothing is left")
    assert storm.done, "nothing came about"
    print(f"{kind}, {storm.told()}")
