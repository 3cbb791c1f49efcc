"""Hosts of a Ray cluster that run loaders: Ray finds room and names who has it, the rest is ours.

An actor holds a host that has joined (`overlord serve --join`): the lead starts groups of loaders
there and supervises them, and no byte of data goes through Ray. Trainers need not know Ray.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from overlord._src.config.streams import TRAIN
from overlord._src.errors import refused
from overlord._src.mesh import Mesh
from overlord._src.native import core

__all__ = ["LoaderHosts", "loader_hosts"]


@dataclass(frozen=True)
class _Told:
    """What all hosts of a job are told alike."""

    mesh: Mesh
    cpus: int
    stream: str
    hash: bool


def _own_cores(cpus: int, number: int) -> tuple[int, ...]:
    """So many cores of this machine, others for each host on it as far as there are any."""
    usable = sorted(os.sched_getaffinity(0))
    return tuple(sorted({usable[(number * cpus + i) % len(usable)] for i in range(cpus)}))


class _Host:
    """What an actor runs. When its process dies the loaders of the host end with it."""

    def __init__(self, config: str, lead: str, told: _Told, number: int) -> None:
        import ray

        from overlord._src.job.job import job as open_job
        from overlord._src.node.process import serve_node

        job = open_job(config, told.mesh)
        plan = job.joining_plan(lead, ray.util.get_node_ip_address())
        plan = replace(plan, cores=_own_cores(told.cpus, number))
        job_file = job.served_file(told.stream, range(told.mesh.world_size), told.hash)
        key = job.agreed_key(told.stream, told.hash)
        place = hashlib.blake2b(f"{key} joined {os.getpid()}".encode(), digest_size=16).hexdigest()
        base = job.config.runtime.processes.directory or ""
        directory = core.SocketDirectory(place, str(base))
        directory.try_lock()
        self._error = ""

        def serve() -> None:
            try:
                serve_node(directory, key, job_file, plan)
            except Exception as error:
                self._error = str(error)

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()

    def status(self) -> dict[str, Any]:
        """Where it is, and why it has ended if it has."""
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "serves": self._thread.is_alive(),
            "error": self._error,
        }


@dataclass(frozen=True)
class LoaderHosts:
    """Hosts that run loaders for a job, until close() or the end of who asked for them."""

    actors: list[Any]

    def status(self, seconds: float = 60.0) -> list[dict[str, Any]]:
        """Of each: `host`, `pid`, `serves`, `error`; one that died has only an `error`."""
        import ray

        out = []
        for actor in self.actors:
            try:
                out.append(ray.get(actor.status.remote(), timeout=seconds))
            except ray.exceptions.RayError as error:
                out.append({"serves": False, "error": str(error)})
        return out

    def close(self) -> None:
        """Hand their loaders back to the other hosts of the job."""
        import ray

        for actor in self.actors:
            ray.kill(actor)


def loader_hosts(
    config: str | Path,
    *,
    mesh: Mesh,
    cpus: int,
    hosts: int = 1,
    lead: str | None = None,
    stream: str = TRAIN,
    hash: bool = False,
) -> LoaderHosts:
    """Reserve `cpus` on each of `hosts` nodes of the cluster and run loaders of a job there.

    `lead` is its `runtime.wire.planner` unless given. An actor that dies is not started again: the
    job goes on with the hosts that are left. Call `ray.init` first.
    """
    import ray

    from overlord._src.job.job import job as open_job

    job = open_job(str(config), mesh)
    lead = lead or job.config.runtime.wire.planner
    if lead is None or not job.config.runtime.wire.joinable:
        raise job.loaded.refused(
            ("runtime", "wire", "joinable"),
            "hosts of a cluster join over the wire",
            advice="set runtime.wire.planner to HOST:PORT of rank 0's host, and joinable: true",
        )
    if cpus < 1 or hosts < 1:
        raise refused(("loader_hosts",), "asks for nothing", (cpus, hosts), "1 or more of each")
    _check_authentication()
    # Ray starts nothing of ours again: by then the lead has placed everything elsewhere.
    actor = ray.remote(num_cpus=cpus, max_restarts=0, max_task_retries=0)(_Host)
    path, told = str(Path(config).resolve()), _Told(mesh, cpus, stream, hash)
    made = [
        actor.options(
            name=f"overlord-{job.config.job}-loaders-{number}-{os.getpid()}",
            scheduling_strategy="SPREAD",
        ).remote(path, lead, told, number)
        for number in range(hosts)
    ]
    return LoaderHosts(made)


def _check_authentication() -> None:
    """Who reaches the ports of a cluster runs code in it, and would in our actors."""
    import ray

    here = {"127.0.0.1", "::1", ray.util.get_node_ip_address()}
    others = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]} - here
    if others and os.environ.get("RAY_AUTH_MODE") != "token":
        raise core.InvalidArgumentError(
            f"the Ray cluster has other hosts ({', '.join(sorted(others))}) and no token "
            "authentication: start it with RAY_AUTH_MODE=token"
        )
