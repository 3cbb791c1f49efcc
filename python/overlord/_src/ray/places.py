"""The nodes of a Ray cluster: which one has an address, who may reach them, what outlives them."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from typing import Any

from overlord._src.native import core

_STORE_TAG = (b"extra_usage_tag_gcs_storage", b"usage_stats")  # how Ray itself notes it
_WITHOUT_STORE = (
    "the cluster's own state (GCS) is in memory: if its process dies, data flows on until Ray ends "
    "its actors (about 60 s), and the job restarts from its checkpoint; nothing new is placed "
    "meanwhile"
)
SLOW_NOTE = (
    "Ray has its actors stand back behind all other processes, and this user may not undo it: "
    "start the cluster with RAY_worker_niceness=0"
)


def check_authentication() -> None:
    """Who reaches the ports of a cluster runs code in it, and would in our actors.

    Asked of who launches a job and of each of its actors, whose environment is that of their node:
    a driver that has a token says nothing of a cluster that asks for none.
    """
    import ray

    found = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    beyond = sorted(address for address in found if not _is_loopback(address))
    if beyond and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        raise core.InvalidArgumentError(
            f"the Ray cluster listens beyond this host ({', '.join(beyond)}) and has no token "
            f"authentication, as {socket.gethostname()} says: start all of it with "
            "RAY_AUTH_MODE=token (Ray 2.52 or newer)"
        )


def _is_loopback(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False


def _addresses(host: str) -> set[str]:
    try:
        return {str(item[4][0]) for item in socket.getaddrinfo(host, None)} | {host}
    except OSError:
        return {host}


def node_of(address: str) -> str:
    """The id of the node that has the host of HOST:PORT; this one where several have it."""
    import ray

    host = address.rpartition(":")[0].strip("[]")
    wanted = _addresses(host)
    if wanted & {"127.0.0.1", "::1"}:
        wanted.add(ray.util.get_node_ip_address())
    alive = [node for node in ray.nodes() if node["Alive"]]
    found = [
        node["NodeID"]
        for node in alive
        if {node["NodeManagerAddress"], node["NodeManagerHostname"]} & wanted
    ]
    if not found:
        known = sorted({node["NodeManagerAddress"] for node in alive})
        raise core.InvalidArgumentError(
            f"runtime.wire.planner: no node of the Ray cluster has the address {host!r}; they have "
            f"{', '.join(known)}"
        )
    own = ray.get_runtime_context().get_node_id()
    return own if own in found else str(found[0])


def on_node(node: str) -> Any:
    """A scheduling strategy: there or nowhere."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def store_note() -> str:
    """What happens when the process dies that has the cluster's state; empty: it is kept."""
    from ray.experimental.internal_kv import _internal_kv_get

    name, namespace = _STORE_TAG
    return _WITHOUT_STORE if _internal_kv_get(name, namespace=namespace) == b"memory" else ""
