"""A job with loaders of these sizes, on so many cores: what fixed and `auto` have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from overlord_bench._peers import Place

AUTO = "auto"
_CORES_OF_A_PROCESS = 4

Size = tuple[int | str, int | str]  # loaders, and workers of each


def engine(cores: int) -> dict[str, Any]:
    """Processes and threads that can use all cores; nobody's sizes change them."""
    processes = max(1, cores // _CORES_OF_A_PROCESS)
    threads = -(-cores // processes)
    return {
        "threads": threads,
        "tokenizer_processes": threads,
        "prefetch": 3,
        "runway": 5,
        "payload_budget": "64MB",
        "processes": {"loaders": processes},
    }


def sized(config: Mapping[str, Any], sizes: Mapping[str, Size] | Size) -> dict[str, Any]:
    """The job with these sizes: of each source by its name, or of all of them."""
    sources = {}
    for name, source in config["sources"].items():
        loaders, workers = sizes if isinstance(sizes, tuple) else sizes[name]
        sources[name] = {**source, "loaders": loaders, "workers": workers}
    return {**config, "sources": sources}


def on_cores(cores: int) -> Place:
    """The first so many that we may use."""
    return Place(cores=tuple(sorted(os.sched_getaffinity(0))[:cores]))
