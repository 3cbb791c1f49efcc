"""What a config says of hosts that may lead a job, checked before any file is touched."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from overlord._src.config.job_models import JobFields
from overlord._src.config.streams import stream_names
from overlord._src.errors import Problem

_ADDRESS = re.compile(r"(\[[^\[\],\s]+\]|[^\[\]:,\s]+):(\d{1,5})")
_PLANNER = ("runtime", "wire", "planner")
_LAST_PORT = 65535


def addresses_of_stream(addresses: str, number: int) -> str:
    """Where the so many-th stream of a job is led, of which these are the addresses, with commas
    between: each stream has a node of its own, at the next port."""

    def moved(address: str) -> str:
        host, _, port = address.rpartition(":")
        return f"{host}:{int(port) + number}" if port.isdigit() else address

    return ",".join(moved(address) for address in addresses.split(","))


def wire_problems(config: JobFields) -> Iterator[Problem]:
    """Of where nodes are called; of a list of addresses: what it needs besides."""
    runtime = config.runtime
    addresses = runtime.wire.addresses
    if isinstance(runtime.wire.planner, list):
        for number, address in enumerate(addresses):
            if _ADDRESS.fullmatch(address) is None:
                yield Problem((*_PLANNER, str(number)), "is no address", address, "HOST:PORT")
            elif address in addresses[:number]:
                yield Problem((*_PLANNER, str(number)), "is there twice", address)
    yield from _port_problems(addresses, len(stream_names(config)))
    if len(addresses) < 2:
        return
    if runtime.journal is None:
        yield Problem(
            ("runtime", "journal"),
            "a host that takes the lead over goes on from the journal of the one before",
            None,
            "a folder that all hosts of runtime.wire.planner share",
            "set it, or give runtime.wire.planner one address",
        )
    if runtime.processes.recovery_seconds == 0:
        yield Problem(
            ("runtime", "processes", "recovery_seconds"),
            "the job ends with its lead, and none of the other hosts takes over",
            0,
            "above 0",
            "give runtime.wire.planner one address, or hosts time to take over",
        )


def _port_problems(addresses: tuple[str, ...], streams: int) -> Iterator[Problem]:
    """Every stream takes a port."""
    found = [match.groups() for item in addresses if (match := _ADDRESS.fullmatch(item))]
    ports = [(host, int(port)) for host, port in found]
    for host, port in ports:
        if port + streams - 1 > _LAST_PORT:
            yield Problem(
                _PLANNER,
                f"the job has {streams} streams, each of which is led at a port of its own, from "
                "this one on",
                f"{host}:{port}",
                f"a port up to {_LAST_PORT - streams + 1}",
            )
    for (host, port), (other, another) in itertools.combinations(ports, 2):
        if host == other and 0 < abs(port - another) < streams:
            yield Problem(
                _PLANNER,
                f"the job has {streams} streams, each of which is led at a port of its own, from "
                "these on",
                f"{host}:{port} and {other}:{another}",
                f"ports of one host that are {streams} or more apart",
            )
