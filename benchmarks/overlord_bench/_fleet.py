"""A fleet: the trainers of one host as processes, brought to rest, and the memory of all of them.

Counted is PSS: a page that several processes map counts once, shared among them. That of the
trainers, of everything they started, and of everything that serves their job.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PROGRAM = "overlord_bench._contenders.held_loader"
_PATIENCE_S = 600.0
_REST_S = 2.0  # what runs ahead of the trainers comes to rest
_KEPT_FREE = 3 << 29  # bytes: a fleet that wants more than the machine has is ended before
READY = "ready"


@dataclass
class Footprint:
    """Memory of a fleet, in bytes."""

    pss: int = 0
    processes: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)  # kind of process: bytes
    by_mapping: dict[str, dict[str, int]] = field(default_factory=dict)  # and of what in it


class FleetError(Exception):
    """A trainer did not come up."""


def measure(
    python: str, path: str, work: Mapping[str, Any], ranks: int, *, detail: bool = False
) -> Footprint:
    """Start all ranks, wait until each of them rests, add up, end them."""
    with (
        tempfile.TemporaryDirectory(prefix="ol-fleet-", dir=_short_folder()) as folder,
        _started(python, path, {**work, "directory": folder}, ranks) as trainers,
    ):
        _wait_for_all(trainers, Path(folder) / "errors")
        time.sleep(_REST_S)
        roots = {trainer.pid for trainer in trainers}
        return add_up(roots, folder, detail)


def _short_folder() -> str | None:
    """A folder whose sockets' paths are short enough."""
    return "/tmp" if Path("/tmp").is_dir() else None


@contextlib.contextmanager
def _started(
    python: str, path: str, work: Mapping[str, Any], ranks: int
) -> Iterator[list[subprocess.Popen[str]]]:
    trainers = []
    errors = open(Path(work["directory"]) / "errors", "wb")  # noqa: SIM115
    try:
        for rank in range(ranks):
            environment = {
                **os.environ,
                "PYTHONPATH": path,
                "TOKENIZERS_PARALLELISM": "false",
                "OMP_NUM_THREADS": "1",
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "LOCAL_WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": "29500",
                "TORCHELASTIC_RUN_ID": "fleet",
            }
            trainers.append(
                subprocess.Popen(
                    [python, "-m", _PROGRAM, json.dumps(dict(work))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                    text=True,
                    start_new_session=True,
                )
            )
        yield trainers
    finally:
        for trainer in trainers:
            with contextlib.suppress(OSError):  # the rank and whatever it has started
                os.killpg(trainer.pid, signal.SIGKILL)
        for trainer in trainers:
            trainer.wait()
        errors.close()
        wait_until_served_by_none(work["directory"])


def wait_until_served_by_none(folder: str) -> None:
    """The node of a job ends with its last rank; only then may its directory go."""
    deadline = time.monotonic() + 10.0
    while members(set(), folder) and time.monotonic() < deadline:
        time.sleep(0.05)


def _wait_for_all(trainers: list[subprocess.Popen[str]], errors: Path) -> None:
    """Until every rank has said that it rests."""
    said: dict[int, str] = {}

    def listen(rank: int) -> None:
        stream = trainers[rank].stdout
        assert stream is not None
        for line in stream:
            if line.startswith((READY, "missing ", "failed ")):
                said[rank] = line.strip()
                return

    listeners = [
        threading.Thread(target=listen, args=(n,), daemon=True) for n in range(len(trainers))
    ]
    for listener in listeners:
        listener.start()
    deadline = time.monotonic() + _PATIENCE_S
    for rank, listener in enumerate(listeners):
        while listener.is_alive() and time.monotonic() < deadline:
            listener.join(0.2)
            if (left := _available()) < _KEPT_FREE:
                raise FleetError(f"failed the machine has only {left >> 20} MiB left")
        if said.get(rank) != READY:
            last = errors.read_text(errors="replace").strip().splitlines()
            why = last[-1] if last else "it said nothing"
            raise FleetError(said.get(rank) or f"rank {rank} did not come to rest: {why}")


def _available() -> int:
    """Memory that the machine can still give."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 1 << 62


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found[int(entry.name)] = int(fields[1])
    return found


def members(roots: set[int], folder: str) -> dict[int, str]:
    """The kind of every process of the fleet, by pid."""
    parents, found = _parents(), dict.fromkeys(roots, "trainer")
    _add_children(found, parents, "worker")
    for pid in set(parents) - set(found) - {os.getpid()}:  # who asks may have been told the folder
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if any(folder.encode() in word for word in words[1:]):
                name = words[0].decode(errors="replace")
                known = ("loaders", "constructors")
                found[pid] = next((kind for kind in known if kind in name), "node")
    _add_children(found, parents, "serving")
    return found


def cpu_seconds(pid: int) -> float:
    """CPU seconds of all threads of a process, as the scheduler counts them."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


def _add_children(members: dict[int, str], parents: dict[int, int], kind: str) -> None:
    """And whatever these processes have started."""
    grown = True
    while grown:
        more = [pid for pid, up in parents.items() if up in members and pid not in members]
        members.update(dict.fromkeys(more, kind))
        grown = bool(more)


def add_up(roots: set[int], folder: str, detail: bool = False) -> Footprint:
    """Memory of these trainers, of what they started, and of what serves the job in that folder."""
    total = Footprint()
    for pid, kind in members(roots, folder).items():
        with contextlib.suppress(OSError):
            pss = _rollup(pid)
            total.pss += pss
            total.processes += 1
            total.by_kind[kind] = total.by_kind.get(kind, 0) + pss
            if detail:
                mappings = total.by_mapping.setdefault(kind, {})
                for name, size in _mappings(pid).items():
                    mappings[name] = mappings.get(name, 0) + size
    return total


def _rollup(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _mappings(pid: int) -> dict[str, int]:
    """PSS of a process by what is mapped: shared pools, heaps, stacks, indexes, code."""
    found: dict[str, int] = {}
    name = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if "-" in words[0] and not words[0].endswith(":"):
            name = _mapping_kind(words[5] if len(words) > 5 else "")
        elif words[0] == "Pss:":
            found[name] = found.get(name, 0) + int(words[1]) * 1024
    return found


def _mapping_kind(path: str) -> str:
    if path.startswith("/memfd:overlord"):
        return "shared pool of " + path.removeprefix("/memfd:overlord-").split("-")[0]
    if path.startswith("/memfd") or "/dev/shm" in path:
        return "shared memory"
    if path == "[heap]":
        return "heap"
    if path.startswith("[") or not path:
        return "anonymous"
    if ".so" in path or "/bin/" in path or path.endswith("overlord-node"):
        return "code"
    return "files"
