"""Trainers that tell the digest of every step, and what to hold against them."""

from __future__ import annotations

import contextlib
import hashlib
import queue
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainers import Trainer

import overlord as ol

HANG_SECONDS = 10.0  # longer than that without a step is a hang
START_SECONDS = 60.0  # of interpreters, on a busy machine
# Steps after which nothing that was ready before a kill can be left: what is planned ahead, and
# what ranks have asked for.
BEYOND_BUFFERS = 16

PROGRAM = r"""
import hashlib, json, os, sys, threading
import overlord as ol

told = json.loads(sys.argv[1])
rank = int(os.environ["RANK"])
last = [told["last"]]
stop = threading.Event()


def say(**words):
    sys.stdout.write(json.dumps({"rank": rank, **words}) + "\n")
    sys.stdout.flush()


def listen():
    for line in sys.stdin:
        last[0] = int(line)


def digest(batches):
    chain = hashlib.blake2b(digest_size=16)
    for batch in batches:
        for name, array in sorted(batch.arrays().items()):
            chain.update(name.encode() + str(array.shape).encode() + array.tobytes())
    return chain.hexdigest()


try:
    threading.Thread(target=listen, daemon=True).start()
    loader = ol.job(told["config"], mesh=ol.mesh(**told["mesh"])).train(rank)
    if told["state"] is not None:
        loader.load_state_dict(told["state"])
    for batches in loader.steps():
        step = batches[0].step
        say(step=step, digest=digest(batches))
        if (step + 1) % told["save_every"] == 0:
            say(saved=step + 1, state=loader.state_dict())
        if step >= last[0]:
            break
        stop.wait(told["pace"])
    loader.close()
    say(end="good")
except BaseException as error:
    say(end="bad", error=type(error).__name__, text=str(error))
"""


def digest(batches: list[Any]) -> str:
    """As the trainers reckon it."""
    chain = hashlib.blake2b(digest_size=16)
    for batch in batches:
        for name, array in sorted(batch.arrays().items()):
            chain.update(name.encode() + str(array.shape).encode() + array.tobytes())
    return chain.hexdigest()


class Reference:
    """What every rank has to see, step by step, made in this process as far as it is asked for."""

    def __init__(self, config: str, mesh: Mapping[str, int]) -> None:
        loaders = ol.job(config, mesh=ol.mesh(**mesh)).train(ranks="all", engine="embedded")
        self._steps = loaders.steps()
        self._known: list[dict[int, str]] = []

    def at(self, step: int, rank: int) -> str:
        while len(self._known) <= step:
            batches = next(self._steps)
            self._known.append({rank: digest(items) for rank, items in batches.items()})
        return self._known[step][rank]


class Survivor(Trainer):
    """A trainer whose every word is checked."""

    program = PROGRAM

    def __init__(self, told: dict[str, Any], rank: int, restarts: int, reference: Reference):
        world = 1
        for size in told["mesh"].values():
            world *= size
        super().__init__(told, rank, world, "chaos", restarts)
        self.reference = reference
        self.step = -1
        self.saved: dict[int, Any] = {}
        self.end: dict[str, Any] | None = None

    def take(self, word: dict[str, Any] | None) -> None:
        if word is None:
            return
        if "step" in word:
            self.step = word["step"]
            assert word["digest"] == self.reference.at(self.step, self.rank), (
                f"rank {self.rank} got a wrong byte in step {self.step}"
            )
        if "saved" in word:
            self.saved[word["saved"]] = word["state"]
        if "end" in word:
            self.end = word

    def drain(self) -> None:
        """Check what it has said so far."""
        with contextlib.suppress(queue.Empty):
            while True:
                self.take(self._queue.get_nowait())

    def advance(self, steps: int, seconds: float = HANG_SECONDS) -> None:
        """See it take so many more steps, none of them late."""
        self.drain()
        for _ in range(steps):
            word = self.until("step", seconds)
            self.take(word)
            self.drain()

    def until(self, key: str, seconds: float = HANG_SECONDS) -> dict[str, Any]:
        before = len(self.words)
        word = super().until(key, seconds)
        for passed in self.words[before:-1]:
            self.take(passed)
        del self.words[:-5]
        return word

    def stop_after(self, step: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{step}\n")
        self.process.stdin.flush()


@dataclass
class Attempt:
    """All ranks, started together."""

    config: str
    mesh: dict[str, int]
    reference: Reference
    restarts: int = 0
    state: Any = None
    pace: float = 0.002
    save_every: int = 1_000_000
    ranks: list[Survivor] = field(default_factory=list)

    def start(self) -> Attempt:
        told = {
            "config": self.config,
            "mesh": self.mesh,
            "state": self.state,
            "pace": self.pace,
            "save_every": self.save_every,
            "last": 10**9,
        }
        world = ol.mesh(**self.mesh).world_size
        self.ranks = [Survivor(told, rank, self.restarts, self.reference) for rank in range(world)]
        return self

    def finish(self) -> None:
        """Let all ranks end at the same step, and see them end well."""
        for rank in self.ranks:
            rank.drain()
        last = max(rank.step for rank in self.ranks) + 2 * BEYOND_BUFFERS
        for rank in self.ranks:
            rank.stop_after(last)
        for rank in self.ranks:
            while rank.end is None:
                rank.take(rank.until("end") if rank.step >= last else rank.until("step"))
            assert rank.end["end"] == "good", rank.end
            assert rank.step == last

    def kill(self) -> None:
        for rank in self.ranks:
            with contextlib.suppress(ProcessLookupError):
                rank.process.send_signal(signal.SIGKILL)
            rank.process.wait()


@contextlib.contextmanager
def running(attempt: Attempt) -> Iterator[Attempt]:
    """Ended at the end, whatever happens."""
    try:
        yield attempt.start()
    finally:
        attempt.kill()


def children_of(parents: set[int]) -> set[int]:
    """Processes whose parent is one of these."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            if words[0] != "Z" and int(words[1]) in parents:
                found.add(int(entry.name))
    return found


def holdings(pid: int) -> tuple[int, int]:
    """Descriptors that a process has open, and shared segments that it maps."""
    descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    maps = Path(f"/proc/{pid}/maps").read_text()
    return descriptors, maps.count("memfd:overlord")


def pause(seconds: float) -> None:
    """A random moment is one that nothing announces."""
    threading.Event().wait(seconds)
