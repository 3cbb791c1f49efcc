"""How long a run with a node is disturbed by the node's death: the figures of docs/faults.md.

    .venv/bin/python tools/recovery_times.py [--victim node] [--kills 30] [--prefetch 3]

One process reads both ranks of a small job, one step every so many milliseconds; its node, or
what `--victim` names, gets SIGKILL again and again. Measured are the time from the kill to the
first new plan in the journal, the longest `next()` after a kill, and the longest of as many steps
without kills.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overlord._src.native import core

import overlord as ol

# Of two kills, half of them without one. A role process that dies more than 8 times a minute ends
# the job, so those have more time.
STEPS = {"node": 75, "loaders": 250, "constructors": 250}


def make_job(folder: Path, prefetch: int) -> dict[str, Any]:
    """Two sources of tokens that repeat."""
    for name in ("web", "code"):
        rows = [[1 + (row * 7 + place) % 900 for place in range(200)] for row in range(2000)]
        lines = (json.dumps({"tokens": row}) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines))
    source = {"tokens": "tokens", "at_end": "repeat", "allow_duplicates": True}
    return {
        "job": "recovery",
        "seed": 7,
        "context": 2048,
        "bins": 4,
        "vocabulary": 1000,
        "pad_token": 0,
        "index_dir": str(folder / "index"),
        "mixture": {"weights": {"web": 1, "code": 1}},
        "sources": {
            name: {"files": str(folder / f"{name}.jsonl"), **source} for name in ("web", "code")
        },
        "runtime": {
            "prefetch": prefetch,
            "journal": str(folder / "journal"),
            "processes": {"directory": str(folder / "sockets")},
        },
    }


def last_step(journal: Path) -> int:
    """Of the plans that are durable."""
    plans = core.journal_plans(str(journal))
    return plans[-1][0] if plans else -1


def processes_of(sockets: Path, victim: str) -> list[int]:
    """Of the node, or role processes of this name, of the job whose sockets lie here."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        name = words[0].decode()
        ours = any(str(sockets).encode() in word for word in words[1:])
        if ours and (name.endswith("-node") if victim == "node" else f": {victim}" in name):
            found.append(int(process.name))
    if not found:
        raise SystemExit(f"there is no {victim}")
    return found


class Kill:
    """One death, watched from a thread of its own."""

    def __init__(self, journal: Path, sockets: Path, victim: str) -> None:
        self.new_plan_s: float | None = None
        dead = processes_of(sockets, victim)
        began = time.perf_counter()
        for process in dead:
            os.kill(process, signal.SIGKILL)
        self._thread = threading.Thread(target=self._watch, args=(journal, began))
        self._thread.start()

    def _watch(self, journal: Path, began: float) -> None:
        before = last_step(journal)
        while time.perf_counter() - began < 60:
            if last_step(journal) > before:
                self.new_plan_s = time.perf_counter() - began
                return
            time.sleep(0.001)

    def end(self) -> float:
        """Seconds to the first new plan."""
        self._thread.join()
        if self.new_plan_s is None:
            raise SystemExit("no new plan within a minute")
        return self.new_plan_s


def waits(rounds: Iterator[Any], step_s: float) -> Iterator[float]:
    """Seconds of each `next()` of a trainer whose steps take so long."""
    while True:
        began = time.perf_counter()
        next(rounds)
        took = time.perf_counter() - began
        yield took
        time.sleep(step_s)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    """New plans and longest waits by kill, and longest waits without kills."""
    (folder / "sockets").mkdir(mode=0o700)
    job = ol.job(make_job(folder, options.prefetch), mesh={"dp": 2})
    with job.train(ranks="all", engine="processes") as loaders:
        steps = waits(loaders.rounds(), options.step_ms / 1000)
        between = STEPS[options.victim]
        for _ in range(between):
            next(steps)
        [journal] = (folder / "journal").iterdir()
        found: dict[str, list[float]] = {"new plan": [], "next": [], "quiet": []}
        for _ in range(options.kills):
            found["quiet"].append(max(next(steps) for _ in range(between)))
            kill = Kill(journal, folder / "sockets", options.victim)
            found["next"].append(max(next(steps) for _ in range(between)))
            found["new plan"].append(kill.end())
    return found


def main() -> None:
    """Measure, and print rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--victim", choices=STEPS, default="node")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--step-ms", type=float, default=20.0)
    parser.add_argument("--prefetch", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options, Path(folder))
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{options.kills} kills of {options.victim}, prefetch {options.prefetch}, {load}")
    for name, values in found.items():
        median, worst = statistics.median(values) * 1000, max(values) * 1000
        print(f"{name}: median {median:.0f} ms, max {worst:.0f} ms")


if __name__ == "__main__":
    main()
