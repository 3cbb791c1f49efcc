"""The actor that holds the node that leads a job: planner and keeper, and loaders of its own.

Ray runs it again where it has died. That is the next term of the same journal: the node died with
the actor, its processes served on, and the next node finds both in the same directory.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

from overlord._src.native import core
from overlord._src.node.limits import counted_cores
from overlord._src.node.watch import ask
from overlord._src.ray.loader_host import ServedNode, Told, end_hosts, start_hosts, statuses
from overlord._src.ray.places import check_authentication

_LOCK_SECONDS = 10.0  # for the node of an actor that died to notice
_LOOK_SECONDS = 0.5  # from look to look for ranks
_CLOCK_SECONDS = 1.0  # by which the clocks of files may be behind
_ANSWER_SECONDS = 2.0  # of the node, to us


@dataclass(frozen=True)
class KeeperRoom:
    """What a keeper may use of the cluster."""

    namespace: str
    cpus: int | None  # None: what runtime.processes.cores_share says
    loader_hosts: int
    loader_cpus: int


class LeadingNode:
    """The node that leads, in the directory where ranks of its host look for it."""

    def __init__(self, told: Told, cpus: int | None, *, again: bool) -> None:
        job = told.job()
        # Ray ends what is in the session of an actor with it; role processes are to serve on.
        plan = replace(job.leading_plan(told.stream), apart=True)
        if cpus is not None:
            plan = replace(plan, cores=counted_cores(cpus))
        job_file = job.served_file(told.stream, job.readers, told.hash)
        key = job.agreed_key(told.stream, told.hash)
        place = job.keeper_place(told.stream, told.hash)
        self.directory = core.SocketDirectory.at(place.path)
        self._lock(keep_what_is_left=again and plan.return_seconds > 0)
        place.open_door()
        self.node = ServedNode(self.directory, key, job_file, plan)

    def _lock(self, *, keep_what_is_left: bool) -> None:
        """Wait for the end of the node before: it belongs to the actor that has died."""
        directory = self.directory
        take = directory.take_over if keep_what_is_left else directory.try_lock
        deadline = time.monotonic() + _LOCK_SECONDS
        while not take():
            if time.monotonic() > deadline:
                raise core.UnavailableError(f"{directory.path}: a node serves there already")
            time.sleep(0.02)


class Keeper:
    """What the actor runs."""

    def __init__(self, told: Told, room: KeeperRoom) -> None:
        import ray

        check_authentication()
        job = told.job()
        again = bool(ray.get_runtime_context().was_current_actor_reconstructed)
        leading = LeadingNode(told, room.cpus, again=again)
        self._directory, self._node = leading.directory, leading.node
        lead = job.config.runtime.wire.lead
        assert lead is not None
        self._loaders = start_hosts(
            told,
            lead,
            hosts=room.loader_hosts,
            cpus=room.loader_cpus,
            name=f"loaders-{told.stream}-{os.getpid()}",
            namespace=room.namespace,
        )
        processes = job.config.runtime.processes
        self._orphan_seconds = processes.orphan_seconds
        first = self._orphan_seconds if again else processes.attach_seconds
        self._me = ray.get_runtime_context().current_actor
        threading.Thread(target=self._end_unused, args=(first,), daemon=True).start()

    def ready(self, seconds: float) -> str:
        """Why it does not lead; empty: it does, and ranks may come."""
        deadline = time.monotonic() + seconds
        while self._node.serves() and time.monotonic() < deadline:
            if self._look() is not None:
                return ""
            time.sleep(0.02)
        return self._node.error or "its node does not answer"

    def _look(self) -> dict[str, Any] | None:
        with contextlib.suppress(core.OverlordError):
            return ask(self._directory.path, _ANSWER_SECONDS)
        return None

    def status(self) -> dict[str, Any]:
        """Where it is, what its node does, and the hosts that it has asked for."""
        import ray

        seen = self._look() or {}
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "directory": self._directory.path,
            "niceness": self._node.niceness,
            "serves": self._node.serves(),
            "error": self._node.error,
            "node": ray.get_runtime_context().get_node_id(),
            "leader": seen.get("pid"),
            "term": seen.get("term"),
            "attached": _attached(seen),
            "loaders": statuses(self._loaders, _ANSWER_SECONDS),
        }

    def end(self) -> None:
        """End the node in good order; its ranks are told, and nothing is left."""
        self._node.end()
        end_hosts(self._loaders)

    def _end_unused(self, seconds: float) -> None:
        """End all of it when no rank is there for so long, and later for `orphan_seconds`."""
        import ray

        born, since = time.time(), time.monotonic()
        while time.monotonic() - since < seconds:
            seen = self._look() or {}
            if _attached(seen):
                since = time.monotonic()
            if _begun(seen, born):  # ranks may come and go between two looks
                seconds = self._orphan_seconds
            time.sleep(_LOOK_SECONDS)
        self.end()
        ray.kill(self._me, no_restart=True)


def _begun(seen: dict[str, Any], born: float) -> bool:
    """Whether a run has been served since then: its journal is begun with it."""
    with contextlib.suppress(OSError, KeyError):
        return os.stat(seen["journal"]).st_mtime > born - _CLOCK_SECONDS
    return False


def _attached(seen: dict[str, Any]) -> int:
    """How many trainers, and nodes of other trainers' hosts, a node has."""
    names = [item["name"] for item in seen.get("processes", [])]
    return sum(name.startswith(("rank-", "host-")) for name in names)
