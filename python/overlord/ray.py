"""Jobs on a Ray cluster: Ray finds room and names who has it, the rest is ours.

`launch` places the keeper of a job, which leads it, and hosts that run its loaders; trainers read
with `engine="ray"` and need not know Ray. No byte of data goes through it, and no secret.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlord._src.config.streams import TRAIN
from overlord._src.errors import refused
from overlord._src.mesh import Mesh
from overlord._src.native import core
from overlord._src.ray.keeper import Keeper, KeeperRoom
from overlord._src.ray.loader_host import Told, end_hosts, start_hosts, statuses
from overlord._src.ray.places import SLOW_NOTE, check_authentication, node_of, on_node, store_note

__all__ = ["Launched", "LoaderHosts", "launch", "loader_hosts"]

_CALLS = itertools.count()  # of loader_hosts(), by this process: hosts come and go


@dataclass(frozen=True)
class LoaderHosts:
    """Hosts that run loaders for a job, until close() or the end of who asked for them."""

    actors: list[Any]

    def status(self, seconds: float = 60.0) -> list[dict[str, Any]]:
        """Of each: `host`, `node` (of Ray), `pid`, `serves`, `error`; of a dead one only that."""
        return statuses(self.actors, seconds)

    def close(self) -> None:
        """Hand their loaders back to the other hosts of the job."""
        end_hosts(self.actors)


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

    For a job that trainers lead themselves (`engine="processes"`). `lead` is its
    `runtime.wire.planner` unless given. An actor that dies is not started again: the job goes on
    with the hosts that are left. Call `ray.init` first.
    """
    told = _told(config, mesh, stream, hash)
    job = told.job()
    lead = lead or job.config.runtime.wire.lead
    if lead is None or not job.config.runtime.wire.joinable:
        raise job.loaded.refused(
            ("runtime", "wire", "joinable"),
            "hosts of a cluster join over the wire",
            advice="set runtime.wire.planner to HOST:PORT of rank 0's host, and joinable: true",
        )
    _check_counts("loader_hosts", cpus=cpus, hosts=hosts)
    check_authentication()
    name = f"loaders-{stream}-{os.getpid()}-call-{next(_CALLS)}"
    where = {"name": name, "namespace": _namespace(job.config.job)}
    return LoaderHosts(start_hosts(told, lead, hosts=hosts, cpus=cpus, **where))


@dataclass(frozen=True)
class Launched:
    """A job under Ray: its keeper, which outlives who has launched it."""

    address: str  # of the node that leads: the config's runtime.wire.planner
    namespace: str  # of the job's actors
    keeper: Any  # the actor

    def status(self, seconds: float = 60.0) -> dict[str, Any]:
        """The keeper's: `host`, `node` (of Ray), `pid`, `leader` (the pid of the node that leads),
        `directory`, `term`, `niceness`, `serves`, `error`, `attached`, `loaders` (as
        `LoaderHosts.status`); and `note`: what the cluster cannot bear, or slows down."""
        import ray

        told: dict[str, Any] = ray.get(self.keeper.status.remote(), timeout=seconds)
        slow = SLOW_NOTE if told["niceness"] > 0 else ""
        return {**told, "note": "; ".join(note for note in (store_note(), slow) if note)}

    def close(self, seconds: float = 60.0) -> None:
        """End the job: ranks that still read are told."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError):  # it is gone already, or will be
            ray.get(self.keeper.end.remote(), timeout=seconds)
        ray.kill(self.keeper, no_restart=True)


def launch(
    config: str | Path,
    *,
    mesh: Mesh,
    cpus: int | None = None,
    loader_hosts: int = 0,
    loader_cpus: int = 1,
    stream: str = TRAIN,
    hash: bool = False,
    seconds: float = 120.0,
) -> Launched:
    """Place the keeper of a job on the node of the cluster that `runtime.wire.planner` names.

    Ranks whose trainers find themselves on that node's host share memory with it; others follow it
    over the wire. `cpus` are its cores (without: 1 is reserved, and `runtime.processes.cores_share`
    holds); `loader_hosts` nodes give `loader_cpus` each to loaders.
    The keeper is detached and run again by Ray; it ends when no rank has been there for
    `runtime.processes.attach_seconds`, or again for `orphan_seconds`. Call `ray.init` first;
    returns when trainers may come, after `seconds` at most.
    """
    import ray

    told = _told(config, mesh, stream, hash)
    job = told.job()
    job.check_under_ray()
    job.check_attachable(stream, range(mesh.world_size))
    _check_counts("launch", cpus=cpus or 1, loader_cpus=loader_cpus, loader_hosts=loader_hosts + 1)
    check_authentication()
    address = job.lead_of(stream)
    room = KeeperRoom(
        _namespace(job.config.job),
        cpus,
        loader_hosts=loader_hosts,
        loader_cpus=loader_cpus,
    )
    actor = ray.remote(num_cpus=cpus or 1, max_restarts=-1, max_task_retries=0)(Keeper)
    placed = actor.options(
        name=f"keeper-{stream}",
        namespace=room.namespace,
        lifetime="detached",
        scheduling_strategy=on_node(node_of(address)),
        max_concurrency=4,  # a status is told while another call waits
    )
    try:
        keeper = placed.remote(told, room)
    except ValueError as taken:
        raise core.InvalidArgumentError(
            f"job {job.config.job!r} has a keeper in this cluster already: end it first "
            f"(ray.kill of the actor keeper-{stream} in the namespace {room.namespace}), or name "
            f"the job otherwise ({taken})"
        ) from None
    launched = Launched(address, room.namespace, keeper)
    try:
        why = ray.get(keeper.ready.remote(seconds), timeout=seconds)
    except ray.exceptions.GetTimeoutError:
        why = f"no answer in {seconds:g} s; has the node at {address} room for {cpus or 1} CPU?"
    except ray.exceptions.RayError as error:
        why = str(error)
    if why:
        launched.close()
        raise core.UnavailableError(f"the keeper of job {job.config.job!r} cannot lead: {why}")
    return launched


def _namespace(job: str) -> str:
    """Of all actors of a job."""
    return f"overlord-{job}"


def _told(config: str | Path, mesh: Mesh, stream: str, hash: bool) -> Told:
    if not isinstance(config, str | Path):
        raise refused(
            ("config",),
            "actors read the job from a file, so that nothing of it lies in the cluster's state",
            type(config).__name__,
            "a path that all nodes see",
        )
    return Told(str(Path(config).absolute()), mesh, stream, hash)


def _check_counts(call: str, **counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise refused((call, name), "asks for nothing", count, "1 or more")
