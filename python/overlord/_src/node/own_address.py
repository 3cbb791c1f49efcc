"""Which of the addresses of a list are of this host."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from overlord._src.errors import refused


def _is_here(address: str) -> bool:
    """Whether a process of this host could listen there."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, place in found:
        with socket.socket(family, kind, protocol) as tried:
            try:
                tried.bind(place)
            except OSError:
                continue
            return True
    return False


def own_address(addresses: Sequence[str], given: str | None) -> str:
    """The one of these at which this host leads."""
    shown = ", ".join(addresses)
    if given is not None:
        if given not in addresses:
            raise refused(("--at",), "is not of runtime.wire.planner", given, shown)
        return given
    here = [address for address in addresses if _is_here(address)]
    if len(here) == 1:
        return here[0]
    if not here:
        raise refused(
            ("runtime", "wire", "planner"),
            "none of its addresses is of this host, which so cannot lead",
            shown,
            advice="name one that this host has, give --at, or join with --join",
        )
    raise refused(("--at",), "several addresses are of this host", ", ".join(here), "one of them")
