"""Ranks of a test in processes of their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warm_python import WarmProcess

HERE = Path(__file__).parent
# Most of what a rank's process costs is to import them.
MODULES = (
    "torch",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint.state_dict",
    "overlord.torch",
)


def started(script: str, *words: str, environment: Mapping[str, str] | None = None) -> WarmProcess:
    """A script of this folder. It computes with one thread beside the others."""
    paths = [str(HERE), *filter(None, sys.path)]
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    everything = {**os.environ, **own, **(environment or {})}
    return WarmProcess((HERE / script).read_text(), list(words), everything, modules=MODULES)


def launched_as(rank: int, world: int, per_host: int) -> dict[str, str]:
    """What a launcher says to a rank, where it starts so many on each host."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % per_host),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(per_host),
        "TORCHELASTIC_RUN_ID": "own ranks",
    }


def said_by_ranks(
    script: str, told: dict[str, Any], world: int, per_host: int | None = None
) -> list[list[dict[str, Any]]]:
    """Every rank is told what to do, its rank and their number; what each said until its end."""
    ranks = [
        started(
            script,
            json.dumps(told),
            str(rank),
            str(world),
            environment=None if per_host is None else launched_as(rank, world, per_host),
        )
        for rank in range(world)
    ]
    try:
        lines = [process.communicate(timeout=240)[0].splitlines() for process in ranks]
        assert [process.returncode for process in ranks] == [0] * world
        return [[json.loads(line) for line in said if line.startswith("{")] for said in lines]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
