"""Trainers that tell the digest of every step, and what to hold against them."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import queue
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import reported
from trainers import TESTS, Trainer

import overlord as ol

HANG_SECONDS = 30.0  # longer than that without a step is a hang, on a busy machine too
START_SECONDS = 180.0  # of interpreters and tokenizers
# Steps after which nothing that was ready before a kill can be left: what is planned ahead, and
# what ranks have asked for.
BEYOND_BUFFERS = 16
# Steps that ranks may be ahead of their checks: on a busy machine checks are slower than a job.
AHEAD = 64


def digest(batches: list[Any]) -> str:
    """What a rank has got in a step: arrays, and which documents they hold."""
    chain = hashlib.blake2b(digest_size=16)
    for batch in batches:
        for name, array in sorted({**batch.arrays(), "lineage": batch.lineage()}.items()):
            chain.update(name.encode() + str(array.shape).encode() + array.tobytes())
    return chain.hexdigest()


PROGRAM = (
    r"""
import hashlib, json, os, sys, threading
from typing import Any
import overlord as ol
"""
    + inspect.getsource(digest)
    + r"""
told = json.loads(sys.argv[1])
rank = int(os.environ["RANK"])
last = [told["last"]]
allowed = [None]
more = threading.Event()
stop = threading.Event()
closing = threading.Event()


def say(**words):
    sys.stdout.write(json.dumps({"rank": rank, **words}) + "\n")
    sys.stdout.flush()


def listen():
    for line in sys.stdin:
        if line.strip() == "close":
            closing.set()
        elif line.startswith("+"):
            allowed[0] = int(line)
            more.set()
        else:
            last[0] = int(line)


def segments(batches):
    return [row[:5] for batch in batches for row in batch.lineage().tolist()]


