"""Faults of a job, each followed by what its ranks have to say."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from faults import fill, filling, kill, starve, stop
from jobs import KINDS, NEEDS_PLANS_ALONE, Job
from overlord._src.native import core
from survivors import BEYOND_BUFFERS, Attempt, pause
from trainers import in_time, processes_of

# Whom something happens to, and what.
FAULTS = [
    *((victim, fault) for victim in KINDS for fault in ("killed", "stopped")),
    *(("loaders", "starved"), ("constructors", "starved"), ("disk", "full")),
]
LONGEST_FULL = 5.0
STARVED_SECONDS = 5.0  # one that does not grow for so long is left alone
# One that dies more than eight times in a minute ends the job; some die whom nobody chose.
DEATHS_A_MINUTE = 6


class Storm:
    """What happens to the ranks of one job, and how long it holds them up."""

    def __init__(self, job: Job, dice: random.Random, longest_stop: float) -> None:
        self.job, self.dice, self.longest_stop = job, dice, longest_stop
        self.done: Counter[str] = Counter()
        self.longest = 0.0  # from the begin of a fault until all read on
        self._struck: defaultdict[str, list[float]] = defaultdict(list)

    def strike(self, attempt: Attempt, *faults: tuple[str, str]) -> bool:
        """Do all of these at once, then see ranks read beyond everything that was ready before.

        False where nothing came of any.
        """
        nodes = self.job.processes("node")
        begun = time.monotonic()
        with ThreadPoolExecutor() as pool:
            alone = len(faults) == 1
            dice = [random.Random(self.dice.random()) for _ in faults]
            tries = list(map(partial(pool.submit, self._one, attempt, alone), faults, dice))
            while not all(each.done() for each in tries):
                for rank in attempt.ranks:  # they read meanwhile
                    rank.drain()
                pause(0.005)
        told = [each.result() for each in tries]
        took = attempt.read_on(BEYOND_BUFFERS) - begun
        self.longest = max(self.longest, took)
        self.done.update(" ".join(each) for each, text in zip(faults, told, strict=True) if text)
        landed = "; ".join(filter(None, told)) or "nothing"
        if nodes != self.job.processes("node") and "node" not in landed:
            landed += "; the node was replaced too"  # on a machine that is too busy to answer
        print(f"{landed}: all read on after {took:.1f} s")
        return any(told)

    def told(self) -> str:
        """What has happened, for people."""
        faults = ", ".join(f"{what} {often} times" for what, often in self.done.items())
        return f"{faults}: at most {self.longest:.1f} s until all read on"

    def _one(
        self, attempt: Attempt, alone: bool, fault: tuple[str, str], dice: random.Random
    ) -> str:
        if fault[1] == "full":
            return self._full(attempt, dice, alone)
        return self._harm(*fault, dice)

    def _harm(self, victim: str, fault: str, dice: random.Random) -> str:
        """Kill, stop or starve some of these; whom, if anybody."""
        if victim != "tokenizer":  # there is none when all text is tokenised and kept
            in_time(lambda: bool(self.job.processes(victim)), f"there is a {victim} process")
        pause(dice.random() * dice.choice([0.0, 0.01, 0.2]))
        chosen = self._choose(victim, 2 if fault == "killed" else 1, dice)
        begun = time.monotonic()
        if fault == "killed":
            harmed = kill(list(chosen))
        elif fault == "stopped":
            short = dice.choice([0.05, 1.0, 5.0, self.longest_stop]) * dice.random()
            harmed = stop(list(chosen), dice.choice([self.longest_stop] * 3 + [short]))
        else:
            harmed = starve(list(chosen), dice.choice([0, 16, 64]) << 10, STARVED_SECONDS)
        lasted = time.monotonic() - begun
        return f"{', '.join(chosen.values())} {fault} for {lasted:.1f} s" if harmed else ""

    def _choose(self, victim: str, most: int, dice: random.Random) -> dict[int, str]:
        """Processes of a kind with their names, none that has died often of late."""
        now = time.monotonic()
        told = processes_of(self.job.sockets)
        names = {
            pid: told.get(pid, "tokenizer").rpartition("/")[2] for pid in self.job.processes(victim)
        }
        living = [
            pid
            for pid, name in names.items()
            if not name.startswith("overlord: ")
            or sum(at > now - 60 for at in self._struck[name]) < DEATHS_A_MINUTE
        ]
        chosen = dice.sample(living, min(most, len(living)))
        for pid in chosen:
            self._struck[names[pid]].append(now)
        return {pid: names[pid] for pid in chosen}

    def _full(self, attempt: Attempt, dice: random.Random, alone: bool) -> str:
        """Fill the disk of the journal for a while: nothing is planned, what is planned is read."""
        assert self.job.disk is not None
        status: dict[str, Any] = {}
        with filling(self.job.disk) as filler:

            def waits() -> bool:
                fill(filler)
                status.update(self.job.status())
                return "space on the disk" in status.get("waits", "")

            in_time(waits, "the planner waits for space")
            begun = time.monotonic()
            planned = core.look_at_journal(status["journal"])["next_step"] if alone else 0
            if alone and self.job.kind in NEEDS_PLANS_ALONE:
                in_time(lambda: attempt.has_read(planned), f"ranks have read {planned} steps")
            pause(dice.random() * LONGEST_FULL)
            if alone:
                now = core.look_at_journal(status["journal"])["next_step"]
                assert now == planned, "plans are made without space"
        return f"disk full for {time.monotonic() - begun:.1f} s"
