"""Host memory: loaders beside every trainer process against roles that are shared.

Closed forms, after the shape of the paper's Appendix A (Figures 14 and 17) and its Figure 12:

    colocated      DP x CP x PP x W x (S x m_d + m_b)
    roles          DP x W x (S x m_d + m_b) + DP x (base + (1 + d) x B / DP x bytes)
    partitioned    sum over sources of loaders x workers x m_d, plus buffers; free of DP

W workers, S sources, m_d the state of one open source (footers, row groups, read-ahead), m_b a
worker's batch buffer, B samples of a step, d steps ahead. Tensor-parallel ranks share a process.
The paper prints no absolute numbers for Appendix A; constants here are named assumptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True)
class MemoryConstants:
    """What one thing takes. Replace what you have measured."""

    file_state_bytes: int = 32 * MIB  # m_d: one source open in one worker; over 70 % of a loader
    worker_buffer_bytes: int = 512 * MIB  # m_b
    constructor_base_bytes: int = GIB
    prefetch_steps: int = 2  # d
    sample_bytes: int = 97_000  # a picture with its text, compressed: the mean of `coyo`
    planner_row_bytes: int = 80  # ten columns of eight bytes
    planner_steps: int = 4  # steps of metadata that are held: the window and the runway
    idle_source_bytes: int = 64_000  # a source that is known and not being read
    client_base_bytes: int = 16 * MIB


CONSTANTS = MemoryConstants()
_ASSUMED = ("file_state_bytes", "worker_buffer_bytes", "constructor_base_bytes", "prefetch_steps")


@dataclass(frozen=True)
class Case:
    """A job as the closed forms see it; a node holds the tensor-parallel ranks of one place."""

    global_batch: int = 512
    nodes: int = 512
    workers: int = 4
    sources: int = 306
    cp: int = 1
    pp: int = 1

    @property
    def dp(self) -> float:
        """Data-parallel groups."""
        return self.nodes / (self.cp * self.pp)

    def at(self, cp: int, pp: int) -> Case:
        """The same job on another split of its nodes."""
        return replace(self, cp=cp, pp=pp)


APPENDIX_A = {
    "batch 512, 512 nodes, 4 workers": Case(),
    "batch 2,048": Case(global_batch=2048),
    "4,096 nodes": Case(nodes=4096),
    "16 workers": Case(workers=16),
    "all three": Case(global_batch=2048, nodes=4096, workers=16),
}
GRID = (1, 2, 4, 8)


def colocated_bytes(case: Case, constants: MemoryConstants = CONSTANTS) -> float:
    """Every worker of every (DP, CP, PP) place opens every source."""
    return case.dp * case.cp * case.pp * case.workers * _worker_bytes(case.sources, constants)


def _worker_bytes(sources: int, constants: MemoryConstants) -> int:
    return sources * constants.file_state_bytes + constants.worker_buffer_bytes


def constructor_bytes(
    groups: float, global_batch: int, sample_bytes: float, constants: MemoryConstants = CONSTANTS
) -> float:
    """One constructor per group, holding this step and those prefetched."""
    per_group = (1 + constants.prefetch_steps) * (global_batch / groups) * sample_bytes
    return groups * (constants.constructor_base_bytes + per_group)


def roles_bytes(case: Case, constants: MemoryConstants = CONSTANTS) -> float:
    """Roles without splitting sources among loaders, as the paper's Appendix A has them."""
    loaders = case.dp * case.workers * _worker_bytes(case.sources, constants)
    return loaders + constructor_bytes(
        case.dp, case.global_batch, constants.sample_bytes, constants
    )


def ratio(case: Case, constants: MemoryConstants = CONSTANTS) -> float:
    """Roles over colocated: under 1 the roles need less."""
    return roles_bytes(case, constants) / colocated_bytes(case, constants)


def ratio_grid(
    case: Case,
    cps: Sequence[int] = GRID,
    pps: Sequence[int] = GRID,
    constants: MemoryConstants = CONSTANTS,
) -> list[list[float]]:
    """Ratios with a row per CP and a column per PP."""
    return [[ratio(case.at(cp, pp), constants) for pp in pps] for cp in cps]


def appendix_a(constants: MemoryConstants = CONSTANTS) -> dict[str, Any]:
    """The paper's cases, each over CP x PP."""
    told = ("global_batch", "nodes", "workers", "sources")
    return {
        "cp": list(GRID),
        "pp": list(GRID),
        "cases": {
            name: {
                **{key: getattr(case, key) for key in told},
                "ratio": ratio_grid(case, constants=constants),
            }
            for name, case in APPENDIX_A.items()
        },
    }


@dataclass(frozen=True)
class JobSize:
    """A simulated job, as far as memory goes."""

    groups: int
    cp: int
    pp: int
    sources: int
    global_batch: int
    sample_bytes: float  # as stored, mean
    loader_workers: int  # of all sources together
    fetching_ranks: int
    client_step_bytes: float  # delivered to all ranks in a step
    colocated_workers: int = 4


def job_memory(size: JobSize, constants: MemoryConstants = CONSTANTS) -> dict[str, Any]:
    """Bytes per role of this job with sources split among loaders, and of colocated loaders."""
    ahead = 1 + constants.prefetch_steps
    step_bytes = size.global_batch * size.sample_bytes
    roles = {
        "planner": constants.planner_steps * size.global_batch * constants.planner_row_bytes,
        "loaders": size.loader_workers * constants.file_state_bytes
        + size.sources * constants.idle_source_bytes
        + ahead * step_bytes,
        "constructors": constructor_bytes(
            size.groups, size.global_batch, size.sample_bytes, constants
        ),
        "clients": size.fetching_ranks * constants.client_base_bytes
        + constants.prefetch_steps * size.client_step_bytes,
    }
    places = size.groups * size.cp * size.pp
    colocated = places * size.colocated_workers * _worker_bytes(size.sources, constants)
    total = sum(roles.values())
    return {
        "roles_bytes": {name: round(value) for name, value in roles.items()},
        "total_bytes": round(total),
        "colocated_bytes": round(colocated),
        "colocated_over_roles": colocated / total,
        "assumed": {
            **{key: getattr(constants, key) for key in _ASSUMED},
            "colocated_workers": size.colocated_workers,
        },
    }
