"""Launch: what the environment says about the other ranks of this host."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

_SLURM_RUN = re.compile(r"(\d+)(?:\(x(\d+)\))?")


@dataclass(frozen=True)
class Launch:
    """One process among those that a launcher started on this host."""

    launcher: str
    rank: int
    local_rank: int
    local_ranks: tuple[int, ...]  # ranks of this host, ascending
    world_size: int
    run: str  # tells one run of a job from another on the same host
    restarts: int = 0  # of the whole job, by an elastic launcher

    @property
    def hosts(self) -> int:
        """Hosts of the job, where every host has as many ranks."""
        return max(1, -(-self.world_size // max(1, len(self.local_ranks))))


def find_launch(environment: Mapping[str, str] | None = None) -> Launch | None:
    """The launch that the environment tells of: torchrun's, Slurm's or Open MPI's; or None."""
    env = os.environ if environment is None else environment
    return _torchrun(env) or _slurm(env) or _open_mpi(env)


def _number(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name, "").strip()
    return int(text) if text.isdigit() else None


def _block(rank: int, local_rank: int, local_world: int) -> tuple[int, ...]:
    first = rank - local_rank
    return tuple(range(first, first + local_world))


def _torchrun(env: Mapping[str, str]) -> Launch | None:
    rank, world = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    local, local_world = _number(env, "LOCAL_RANK"), _number(env, "LOCAL_WORLD_SIZE")
    if rank is None or world is None or local is None or local_world is None:
        return None
    run = env.get("TORCHELASTIC_RUN_ID", "")
    if run in ("", "none"):  # torchrun's default names every run the same
        run = f"{env.get('MASTER_ADDR', '')}:{env.get('MASTER_PORT', '')}"
    restarts = _number(env, "TORCHELASTIC_RESTART_COUNT") or 0
    return Launch("torchrun", rank, local, _block(rank, local, local_world), world, run, restarts)


def _slurm_tasks(text: str, node: int) -> int | None:
    """Tasks of one node out of SLURM_TASKS_PER_NODE, like `4(x2),3`."""
    counts: list[int] = []
    for count, repeats in _SLURM_RUN.findall(text):
        counts += [int(count)] * int(repeats or 1)
    return counts[node] if node < len(counts) else None


def _slurm(env: Mapping[str, str]) -> Launch | None:
    rank, world = _number(env, "SLURM_PROCID"), _number(env, "SLURM_NTASKS")
    local, node = _number(env, "SLURM_LOCALID"), _number(env, "SLURM_NODEID")
    if rank is None or world is None or local is None or node is None:
        return None
    tasks = _slurm_tasks(env.get("SLURM_TASKS_PER_NODE", ""), node)
    if tasks is None:
        return None
    run = f"{env.get('SLURM_JOB_ID', '')}.{env.get('SLURM_STEP_ID', '')}"
    restarts = _number(env, "SLURM_RESTART_COUNT") or 0
    return Launch("slurm", rank, local, _block(rank, local, tasks), world, run, restarts)


def _open_mpi(env: Mapping[str, str]) -> Launch | None:
    rank, world = _number(env, "OMPI_COMM_WORLD_RANK"), _number(env, "OMPI_COMM_WORLD_SIZE")
    local = _number(env, "OMPI_COMM_WORLD_LOCAL_RANK")
    local_world = _number(env, "OMPI_COMM_WORLD_LOCAL_SIZE")
    if rank is None or world is None or local is None or local_world is None:
        return None
    run = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid", "")
    return Launch("open-mpi", rank, local, _block(rank, local, local_world), world, run)
