"""Meshes: rank order, custom orders, the environment, torch's DeviceMesh, and what does not fit."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from overlord._src.config.mesh_fit import fit_problems
from overlord._src.config.streams import resolve_stream
from overlord._src.mesh import Mesh, as_mesh, mesh
from overlord.config import ConfigError, load


class FakeDeviceMesh:
    """What of a torch DeviceMesh is read."""

    def __init__(
        self, names: tuple[str, ...], shape: tuple[int, ...], ranks: Any = None, rank: int = 0
    ) -> None:
        self.mesh_dim_names = names
        self.mesh = np.arange(np.prod(shape)).reshape(shape) if ranks is None else np.asarray(ranks)
        self._rank = rank

    def get_rank(self) -> int:
        return self._rank


def test_default_rank_order() -> None:
    grid = mesh(pp=2, dp=3, cp=2, tp=4)
    assert grid.world_size == 48 and grid.text() == "pp=2,dp=3,cp=2,tp=4"
    for rank, (pp, dp, cp, tp) in enumerate(product(range(2), range(3), range(2), range(4))):
        assert rank == ((pp * 3 + dp) * 2 + cp) * 4 + tp
        assert [grid.coordinate(rank, axis) for axis in ("pp", "dp", "cp", "tp")] == [
            pp,
            dp,
            cp,
            tp,
        ]


def test_custom_orders() -> None:
    for order in permutations(("pp", "dp", "cp", "tp")):
        grid = mesh(pp=2, dp=3, cp=2, tp=5, order="-".join(order))
        assert [name for name, _ in grid.axes] == list(order)
        seen = {
            tuple(grid.coordinate(rank, axis) for axis in order) for rank in range(grid.world_size)
        }
        assert len(seen) == 60
        assert grid.coordinate(1, order[-1]) == 1
    assert mesh(dp=2, ep=3, order=("ep", "dp")).axes == (("ep", 3), ("dp", 2))
    assert mesh(dp_replicate=2, dp_shard=4, tp=2).data_size == 8


BAD_MESHES = [
    (lambda: mesh(dp=0), "mesh.dp"),
    (lambda: mesh(tp=2.0), "mesh.tp"),  # type: ignore[arg-type]
    (lambda: mesh(dp=True), "mesh.dp"),
    (lambda: mesh(dp=2, order="pp-tp"), "dp is missing"),
    (lambda: mesh(dp=2, order="dp-dp"), "dp stands twice"),
    (lambda: mesh(dp=2, order="dp-xx"), "xx has no size"),
    (lambda: mesh(dp=2, ep=2), "mesh.order"),
    (lambda: mesh(dp=2, rank=2), "outside the mesh"),
    (lambda: Mesh.parse("dp=x"), "cannot read 'dp=x'"),
    (lambda: Mesh.parse("dp=2,dp=3"), "cannot read"),
    (lambda: Mesh.parse("pd=2"), "did you mean"),
    (lambda: as_mesh(3), "not a mesh"),
]


@pytest.mark.parametrize(("make", "part"), BAD_MESHES)
def test_bad_meshes(make: Any, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        make()


def test_ranks_are_checked() -> None:
    for rank in (-1, 4, True, 1.0):
        with pytest.raises(ConfigError, match="0 to 3"):
            mesh(dp=4).coordinate(rank, "dp")  # type: ignore[arg-type]


def test_from_torchrun_and_slurm() -> None:
    grid = mesh.from_env(pp=2, tp=2, environment={"RANK": "5", "WORLD_SIZE": "8"})
    assert grid.axes == (("pp", 2), ("dp", 2), ("cp", 1), ("tp", 2)) and grid.rank == 5
    slurm = mesh.from_env(environment={"SLURM_PROCID": "3", "SLURM_NTASKS": "4"})
    assert slurm.data_size == 4 and slurm.rank == 3


BAD_ENVIRONMENTS = [
    ({"RANK": "0", "WORLD_SIZE": "6"}, {"tp": 4}, "does not divide WORLD_SIZE = 6"),
    ({"RANK": "0", "WORLD_SIZE": "8"}, {"tp": 2, "dp": 2}, "= 4 is not WORLD_SIZE = 8"),
    ({"RANK": "8", "WORLD_SIZE": "8"}, {}, "RANK: outside the world"),
    ({"RANK": "x", "WORLD_SIZE": "8"}, {}, "RANK: not a number"),
    ({}, {}, "RANK and WORLD_SIZE, or SLURM_PROCID"),
]


@pytest.mark.parametrize(("environment", "axes", "part"), BAD_ENVIRONMENTS)
def test_bad_environments(environment: dict[str, str], axes: dict[str, int], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        mesh.from_env(environment=environment, **axes)


def test_no_mesh_in_a_world_of_many_is_refused() -> None:
    assert as_mesh(None, {}).world_size == 1
    with pytest.raises(ConfigError, match="WORLD_SIZE is 8 and no mesh"):
        as_mesh(None, {"WORLD_SIZE": "8"})


def test_device_meshes() -> None:
    grid = mesh.from_device_mesh(
        FakeDeviceMesh(("pp", "dp_replicate", "dp_shard", "cp", "tp"), (2, 2, 3, 1, 2), rank=7)
    )
    assert grid.axes == (("pp", 2), ("dp_replicate", 2), ("dp_shard", 3), ("cp", 1), ("tp", 2))
    assert grid.data_size == 6 and grid.rank == 7
    assert as_mesh(FakeDeviceMesh(("dp", "ep"), (4, 1))).axes == (("dp", 4),)


def test_device_mesh_in_another_order() -> None:
    ranks = np.arange(8).reshape(2, 4).T  # dims named (tp, dp), tp slowest in memory is dp here
    grid = mesh.from_device_mesh(FakeDeviceMesh(("tp", "dp"), (4, 2), ranks))
    assert grid.axes == (("dp", 2), ("tp", 4))


def test_device_mesh_mappings() -> None:
    with pytest.raises(ConfigError, match=r'mesh\.sp: .*mapping=\{"sp": "cp"\}'):
        mesh.from_device_mesh(FakeDeviceMesh(("dp", "sp"), (2, 4)))
    mapped = mesh.from_device_mesh(FakeDeviceMesh(("dp", "sp"), (2, 4)), {"sp": "cp"})
    assert mapped.axes == (("dp", 2), ("cp", 4))
    replica = mesh.from_device_mesh(FakeDeviceMesh(("dp", "ep"), (2, 4)), {"ep": "replica"})
    assert replica.axes == (("dp", 2), ("ep", 4)) and replica.data_size == 2
    merged = mesh.from_device_mesh(FakeDeviceMesh(("dp", "ep"), (2, 4)), {"ep": "dp"})
    assert merged.axes == (("dp", 8),)
    with pytest.raises(ConfigError, match="unknown axis"):
        mesh.from_device_mesh(FakeDeviceMesh(("dp", "sp"), (2, 4)), {"sp": "cq"})


def test_bad_device_meshes() -> None:
    with pytest.raises(ConfigError, match="no dimension names"):
        mesh.from_device_mesh(FakeDeviceMesh((), (2,)))
    with pytest.raises(ConfigError, match=r"missing \[3\], repeated \[2\]"):
        mesh.from_device_mesh(FakeDeviceMesh(("dp",), (4,), [0, 1, 2, 2]))
    with pytest.raises(ConfigError, match="not a regular grid"):
        mesh.from_device_mesh(FakeDeviceMesh(("dp",), (4,), [0, 2, 1, 3]))


def test_torch_is_never_imported() -> None:
    code = "import sys, overlord as ol; ol.mesh(dp=2); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


FITS = [
    # (mesh, overrides, parts of the message; none where it fits)
    ("dp=2", [], []),
    ("dp=3", [], ["bins", "dp 3 x microbatch_size 1 = 3", "nearest 6 or 9", "fill_empty"]),
    ("dp=3", ["delivery.fill_empty=true"], []),
    (
        "dp=2",
        ["delivery.microbatch_size=3"],
        ["= 6 does not divide it", "got 8", "nearest 6 or 12"],
    ),
    ("dp=2", ["substeps=8"], ["x substeps 8 = 16", "nearest 16"]),
    ("cp=3", [], ["context", "in 6 parts", "nearest 60 or 66"]),
    ("cp=3", ["delivery.cp_slicing=trainer"], []),
    ("cp=3", ["delivery.cp_slicing=contiguous"], ["in 3 parts"]),
    ("cp=2", ["delivery.cp_slicing=document_zigzag"], ["align", "2 x cp = 4 parts", "nearest 4"]),
    ("cp=2", ["delivery.cp_slicing=document_zigzag", "align=4"], []),
    (
        "cp=2,tp=2",
        ["delivery.cp_slicing=document_zigzag", "align=4", "delivery.sequence_parallel=true"],
        ["align", "2 x cp x tp 2 = 8", "nearest 8"],
    ),
    ("tp=3", ["delivery.sequence_parallel=true"], ["context", "in 3 parts"]),
    ("dp=2", ["delivery.broadcast=[dp]"], ["a data axis cannot be broadcast"]),
    ("dp=2", ["delivery.broadcast=[xp]"], ["no such axis", "'xp'"]),
    ("dp=2,tp=2", ["delivery.broadcast=[tp]"], []),
    (
        "dp=1",
        ["runtime.constructor_budget=100"],
        ["runtime.constructor_budget", "less than one step", "at least 8192 (8 KiB)"],
    ),
    ("dp=2", ["runtime.constructor_budget=4096"], []),
]


@pytest.mark.parametrize(("grid", "overrides", "parts"), FITS)
def test_fit(grid: str, overrides: list[str], parts: list[str], good: dict[str, Any]) -> None:
    config = load(good, overrides)
    problems = fit_problems(config, resolve_stream(config, "train"), Mesh.parse(grid))
    text = "\n".join(problem.text() for problem in problems)
    assert bool(problems) == bool(parts)
    for part in parts:
        assert part in text
