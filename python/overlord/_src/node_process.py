"""The node process of this host: found where it runs, started where it does not."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from overlord._src.native import core
from overlord._src.node_limits import on_cores

_CONNECT_SECONDS = 2.0  # to a node that is there, before we look again whether it is
_START_SECONDS = 120.0  # for a node to open its sources and its door


@dataclass(frozen=True)
class NodePlan:
    """What a node of this job is started with, besides the job itself."""

    loader_processes: int = 1
    constructor_processes: int = 1
    isolate: Sequence[str] = ()
    attach_seconds: float = 300.0
    stays: bool = False
    log: Path | None = None
    local: Sequence[int] = ()  # ranks of this host, where the job's are on several
    wire: Sequence[str] = ()  # KEY=VALUE, as the node takes them
    metrics_socket: bool = False
    metrics_port: int | None = None  # of 127.0.0.1
    share_batches: bool = True
    cores: Sequence[int] = ()  # where it runs; empty: wherever we may

    def words(self) -> list[str]:
        """As arguments of the executable."""
        return [
            f"loader_processes={self.loader_processes}",
            f"constructor_processes={self.constructor_processes}",
            f"attach_ms={round(self.attach_seconds * 1000)}",
            f"stays={int(self.stays)}",
            *(f"isolate={name}" for name in self.isolate),
            *([f"local={','.join(map(str, self.local))}"] if self.local else []),
            *(["metrics.socket=1"] if self.metrics_socket else []),
            *([f"metrics.address=127.0.0.1:{self.metrics_port}"] if self.metrics_port else []),
            *([] if self.share_batches else ["share_batches=0"]),
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


@dataclass
class Attachment:
    """A way to the node of one job on this host."""

    job: str  # what all its ranks agree on
    place: str  # what tells its directory from those of other runs on this host
    ranks: list[int]
    make_job: Callable[[], bytes]  # the job file; called by the first comer alone
    plan: NodePlan = field(default_factory=NodePlan)
    base: str = ""  # where directories of jobs are made; empty: the host's usual place
    path: str = ""  # of a node that somebody else runs

    def of_reading(self, number: int) -> Attachment:
        """The same for a stream that is read again: a node of its own, as ranks end one by one.

        A node that somebody else runs, or that plans for other hosts at a fixed address, is one for
        all readings: there a rank that reads again ends those that still read.
        """
        if number == 0 or self.path or self.plan.wire:
            return self
        key = f"{self.place} reading {number}".encode()
        return replace(self, place=hashlib.blake2b(key, digest_size=16).hexdigest())

    def attach(
        self, attempt: int, state: bytes | None, allow: Sequence[str], pinning: Any = None
    ) -> Any:
        """An engine over the node of this host; starts the node where nobody has."""
        deadline = time.monotonic() + self.plan.attach_seconds
        while True:
            path = self.path or self._own_node()
            try:
                return core.attach(
                    path,
                    self.job,
                    attempt,
                    self.ranks,
                    state,
                    "mixture" in allow,
                    "sources" in allow,
                    list(self.plan.wire),
                    connect_s=_CONNECT_SECONDS,
                    timeout_s=max(0.0, deadline - time.monotonic()),
                    pinning=pinning,
                )
            except core.UnavailableError:
                # Nobody listens: the one that held the lock has ended, or is about to.
                if time.monotonic() > deadline:
                    raise

    def _own_node(self) -> str:
        """The directory of this run's node, which is started where nobody has."""
        directory = core.SocketDirectory(self.place, self.base)
        if directory.try_lock():
            launch_node(directory, self.job, self.make_job(), self.plan)
        return str(directory.path)


def launch_node(directory: Any, job: str, job_file: bytes, plan: NodePlan) -> None:
    """Start the node of a directory whose lock is held; the node has it from then on.

    Returns when the node stands on its own, or has ended where it stays in the foreground.
    """
    path = Path(directory.path) / "job"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(job_file)
    command = [
        str(executable()),
        "keep",
        str(path),
        directory.path,
        str(directory.lock_descriptor),
        job,
        *plan.words(),
    ]
    log = None if plan.log is None else open(plan.log, "ab")  # noqa: SIM115
    try:
        with on_cores(plan.cores):
            node = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[directory.lock_descriptor],
            )
        try:
            status = node.wait(None if plan.stays else _START_SECONDS)
        finally:
            node.kill()
            node.wait()
        if status != 0:
            raise core.UnavailableError(f"the node process ended with status {status}")
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    finally:
        directory.hand_over_lock()
        if log is not None:
            log.close()


__all__ = ["Attachment", "NodePlan", "executable", "launch_node"]
