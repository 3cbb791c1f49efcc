"""Where a rank stands: on which mesh, and after which batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from overlord._src.batch.microbatch import Microbatch
from overlord._src.mesh import Mesh
from overlord._src.native import core
from overlord._src.state.kept_states import StateMaker


@dataclass(frozen=True)
class Standing:
    """A rank on a version of the tree: what its batches are made with."""

    tree: int
    mesh: Mesh
    ranks: tuple[int, ...]  # of the mesh, where some of the job are lost
    states: StateMaker
    peers: Callable[[], Sequence[int]]


@dataclass(frozen=True)
class Fetched:
    """A batch, and where the rank stands after it."""

    batch: Microbatch
    place: core.Place
    standing: Standing
