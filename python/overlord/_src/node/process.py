"""The node process of this host: found where it runs, started where it does not."""

from __future__ import annotations

import collections
import contextlib
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from overlord._src.native import core
from overlord._src.node.limits import on_cores

_CONNECT_SECONDS = 0.1  # to a node that is there, before we look again whether it is
_LAST_WORD_SECONDS = 5.0  # after its deadline a node says which ranks are missing
_STARTS_ALLOWED = 3  # of nodes that end without a word, by one process
_END_SECONDS = 10.0  # for a node that was asked to end
_DEATHS_ALLOWED = 100  # of nodes of one `serve` ...
_DEATHS_SECONDS = 60.0  # ... in this time


@dataclass(frozen=True)
class NodePlan:
    """What a node of this job is started with, besides the job itself."""

    loader_processes: int = 1
    constructor_processes: int = 1
    isolate: Sequence[Sequence[str]] = ()  # those of a list share a process
    isolate_by_rule: bool = True
    attach_seconds: float = 300.0
    recovery_seconds: float = 0.0  # for a node that died to come back; 0: it does not
    orphan_seconds: float = 60.0  # for role processes without a node
    stays: bool = False
    log: Path | None = None
    local: Sequence[int] = ()  # ranks of this host; empty: all of the job's
    starter: Sequence[int] = ()  # those of the process that starts it
    run: str = ""  # what all ranks that one launcher started on this host have in common
    wire: Sequence[str] = ()  # KEY=VALUE, as the node takes them
    metrics_socket: bool = False
    metrics_port: int | None = None  # of 127.0.0.1
    share_batches: bool = True
    cores: Sequence[int] = ()  # where it runs; empty: wherever we may
    joins: bool = False  # it is the host of no rank, and runs loaders for the lead of another
    memory_bytes: int = 0  # what budgets may add up to; 0: nobody has said
    memory_enforced: bool = False  # by the kernel
    reruns: bool = False  # who runs it is run again when it dies, and starts the next node
    lead_returns: bool = False  # the node that it follows is such a one
    apart: bool = False  # in a session of its own

    @property
    def return_seconds(self) -> float:
        """How long ranks wait for the next node when one has died; 0: there is none."""
        # Where one node plans for several hosts its ranks do not start it again.
        return self.recovery_seconds if self.reruns or not self.wire else 0.0

    def words(self) -> list[str]:
        """As arguments of the executable."""
        return [
            f"loader_processes={self.loader_processes}",
            f"constructor_processes={self.constructor_processes}",
            f"attach_ms={round(self.attach_seconds * 1000)}",
            f"stays={int(self.stays)}",
            f"recovery_ms={round(self.recovery_seconds * 1000)}",
            f"orphan_ms={round(self.orphan_seconds * 1000)}",
            *(f"isolate={','.join(names)}" for names in self.isolate),
            f"isolate_by_rule={int(self.isolate_by_rule)}",
            *([f"local={','.join(map(str, self.local))}"] if self.local else []),
            *([f"starter={','.join(map(str, self.starter))}"] if self.starter else []),
            *([f"run={self.run}"] if self.run else []),
            *(["reruns=1"] if self.reruns else []),
            *(["lead_returns=1"] if self.lead_returns else []),
            *(["metrics.socket=1"] if self.metrics_socket else []),
            *([f"metrics.address=127.0.0.1:{self.metrics_port}"] if self.metrics_port else []),
            *([] if self.share_batches else ["share_batches=0"]),
            *([f"memory_bytes={self.memory_bytes}"] if self.memory_bytes else []),
            *(["memory_enforced=1"] if self.memory_enforced else []),
            *self.wire,
        ]


def executable() -> Path:
    """The node's program, beside the engine."""
    path = Path(core.__file__).with_name("overlord-node")
    if not os.access(path, os.X_OK):
        raise core.NotFoundError(
            f"{path} is not there or cannot be run: this installation has no engine for several "
            'processes; use engine="embedded", or install overlord again'
        )
    return path


