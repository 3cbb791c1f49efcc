"""The ranks of a mesh as arrays: who forms a data-parallel group, and at which pipeline stage."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.mesh import Mesh, is_data_axis

Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Clients:
    """The mesh, seen by placement: `groups` consumers of `group_ranks` ranks each."""

    mesh: Mesh
    bucket_ranks: Ranks  # [groups, group_ranks]: ranks of each group, in rank order

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.mesh.world_size

    @property
    def groups(self) -> int:
        """Data-parallel groups, the buckets of a placement."""
        return int(self.bucket_ranks.shape[0])

    @property
    def group_ranks(self) -> int:
        """Ranks that work on the same samples."""
        return int(self.bucket_ranks.shape[1])

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.mesh.size("pp")

    @property
    def shards(self) -> int:
        """Ranks that share a stage's work evenly: context and tensor parallel ones."""
        return self.group_ranks // self.stages

    def bucket_of_rank(self) -> Ranks:
        """The group of every rank."""
        buckets = np.empty(self.world, dtype=np.int64)
        buckets[self.bucket_ranks] = np.arange(self.groups)[:, None]
        return buckets


def clients_of(mesh: Mesh) -> Clients:
    """The ranks of a mesh, grouped. Any order of the axes will do."""
    sizes: list[int] = [size for _, size in mesh.axes]
    grid: npt.NDArray[Any] = np.arange(prod(sizes), dtype=np.int64).reshape(sizes)
    data = [number for number, (name, _) in enumerate(mesh.axes) if is_data_axis(name)]
    other = [number for number in range(len(sizes)) if number not in data]
    grouped = grid.transpose([*data, *other]).reshape(mesh.data_size, -1)
    return Clients(mesh, np.sort(grouped, axis=1))
