"""How the node of this host reaches those of others, in the words that its program takes."""

from __future__ import annotations

import socket

from overlord._src.config.reading import LoadedConfig


def wire_words(
    loaded: LoadedConfig, lead: str, *, leads: bool, host: str | None = None
) -> list[str]:
    """For a node that is led at these addresses; `host`: how others reach this one, unless the
    config says it. Secrets are told by reference."""
    wire = loaded.config.runtime.wire
    told = {
        "wire.lead": lead,
        "wire.bind": f"{wire.host or host or socket.gethostname()}:0",
        "wire.certificate": wire.certificate and str(loaded.base / wire.certificate),
        "wire.key": wire.key and str(loaded.base / wire.key),
        "wire.authority": wire.authority and str(loaded.base / wire.authority),
        "wire.token": wire.token,
        "wire.leads": "1" if leads else None,
    }
    return [f"{key}={value}" for key, value in told.items() if value]