class NodeFinder(Protocol):
    """Where the node of a job is: what a trainer must know of it before they have spoken."""

    def find(self, attempt: int) -> tuple[str, bool]:
        """Its address, as core.attach() takes it, and whether this call has started it."""


@dataclass(frozen=True)
class GivenNode:
    """A node that somebody else runs."""

    address: str

    def find(self, attempt: int) -> tuple[str, bool]:
        """As it was given."""
        return self.address, False


@dataclass(frozen=True)
class HostNode:
    """The node of this run on this host, found by its directory; the first comer starts it."""

    job: str
    place: str  # what tells its directory from those of other runs on this host
    ranks: Sequence[int]
    make_job: Callable[[], bytes]  # the job file; called by the first comer alone
    plan: NodePlan = field(default_factory=NodePlan)
    base: str = ""  # where directories of jobs are made; empty: the host's usual place

    def find(self, attempt: int) -> tuple[str, bool]:
        """The directory; the node is started where nobody has."""
        executable()  # every rank finds out for itself, before anything is made
        directory = core.SocketDirectory(self.place, self.base)
        started = directory.try_lock()
        if started:
            with started_node(directory, self.job, self.plan, attempt) as node:
                try:
                    job_file = self.make_job()
                except BaseException as error:
                    _send(node, b"F" + self._refusal(error))
                    raise
                _send(node, b"J" + job_file)
        return str(directory.path), started

    def _refusal(self, error: BaseException) -> bytes:
        """What the node tells the other ranks: why this one could not open the stream."""
        ranks = ", ".join(map(str, self.ranks))
        told = str(error) or type(error).__name__
        text = f"rank {ranks}, which opens the sources for this host, failed: {told}"
        return core.refusal(_code_of(error), text)


@dataclass(frozen=True)
class Attachment:
    """A way to the node of one job."""

    job: str  # what all its ranks agree on
    ranks: list[int]
    finder: NodeFinder
    plan: NodePlan = field(default_factory=NodePlan)

    def attach(
        self,
        attempt: int,
        state: bytes | None,
        allow: Sequence[str],
        pinning: core.HostPinning | None = None,
    ) -> core.AttachedEngine:
        """An engine over the node, wherever the finder finds it."""
        deadline = time.monotonic() + self.plan.attach_seconds
        starts = 0
        while True:
            address, started = self.finder.find(attempt)
            starts += started
            engine = core.attach(
                address,
                self.job,
                attempt,
                self.ranks,
                state,
                "mixture" in allow,
                "sources" in allow,
                "batch" in allow,
                list(self.plan.wire),
                connect_s=_CONNECT_SECONDS,
                timeout_s=max(0.0, deadline - time.monotonic()) + _LAST_WORD_SECONDS,
                recovery_s=self.plan.return_seconds,
                pinning=pinning,
            )
            if engine is not None:
                return engine
            # Nobody listens: the one that held the lock has ended, or is about to.
            if starts >= _STARTS_ALLOWED:
                raise core.UnavailableError(
                    f"the node process was started {starts} times and ended each time without a "
                    "word: look for its end in the log of this host"
                )
            if time.monotonic() > deadline:
                raise core.UnavailableError(f"no node answers in {address}")


_CODES = (
    (core.OverlordError, ""),  # their own
    (FileNotFoundError, "NotFoundError"),
    (OSError, "ResourceError"),
    (ValueError, "InvalidArgumentError"),  # ConfigError among them
    (KeyboardInterrupt, "CancelledError"),
    (SystemExit, "CancelledError"),
)


def _code_of(error: BaseException) -> str:
    """The name of the engine's error that says the same as this one."""
    for kind, name in _CODES:
        if isinstance(error, kind):
            return name or type(error).__name__
    return "InternalError"


