"""What sources cost as `core.partition` asks for it, and the room that loaders have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from overlord._src.index.source_profile import TRANSFORMS, SourceProfile


@dataclass(frozen=True)
class Room:
    """What loaders may take; as core.partition has it."""

    cores: int
    taken_cores: int
    memory_bytes: int = 0
    loader_bytes: int = 0
    cluster: int = 4
    source_workers: int = 64
    loader_workers: int = 4
    processes: int = 1
    rule: str = "fill"


def taken_cores(cores: int, groups: int) -> int:
    """Of planner and constructors, by a rule of thumb; one is left."""
    return min(1 + -(-groups // 8), cores - 1)


def load_of(profile: SourceProfile, rows: float, slots: int) -> dict[str, Any]:
    """What a source costs; `slots`: workers of the run before."""
    held = sum(profile.stages[stage].peak_bytes for stage in ("read", *TRANSFORMS))
    return {
        "name": profile.source,
        "work_ns": round(profile.per_row(profile.loader_work_ns)),
        "wait_ns": round(profile.per_row(profile.stages["read"].ns)),
        "rows_per_step": max(1, math.ceil(rows)),
        "buffer_bytes": held,
        "state_bytes": profile.file_state_bytes // max(slots, 1),
    }
