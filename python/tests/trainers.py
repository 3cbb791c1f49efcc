"""Trainers: processes with a launcher's environment, each reading one rank."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reported import losses
from warm_python import WarmProcess

import overlord as ol

# For a condition to come true, on the busiest machine: only a test that fails waits so long.
PATIENCE_SECONDS = 120.0

TESTS = str(Path(__file__).parent)
# `first`: what a rank does before anything else, by rank; `reports`: ranks that report losses;
# `functions`: of planned.py, that the strategy names;
# `sizes`: to how many loaders rank 0 sets a source every two steps, in turn.
PROGRAM = r"""
import json, os, sys
import overlord as ol

told = json.loads(sys.argv[1])
rank = int(os.environ["RANK"])


def say(**words):
    print(json.dumps({"rank": rank, **words}), flush=True)


def wait_for(word):
    for line in sys.stdin:
        if line.strip() == word:
            return


def before_the_job(do):
    # By the rank that opens the sources for its host.
    import overlord._src.job.job as jobs

    open_stream = jobs.Job.open_stream

    def opened(self, *words, **more):
        do()
        return open_stream(self, *words, **more)

    jobs.Job.open_stream = opened


try:
    rule = None
    if "reports" in told:
        sys.path.insert(0, told["tests"])
        import reported

        rule = told.get("rule") and ol.mix.rule(getattr(reported, told["rule"]), version=1)
    callouts = None
    if "functions" in told:
        sys.path.insert(0, told["tests"])
        import planned

        callouts = planned.functions(*told["functions"])
    if str(rank) in told.get("first", {}):
        exec(told["first"][str(rank)])
    job = ol.job(told["config"], mesh=ol.mesh(**told["mesh"]), rule=rule, callouts=callouts)
    loader = job.train(rank, engine=told["engine"], hash=True, node=told.get("node"))
    if told.get("state") is not None:
        loader.load_state_dict(told["state"])
    steps = 0
    for batches in loader.steps():
        steps += 1
        say(step=batches[-1].step)
        if told.get("tells_states"):
            say(at=batches[-1].step + 1, kept=loader.state_dict())
        if rank in told.get("reports", []):
            loader.report(batches[-1].step, reported.losses(batches[-1].step, rank))
        for source, sizes in told.get("sizes", {}).items():
            if rank == 0 and steps % 2 == 0:
                loader.resize(source, sizes[steps // 2 % len(sizes)])
        if steps == told.get("pause_after") or steps % told.get("pause_every", steps + 1) == 0:
            say(paused=True)
            wait_for("go")
        if steps == told.get("stop_after"):
            break
    say(state=loader.state_dict(), hash=loader.rank_hash(), content=loader.content_hash())
    loader.close()
    say(end="good")
except BaseException as error:
    say(end="bad", error=type(error).__name__, text=str(error))
"""


class Trainer:
    """One of them. `tells_states`: after every step."""

    program = PROGRAM

    def __init__(
        self,
        told: dict[str, Any],
        rank: int,
        world: int,
        run: str,
        restarts: int,
        per_host: int = 0,
        prefix: Sequence[str] = (),
    ) -> None:
        per_host = per_host or world
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % per_host),
            "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(per_host),
            "TORCHELASTIC_RUN_ID": run,
            "TORCHELASTIC_RESTART_COUNT": str(restarts),
        }
        self.rank = rank
        self.process = WarmProcess(self.program, [json.dumps(told)], environment, prefix=prefix)
        self.words: list[dict[str, Any]] = []
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            if line.endswith("\n"):  # not cut by a kill
                self.hear(json.loads(line))
        self._queue.put(None)

    def hear(self, word: dict[str, Any]) -> None:
        """Take a word at the moment when it was said."""
        self._queue.put(word)

    def until(self, key: str, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """The next word that has this key; fails when the process ends or the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                word = self._queue.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                last = self.words[-1:]
                raise AssertionError(
                    f"rank {self.rank} has not said {key} for {seconds} s; its last word: {last}"
                ) from None
            assert word is not None, f"rank {self.rank} ended without saying {key}: {self.words}"
            self.words.append(word)
            if key in word:
                return word

    def heard(self) -> list[dict[str, Any]]:
        """All words so far, without waiting for more."""
        with contextlib.suppress(queue.Empty):
            while (word := self._queue.get_nowait()) is not None:
                self.words.append(word)
        return self.words

    def go(self) -> None:
        """Let it go on after its pause."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def ended_at_last(started: Sequence[Trainer]) -> Iterator[None]:
    """These are ended at the end whatever happens."""
    try:
        yield
    finally:
        for trainer in started:
            trainer.process.kill()
            trainer.process.wait()


@contextlib.contextmanager
def trainers_on_hosts(
    configs: Sequence[dict[str, Any] | str],
    mesh: dict[str, int],
    prefixes: Sequence[Sequence[str]],
    *,
    only: Sequence[int] | None = None,
    **told: Any,
) -> Iterator[list[Trainer]]:
    """The ranks of a mesh on several hosts, as many on each; `only`: these have a loader."""
    world = math.prod(mesh.values())
    per_host = world // len(configs)
    started = []
    for rank in range(world) if only is None else only:
        host = rank // per_host
        message = {"config": configs[host], "mesh": mesh, "engine": "auto", "tests": TESTS, **told}
        started.append(Trainer(message, rank, world, "hosts", 0, per_host, prefixes[host]))
    with ended_at_last(started):
        yield started


@contextlib.contextmanager
def trainers(
    config: dict[str, Any] | str,
    mesh: dict[str, int],
    *,
    engine: str = "auto",
    run: str = "test",
    restarts: int = 0,
    only: Sequence[int] | None = None,
    **told: Any,
) -> Iterator[list[Trainer]]:
    """All ranks of a mesh, or `only` these, ended at the end whatever happens."""
    world = math.prod(mesh.values())
    message = {"config": config, "mesh": mesh, "engine": engine, "tests": TESTS, **told}
    ranks = range(world) if only is None else only
    started = [Trainer(message, rank, world, run, restarts) for rank in ranks]
    with ended_at_last(started):
        yield started


def until_paused(started: Sequence[Trainer]) -> None:
    """All have come to their pause."""
    for trainer in started:
        trainer.until("paused")


def go_on(started: Sequence[Trainer]) -> None:
    """They pause behind the last thing that is done to them, for on a busy machine they might be at
    their end before it; now they may go there."""
    until_paused(started)
    for trainer in started:
        trainer.go()


def in_time(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        threading.Event().wait(0.005)


def processes_of(directory: Path) -> dict[int, str]:
    """Processes that serve a job whose sockets lie under this folder, by pid."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if any(str(directory).encode() in word for word in words[1:]):
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    found[int(entry.name)] = words[0].decode()
    return found


def left_of(directory: Path) -> list[str]:
    """Processes and files of jobs whose sockets lay under this folder."""
    processes = [f"{name} ({pid})" for pid, name in processes_of(directory).items()]
    # Not Path.rglob, which fails where a folder is removed while it is walked.
    files = [
        os.path.join(at, name)
        for at, folders, names in os.walk(directory)
        for name in (*folders, *names)
    ]
    return processes + files


def nothing_left(directory: Path) -> bool:
    return not left_of(directory)


def until_nothing_left(directory: Path, what: str = "nothing is left") -> None:
    """Wait until all processes and files of a job are gone."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := left_of(directory):
        assert time.monotonic() < deadline, (
            f"not within {PATIENCE_SECONDS} s: {what}; there are {left}"
        )
        threading.Event().wait(0.005)


def embedded_hashes(
    config: dict[str, Any],
    mesh: dict[str, int],
    reports: Sequence[int] = (),
    rule: Any = None,
    callouts: Any = None,
) -> dict[int, str]:
    job = ol.job(config, mesh=ol.mesh(**mesh), rule=rule, callouts=callouts)
    loaders = job.train(ranks="all", hash=True, engine="embedded")
    for batches in loaders.steps():
        step = next(iter(batches.values()))[-1].step
        for rank in reports:
            loaders[rank].report(step, losses(step, rank))
    return {rank: loader.rank_hash() for rank, loader in loaders.items()}


def hashes_of(started: list[Trainer]) -> dict[int, str]:
    return {trainer.rank: trainer.until("hash")["hash"] for trainer in started}


def kill_all(sockets: Path, victim: str) -> bool:
    """Kill the role processes of this name; False when there is none at the moment."""
    killed = False
    for pid, name in processes_of(sockets).items():
        if f"overlord: {victim}" in name:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, signal.SIGKILL)
                killed = True
    return killed
