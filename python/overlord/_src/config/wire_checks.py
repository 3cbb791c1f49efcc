"""What a config says of hosts that may lead a job, checked before any file is touched."""

from __future__ import annotations

import re
from collections.abc import Iterator

from overlord._src.config.job_models import JobFields
from overlord._src.errors import Problem

_ADDRESS = re.compile(r"(\[[^\[\],\s]+\]|[^\[\]:,\s]+):\d{1,5}")
_PLANNER = ("runtime", "wire", "planner")


def wire_problems(config: JobFields) -> Iterator[Problem]:
    """Of a list of addresses: what it needs besides."""
    runtime = config.runtime
    addresses = runtime.wire.addresses
    if not isinstance(runtime.wire.planner, list):
        return
    for number, address in enumerate(addresses):
        if _ADDRESS.fullmatch(address) is None:
            yield Problem((*_PLANNER, str(number)), "is no address", address, "HOST:PORT")
        elif address in addresses[:number]:
            yield Problem((*_PLANNER, str(number)), "is there twice", address)
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
