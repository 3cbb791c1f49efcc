"""What goes wrong around a job: processes die, stop and get no memory, and disks fill."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from survivors import pause
from trainers import in_time

DISK_SIZE = "4m"  # the journal of a run, and those of some runs before it


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def kill(pids: list[int]) -> int:
    killed = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def stop(pids: list[int], seconds: float) -> int:
    """Stop processes, and wake those that are left after a time."""
    stopped = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(map(lives, stopped)):
        pause(0.01)
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return len(stopped)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk that is full soon; an OSError where nothing may be mounted."""
    folder.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", str(folder)]
    told = subprocess.run(made, capture_output=True, text=True)
    if told.returncode != 0:
        raise PermissionError(told.stderr.strip())
    try:
        yield folder
    finally:  # also where a test has failed and its processes write on
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def filling(disk: Path) -> Iterator[Path]:
    """A file that takes all space there is, by `fill`, and gives it back at the end."""
    filler = disk / "filler"
    try:
        yield filler
    finally:
        filler.unlink(missing_ok=True)


def fill(filler: Path) -> None:
    """Once is not always enough: a journal that is compacted meanwhile leaves space behind."""
    with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


class MemoryGroup:
    """A control group whose processes may get little more memory than they have.

    What they had before they came is not counted. It lies below the group of this process, or
    beside it where groups with processes have no others below (version 2).
    """

    def __init__(self) -> None:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        groups = dict(line.split(":", 2)[1:] for line in lines)
        if "memory" in groups:
            self.home = Path(f"/sys/fs/cgroup/memory{groups['memory']}")
            within, self._limit, self._events = self.home, "limit_in_bytes", "oom_control"
        else:
            self.home = Path(f"/sys/fs/cgroup{groups['']}")
            within = self.home if groups[""] == "/" else self.home.parent
            self._limit, self._events = "max", "events"
        self.folder = within / f"overlord-chaos-{os.getpid()}-{time.monotonic_ns()}"

    def __enter__(self) -> MemoryGroup:
        self.folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        in_time(self._removed, "the group is empty")

    def limit(self, size_bytes: int) -> None:
        (self.folder / f"memory.{self._limit}").write_text(str(size_bytes))

    def take(self, pid: int) -> None:
        _move(pid, self.folder)

    def killed(self) -> int:
        """How many processes the kernel has killed here."""
        events = (self.folder / f"memory.{self._events}").read_text()
        return int(re.findall(r"oom_kill (\d+)", events)[0])

    def _removed(self) -> bool:
        for pid in (self.folder / "cgroup.procs").read_text().split():
            _move(int(pid), self.home)
        with contextlib.suppress(OSError):  # somebody is about to end
            self.folder.rmdir()
        return not self.folder.exists()


def _move(pid: int, group: Path) -> None:
    with contextlib.suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(pid))


def starve(pids: list[int], size_bytes: int, seconds: float) -> int:
    """Leave processes so much more memory; how many of them were killed within a time."""
    with MemoryGroup() as group:
        group.limit(size_bytes)
        for pid in pids:
            group.take(pid)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and all(map(lives, pids)):
            pause(0.01)
        return group.killed()


_GROWS = "import sys; sys.stdin.readline(); b'.' * (64 << 20)"


@functools.cache
def why_nobody_starves() -> str:
    """Why this machine lets processes grow, whatever a group says; nothing: it does not."""
    grows = subprocess.Popen([sys.executable, "-c", _GROWS], stdin=subprocess.PIPE)
    try:
        with MemoryGroup() as group:
            group.limit(8 << 20)
            group.take(grows.pid)
            grows.communicate(b"\n")
            return "" if group.killed() else "the limit of a control group is not held to"
    except (OSError, KeyError, IndexError) as error:
        return f"no control group for memory: {error}"
    finally:
        grows.kill()
        grows.wait()