def _send(node: subprocess.Popen[bytes], message: bytes) -> None:
    """A message to a node that is being started; one that has ended hears nothing."""
    assert node.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        node.stdin.write(struct.pack("<Q", len(message)) + message)
        node.stdin.flush()


@contextlib.contextmanager
def started_node(
    directory: core.SocketDirectory, job: str, plan: NodePlan, attempt: int = 0
) -> Iterator[subprocess.Popen[bytes]]:
    """The node of a directory whose lock is held; it has the lock from then on.

    It waits for the job, or for the reason why there is none, on its standard input.
    """
    command = [
        str(executable()),
        "join" if plan.joins else "keep",
        directory.path,
        str(directory.lock_descriptor),
        job,
        f"attempt={attempt}",
        *plan.words(),
    ]
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, directory)  # where nobody has got it
        log = None if plan.log is None else stack.enter_context(open(plan.log, "ab"))
        stack.enter_context(on_cores(plan.cores))
        try:
            node = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                # Not ours: who reads what a trainer prints waits for its end, not the node's.
                stdout=2 if log is None else log,
                stderr=log,
                pass_fds=[directory.lock_descriptor],
                start_new_session=plan.apart,
            )
        except OSError as error:
            raise core.ResourceError(
                f"cannot run {command[0]}: {error.strerror}; install overlord again, or use "
                'engine="embedded"'
            ) from error
        status = 0 if plan.stays else node.wait()  # only the first process, which steps back
        if status != 0:
            raise core.UnavailableError(f"overlord-node cannot start, it ended with {status}")
        directory.hand_over_lock()
    assert node.stdin is not None
    try:
        yield node
    finally:
        with contextlib.suppress(BrokenPipeError):
            node.stdin.close()


def _remove(directory: core.SocketDirectory) -> None:
    """Nothing is left of a directory whose lock is still held."""
    with contextlib.suppress(OSError, core.OverlordError):
        directory.remove()


def serve_node(
    directory: core.SocketDirectory,
    job: str,
    job_file: bytes,
    plan: NodePlan,
    started: list[subprocess.Popen[bytes]] | None = None,
) -> None:
    """Run the node of a directory whose lock is held until it ends, or this process is to end.

    `started` gets each of its processes.
    """
    deaths: collections.deque[float] = collections.deque(maxlen=_DEATHS_ALLOWED)
    while True:
        with started_node(directory, job, plan) as node:
            if started is not None:
                started.append(node)
            try:
                _send(node, b"J" + job_file)
                _wait(node)
            finally:
                _end(node)
        now = time.monotonic()
        often = len(deaths) == _DEATHS_ALLOWED and now - deaths[0] < _DEATHS_SECONDS
        deaths.append(now)
        if often or not _may_come_back(node, directory, plan):
            break
    if node.returncode != 0:
        raise core.UnavailableError(f"the node process ended with status {node.returncode}")


def _may_come_back(
    node: subprocess.Popen[bytes], directory: core.SocketDirectory, plan: NodePlan
) -> bool:
    """Whether a node was killed, and its directory is ours again with all that it has left."""
    assert node.returncode is not None
    if node.returncode >= 0 or plan.recovery_seconds == 0:
        return False
    deadline = time.monotonic() + plan.recovery_seconds
    while not directory.take_over():  # a rank may be looking whether it is to start it
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _wait(node: subprocess.Popen[bytes]) -> None:
    """Wait for the node. The first process of a container is the parent of all orphans in it."""
    everybody = os.getpid() == 1
    while node.returncode is None:
        pid, status = os.waitpid(-1 if everybody else node.pid, 0)
        if pid == node.pid:
            node.returncode = os.waitstatus_to_exitcode(status)


def _end(node: subprocess.Popen[bytes]) -> None:
    """Ask a node to end, and wait until it has."""
    if node.returncode is not None:
        return
    node.terminate()
    try:
        node.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        node.kill()
        node.wait()
