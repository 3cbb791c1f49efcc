"""A rank of a test in a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence


def started(program: Sequence[str], rank: int, world: int) -> subprocess.Popen[str]:
    """It is told its rank and their number, and computes with one thread beside the others."""
    return subprocess.Popen(
        [*program, str(rank), str(world)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
