"""Hosts without ranks die whole at random moments, the one that leads and the one that stands by;
nothing is lost and nothing comes twice: the stream is that of one process (`make chaos`).

CHAOS_ROUNDS (50) is the number of deaths, CHAOS_SEED decides who dies and when.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hosts_in_turn import MESH, Host, three_hosts
from survivors import pause
from trainers import (
    Trainer,
    embedded_hashes,
    go_on,
    hashes_of,
    in_time,
    trainers_on_hosts,
    until_paused,
)

pytestmark = pytest.mark.chaos

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "50"))
SEED = os.environ.get("CHAOS_SEED", "1")
EVERY = 24  # steps of a round: more than can be ready before it


def go(started: list[Trainer]) -> None:
    for trainer in started:
        trainer.go()


def lead_of(living: list[Host]) -> int | None:
    """Which of both leads, once the other stands by for it."""
    for index, host in enumerate(living):
        if host.leads() and living[1 - index].stands_by(host):
            return index
    return None


def test_hosts_die_at_many_moments(
    config: dict[str, Any], sockets: Path, tmp_path: Path, secrets: dict[str, str]
) -> None:
    config["steps"] = EVERY * (ROUNDS + 2)
    expected = embedded_hashes(config, MESH)
    dice = random.Random(f"{SEED} hosts")
    died: Counter[str] = Counter()
    longest = 0.0
    with (
        three_hosts(config, sockets, tmp_path, secrets) as hosts,
        trainers_on_hosts(hosts.paths[:1], MESH, hosts.prefixes[:1], pause_every=EVERY) as started,
    ):
        living = [hosts.start(0), hosts.start(1)]
        until_paused(started)
        for number in range(ROUNDS):
            in_time(lambda: lead_of(living) is not None, f"one leads, one stands by: {number}")
            victim = dice.randrange(2)
            died["lead" if victim == lead_of(living) else "other"] += 1
            go(started)
            pause(dice.random() * dice.choice([0.0, 0.05, 0.5]))
            living[victim].lose()
            lost = time.monotonic()
            if dice.random() < 0.5:  # it is back at once, or when another leads
                living[victim] = hosts.start(victim)
                until_paused(started)
            else:
                until_paused(started)
                living[victim] = hosts.start(victim)
            longest = max(longest, time.monotonic() - lost)
        terms = max(host.look().get("term", 0) for host in living)
        go(started)
        go_on(started)
        assert hashes_of(started) == expected
        for trainer in started:
            assert trainer.until("end")["end"] == "good"
    assert died["lead"] > ROUNDS // 4
    print(f"died: {dict(died)}, term {terms}, {EVERY} steps took {longest:.1f} s at most")
