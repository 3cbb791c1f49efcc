"""The actor that holds a host without ranks: it joins a job and runs loaders for its lead."""

from __future__ import annotations

import contextlib
import glob
import os
import socket
import subprocess
import threading
from dataclasses import dataclass, replace
from typing import Any

from overlord._src.config.reading import read_config
from overlord._src.functions.mix_rule import rule_of_trainers
from overlord._src.job.job import Job
from overlord._src.lowering.strategy import functions_of_trainers
from overlord._src.mesh import Mesh
from overlord._src.native import core
from overlord._src.node.limits import counted_cores
from overlord._src.node.process import NodePlan, serve_node
from overlord._src.ray.places import check_authentication

_END_SECONDS = 20.0  # of a node that is told to


@dataclass(frozen=True)
class Told:
    """What all actors of a job are told alike: references, no secret."""

    config: str  # a path that all of them see
    mesh: Mesh
    stream: str
    hash: bool

    def job(self) -> Job:
        """The job, as this host reads it."""
        loaded = read_config(self.config)
        functions = functions_of_trainers(loaded.config.strategy)
        return Job(loaded, self.mesh, rule_of_trainers(loaded), functions)


class ServedNode:
    """A node that a thread of this process runs, until it ends or this process does."""

    def __init__(
        self, directory: core.SocketDirectory, key: str, job_file: bytes, plan: NodePlan
    ) -> None:
        self.error = ""
        self.niceness = 0  # of the node
        self._started: list[subprocess.Popen[bytes]] = []  # one after another

        def serve() -> None:
            # Ray has its workers stand back behind all others (15); a trainer waits for these.
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, 0, 0)  # of this thread, and what it starts
            self.niceness = os.getpriority(os.PRIO_PROCESS, 0)
            try:
                serve_node(directory, key, job_file, plan, self._started)
            except Exception as error:
                self.error = str(error)

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()

    def serves(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def end(self) -> None:
        """In good order: whom it serves is told, and nothing is left."""
        for node in self._started[-1:]:
            node.terminate()
        self._thread.join(_END_SECONDS)


class LoaderHost:
    """What an actor runs. When its process dies the loaders of the host end with it."""

    def __init__(self, told: Told, lead: str, cpus: int, number: int) -> None:
        import ray

        check_authentication()
        job = told.job()
        plan = job.joining_plan(told.stream, lead, ray.util.get_node_ip_address())
        plan = replace(plan, cores=counted_cores(cpus, number), apart=True)
        ranks = job.readers
        job_file = job.served_file(told.stream, ranks, told.hash, may_lack=True)
        key = job.agreed_key(told.stream, told.hash)
        base = job.config.runtime.processes.directory
        self._places = str((job.loaded.base / (base or "/tmp")) / f"overlord-{os.geteuid()}-j{key}")
        _remove_dead(self._places)
        directory = core.SocketDirectory.at(f"{self._places}-{os.getpid()}")
        directory.try_lock()
        self._node = ServedNode(directory, key, job_file, plan)

    def status(self) -> dict[str, Any]:
        """Where it is, and why it has ended if it has."""
        import ray

        return {
            "host": socket.gethostname(),
            "node": ray.get_runtime_context().get_node_id(),
            "pid": os.getpid(),
            "niceness": self._node.niceness,
            "serves": self._node.serves(),
            "error": self._node.error,
        }

    def end(self) -> None:
        """End its node in good order: Ray would kill it, and it could not clear up."""
        self._node.end()
        _remove_dead(self._places)


def _remove_dead(places: str) -> None:
    """What hosts of this job have left on this machine that were killed."""
    for path in glob.glob(f"{glob.escape(places)}-*"):
        with contextlib.suppress(core.OverlordError):
            directory = core.SocketDirectory.at(path)
            if directory.try_lock():
                directory.remove()


def end_hosts(actors: list[Any], seconds: float = _END_SECONDS) -> None:
    """Hand their loaders back to the other hosts of the job; no process or file is left."""
    import ray

    ray.wait([actor.end.remote() for actor in actors], num_returns=len(actors), timeout=seconds)
    for actor in actors:
        ray.kill(actor)


def start_hosts(
    told: Told, lead: str, *, hosts: int, cpus: int, name: str, **options: Any
) -> list[Any]:
    """So many actors, spread over the cluster. They end with the process that calls this."""
    import ray

    # Ray starts nothing of ours again: by then the lead has placed everything elsewhere.
    actor = ray.remote(num_cpus=cpus, max_restarts=0, max_task_retries=0)(LoaderHost)
    return [
        actor.options(name=f"{name}-{number}", scheduling_strategy="SPREAD", **options).remote(
            told,
            lead,
            cpus,
            number + 1,  # the lead's host may be one of theirs
        )
        for number in range(hosts)
    ]


def statuses(actors: list[Any], seconds: float) -> list[dict[str, Any]]:
    """Of each: `host`, `node`, `pid`, `serves`, `error`; only `error` of one that died or waits."""
    import ray

    asked = [actor.status.remote() for actor in actors]
    done, _ = ray.wait(asked, num_returns=len(asked), timeout=seconds) if asked else ([], [])
    out = []
    for answer in asked:
        if answer not in done:
            out.append(
                {"serves": False, "error": "no answer yet: it starts, or the cluster has no room"}
            )
            continue
        try:
            out.append(ray.get(answer))
        except ray.exceptions.RayError as error:
            out.append({"serves": False, "error": str(error)})
    return out