try:
    threading.Thread(target=listen, daemon=True).start()
    sys.path.insert(0, told["tests"])
    import reported

    rule = told["rule"] and ol.mix.rule(getattr(reported, told["rule"]), version=1)
    loader = ol.job(told["config"], mesh=ol.mesh(**told["mesh"]), rule=rule).train(rank)
    if told["state"] is not None:
        loader.load_state_dict(told["state"])
    for batches in loader.steps():
        step = batches[0].step
        mesh = loader.mesh.text()
        say(step=step, digest=digest(batches), mesh=mesh, segments=segments(batches))
        if told["reports"]:
            loader.report(step, reported.losses(step, rank))
        if told["meshes"] and step % told["every"] == 0 and rank == step // told["every"] % 2:
            turn = step // told["every"] % len(told["meshes"])
            loader.rebuild(told["meshes"][turn], step + told["every"] // 2)
        if (step + 1) % told["save_every"] == 0:
            say(saved=step + 1, state=loader.state_dict())
        if step >= last[0]:
            break
        stop.wait(told["pace"])
        if allowed[0] is None:
            allowed[0] = step + told["ahead"]
        while step >= allowed[0]:
            more.wait()
            more.clear()
    say(last=step)
    closing.wait()  # a rule of this rank may be asked for the sake of another
    loader.close()
    say(end="good")
except BaseException as error:
    say(end="bad", error=type(error).__name__, text=str(error))
"""
)


@dataclass(frozen=True)
class Ways:
    """What ranks do beside reading."""

    reports: bool = False  # losses, which the mixture follows
    rule: str = ""  # by a function of `reported`
    meshes: Sequence[Mapping[str, int]] = ()  # that the job changes to in turn
    every: int = 40  # steps; it holds from half of them later on

    def mesh_at(self, step: int, first: Mapping[str, int]) -> Mapping[str, int]:
        """The mesh of a step."""
        changes = (step + self.every // 2) // self.every
        if not self.meshes or changes == 0:
            return first
        return self.meshes[(changes - 1) % len(self.meshes)]


class Undisturbed:
    """What every rank sees on one mesh, step by step, in this process, as far as it is asked."""

    def __init__(self, config: str, mesh: Mapping[str, int], ways: Ways) -> None:
        rule = ol.mix.rule(getattr(reported, ways.rule), version=1) if ways.rule else None
        job = ol.job(config, mesh=ol.mesh(**mesh), rule=rule)
        self._loaders = job.train(ranks="all", engine="embedded")
        self._steps = self._loaders.steps()
        self._reports = ways.reports
        self._known: list[dict[int, str]] = []

    def at(self, step: int, rank: int) -> str:
        while len(self._known) <= step:
            batches = next(self._steps)
            self._known.append({rank: digest(items) for rank, items in batches.items()})
            for rank_ in self._loaders if self._reports else ():
                number = len(self._known) - 1
                self._loaders[rank_].report(number, reported.losses(number, rank_))
        return self._known[step][rank]


class Reference:
    """What the ranks' own logs are held against: the stream that nobody disturbs."""

    def __init__(self, config: str, mesh: Mapping[str, int], ways: Ways = Ways()) -> None:  # noqa: B008
        self.mesh, self.ways = mesh, ways
        self._on = {
            ol.mesh(**each).text(): Undisturbed(config, each, ways) for each in (mesh, *ways.meshes)
        }

    def at(self, step: int, rank: int) -> str:
        return self._on[self.mesh_at(step)].at(step, rank)

    def mesh_at(self, step: int) -> str:
        return ol.mesh(**self.ways.mesh_at(step, self.mesh)).text()


class SegmentsOnce:
    """Every segment that the ranks of an attempt have told of, once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, ...], tuple[int, int]] = {}  # by whom, in which step

    def take(self, rank: int, step: int, segments: list[list[int]]) -> None:
        for segment in map(tuple, segments):
            before = self._seen.setdefault(segment, (rank, step))
            assert before == (rank, step), f"{segment} came twice: {before}, {(rank, step)}"


class Survivor(Trainer):
    """A trainer whose every word is checked."""

    program = PROGRAM

    def __init__(
        self,
        told: dict[str, Any],
        rank: int,
        restarts: int,
        reference: Reference,
        once: SegmentsOnce,
    ):
        world = 1
        for size in told["mesh"].values():
            world *= size
        # When it has told of a step, and the newest: what is checked may be further back.
        self.heard: dict[int, float] = {}
        self.newest = -1
        super().__init__(told, rank, world, "chaos", restarts)
        self.reference = reference
        self.once = once
        self.step = -1  # the newest that is checked
        self.begun = told["state"] is None  # it begins at the first, or where its state says
        self.others: list[Survivor] = []  # that it waits for, and so for their checks
        self.saved: dict[int, Any] = {}
        self.done = False  # with the last step that it was asked for
        self.end: dict[str, Any] | None = None

    def hear(self, word: dict[str, Any]) -> None:
        if "step" in word:
            self.newest = word["step"]
            self.heard[self.newest] = time.monotonic()
        super().hear(word)

    def take(self, word: dict[str, Any] | None) -> None:
        if word is None:
            return
        if "step" in word:
            assert not self.begun or word["step"] == self.step + 1, "a step came twice, or not"
            self.begun, self.step = True, word["step"]
            assert word["mesh"] == self.reference.mesh_at(self.step)
            if word["mesh"] == ol.mesh(**self.reference.mesh).text():  # each rank has its own
                self.once.take(self.rank, self.step, word["segments"])
            assert word["digest"] == self.reference.at(self.step, self.rank), (
                f"rank {self.rank} got a wrong byte in step {self.step}"
            )
            if self.step % (AHEAD // 4) == 0:
                with contextlib.suppress(BrokenPipeError):  # it was killed meanwhile
                    self.tell(f"+{self.step + AHEAD}")
        if "saved" in word:
            self.saved[word["saved"]] = word["state"]
        self.done = self.done or "last" in word
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
        deadline = time.monotonic() + seconds
        while self._queue.empty() and time.monotonic() < deadline:
            for other in self.others:
                other.drain()
            pause(0.002)
        assert not self._queue.empty(), f"rank {self.rank} has not said {key} for {seconds} s"
        word = super().until(key, seconds)
        for passed in self.words[before:-1]:
            self.take(passed)
        del self.words[:-5]
        return word

    def stop_after(self, step: int) -> None:
        self.tell(f"{step}")

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
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
            "ahead": AHEAD,
            "tests": TESTS,
            **asdict(self.reference.ways),
        }
        world, once = ol.mesh(**self.mesh).world_size, SegmentsOnce()
        self.ranks = [
            Survivor(told, rank, self.restarts, self.reference, once) for rank in range(world)
        ]
        for rank in self.ranks:
            rank.others = [other for other in self.ranks if other is not rank]
        return self

    def has_read(self, steps: int) -> bool:
        """All ranks have told of so many."""
        return all(rank.newest + 1 >= steps for rank in self.ranks)

    def read_on(self, steps: int) -> float:
        """See all take so many steps beyond those they have told of, none late; when they had."""
        last = max(rank.newest for rank in self.ranks) + steps
        for rank in self.ranks:
            while rank.step < last:
                rank.take(rank.until("step"))
        return max(rank.heard[last] for rank in self.ranks)

    def finish(self) -> None:
        """Let all ranks end at the same step, and see them end well."""
        for rank in self.ranks:
            rank.drain()
        last = max(rank.step for rank in self.ranks) + AHEAD + BEYOND_BUFFERS  # none is there yet
        for rank in self.ranks:
            rank.stop_after(last)
        for rank in self.ranks:
            while not rank.done:
                rank.take(rank.until("rank"))
        for rank in self.ranks:
            rank.tell("close")
        for rank in self.ranks:
            while rank.end is None:
                rank.take(rank.until("rank"))
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
