"""Mesh: the trainer's ranks as named axes, slowest first. Knows no torch; reads one when given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from overlord._src.config.refusals import did_you_mean
from overlord._src.errors import ConfigError, Problem, refused

DEFAULT_ORDER = ("pp", "dp", "cp", "tp")
_DATA_PREFIX = "dp_"
_KNOWN_DIMS = ("pp", "dp", "dp_replicate", "dp_shard", "cp", "tp")
REPLICA = "replica"
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("SLURM_PROCID", "SLURM_NPROCS"),
)


def is_data_axis(name: str) -> bool:
    """Whether ranks along this axis see different samples."""
    return name == "dp" or name.startswith(_DATA_PREFIX)


@dataclass(frozen=True, init=False)
class Mesh:
    """Ranks of a job: `rank = ((pp*DP + dp)*CP + cp)*TP + tp`, or in an order of your own.

    `order` names the axes slowest first (`"pp-dp-cp-tp"` or a sequence); neighbours along
    the last one have neighbouring ranks. Axes other than pp, dp, dp_*, cp, tp replicate data.
    """

    axes: tuple[tuple[str, int], ...]
    rank: int | None

    def __init__(
        self,
        pp: int = 1,
        dp: int = 1,
        cp: int = 1,
        tp: int = 1,
        *,
        order: str | Sequence[str] | None = None,
        rank: int | None = None,
        **others: int,
    ) -> None:
        sizes = {"pp": pp, "dp": dp, "cp": cp, "tp": tp, **others}
        if dp == 1 and any(name.startswith(_DATA_PREFIX) for name in others):
            del sizes["dp"]
        self._fill([(name, sizes[name]) for name in _ordered(sizes, order)], rank)

    def _fill(self, axes: Sequence[tuple[str, int]], rank: int | None) -> None:
        problems = [
            Problem(("mesh", name), "not the size of an axis", size, "an integer >= 1")
            for name, size in axes
            if isinstance(size, bool) or not isinstance(size, int) or size < 1
        ]
        if problems:
            raise ConfigError(problems)
        world = prod(size for _, size in axes)
        if rank is not None and not 0 <= rank < world:
            raise refused(("mesh", "rank"), "outside the mesh", rank, f"0 to {world - 1}")
        object.__setattr__(self, "axes", tuple(axes))
        object.__setattr__(self, "rank", rank)

    @classmethod
    def from_axes(cls, axes: Sequence[tuple[str, int]], rank: int | None = None) -> Mesh:
        """A mesh of exactly these axes, slowest first."""
        names = [name for name, _ in axes]
        for name in names:
            if names.count(name) > 1:
                raise refused(("mesh", name), "an axis is named twice", names)
        mesh = cls.__new__(cls)
        mesh._fill(axes, rank)
        return mesh

    @classmethod
    def parse(cls, text: str) -> Mesh:
        """A mesh out of `pp=2,dp=4,cp=2,tp=2`; axes that are absent have size 1."""
        sizes: dict[str, int] = {}
        for part in filter(None, (item.strip() for item in text.split(","))):
            name, mark, size = (piece.strip() for piece in part.partition("="))
            if not mark or not name.isidentifier() or not size.isdigit() or name in sizes:
                raise refused(
                    ("mesh",),
                    f"cannot read {part!r}",
                    text,
                    "like pp=2,dp=4,cp=2,tp=2",
                    "give each axis once, with an integer size",
                )
            sizes[name] = int(size)
        unknown = [name for name in sizes if name not in _KNOWN_DIMS]
        if unknown:
            raise refused(
                ("mesh", unknown[0]),
                "unknown axis",
                text,
                ", ".join(_KNOWN_DIMS),
                did_you_mean(unknown[0], _KNOWN_DIMS) or "other axes need ol.mesh(..., order=)",
            )
        split = any(name.startswith(_DATA_PREFIX) for name in sizes)
        absent = [name for name in DEFAULT_ORDER if not (split and name == "dp")]
        sizes = {**dict.fromkeys(absent, 1), **sizes}
        return cls.from_axes([(name, sizes[name]) for name in _KNOWN_DIMS if name in sizes])

    @classmethod
    def from_env(
        cls,
        pp: int = 1,
        cp: int = 1,
        tp: int = 1,
        dp: int | None = None,
        *,
        order: str | Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Mesh:
        """The mesh of RANK and WORLD_SIZE (torchrun) or SLURM_*; `dp` is what is left."""
        rank, world, names = _launched(os.environ if environment is None else environment)
        model = pp * cp * tp
        if dp is None:
            if model < 1 or world % model:
                divisors = [n for n in range(1, world + 1) if world % n == 0]
                raise refused(
                    ("mesh",),
                    f"pp x cp x tp = {model} does not divide {names[1]} = {world}",
                    f"pp={pp},cp={cp},tp={tp}",
                    f"a product among {divisors}",
                    "change an axis, or launch another number of processes",
                )
            dp = world // model
        mesh = cls(pp, dp, cp, tp, order=order)
        if mesh.world_size != world:
            raise refused(
                ("mesh",),
                f"pp x dp x cp x tp = {mesh.world_size} is not {names[1]} = {world}",
                mesh.text(),
                f"a product of {world}",
                "leave dp out to have it derived",
            )
        if not 0 <= rank < world:
            raise refused(
                (names[0],),
                "outside the world",
                rank,
                f"0 to {world - 1}",
                f"check {names[0]} and {names[1]} of the launcher",
            )
        return cls.from_axes(mesh.axes, rank)

    @classmethod
    def from_device_mesh(cls, device_mesh: Any, mapping: Mapping[str, str] | None = None) -> Mesh:
        """The mesh of a torch `DeviceMesh` with named dimensions.

        pp, dp, dp_replicate, dp_shard (both are data), cp and tp are understood. Any other
        dimension of size > 1 must be mapped: `mapping={"sp": "cp", "ep": "dp"}`, or to
        `"replica"` where its ranks need the same data.
        """
        names = getattr(device_mesh, "mesh_dim_names", None)
        if not names:
            raise refused(
                ("mesh",),
                "the DeviceMesh has no dimension names",
                advice="build it with mesh_dim_names=('pp', 'dp', ...)",
            )
        ranks = np.asarray(device_mesh.mesh.tolist(), dtype=np.int64).reshape(
            [int(size) for size in device_mesh.mesh.shape]
        )
        axes = _axes_by_stride(list(names), ranks)
        get_rank = getattr(device_mesh, "get_rank", None)
        rank = int(get_rank()) if callable(get_rank) else None
        return cls.from_axes(_named_axes(axes, mapping or {}), rank)

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return prod(size for _, size in self.axes)

    @property
    def data_size(self) -> int:
        """Number of data-parallel groups, each with samples of its own."""
        return prod(size for name, size in self.axes if is_data_axis(name))

    def size(self, axis: str) -> int:
        """Size of an axis; 1 for one that is absent."""
        return dict(self.axes).get(axis, 1)

    def coordinate(self, rank: int, axis: str) -> int:
        """A rank's place along an axis; 0 for one that is absent."""
        rest = self.check_rank(rank)
        for name, size in reversed(self.axes):
            if name == axis:
                return rest % size
            rest //= size
        return 0

    def peers(self, rank: int) -> list[int]:
        """The ranks of the data axes and cp, slowest first, that differ from `rank` in those only.

        Numbered as the consumers that slices are dealt to.
        """
        self.check_rank(rank)
        places = np.arange(self.world_size).reshape([size for _, size in self.axes])
        at = tuple(
            slice(None) if is_data_axis(name) or name == "cp" else self.coordinate(rank, name)
            for name, _ in self.axes
        )
        return [int(peer) for peer in np.atleast_1d(places[at]).reshape(-1)]

    def check_rank(self, rank: int) -> int:
        """The rank itself, or an error when it is not one of the mesh."""
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < self.world_size:
            raise refused(
                ("rank",),
                f"not a rank of the mesh {self.text()}",
                rank,
                f"0 to {self.world_size - 1}",
            )
        return rank

    def text(self) -> str:
        """Like `pp=2,dp=4,cp=2,tp=2`."""
        return ",".join(f"{name}={size}" for name, size in self.axes)


mesh = Mesh


def as_mesh(given: Mesh | str | Any | None, environment: Mapping[str, str] | None = None) -> Mesh:
    """A mesh out of what a caller may pass: a Mesh, text, a dict, a torch DeviceMesh, or None."""
    if isinstance(given, Mesh):
        return given
    if isinstance(given, Mapping):
        given = ",".join(f"{axis}={size}" for axis, size in given.items())
    if isinstance(given, str):
        return Mesh.parse(given)
    if given is not None:
        if not hasattr(given, "mesh_dim_names"):
            raise refused(
                ("mesh",),
                "not a mesh",
                type(given).__name__,
                "ol.mesh(...), text like dp=2,tp=2, or a torch DeviceMesh",
            )
        return Mesh.from_device_mesh(given)
    variables = os.environ if environment is None else environment
    world = variables.get("WORLD_SIZE", "1")
    if world != "1":
        raise refused(
            ("mesh",),
            f"WORLD_SIZE is {world} and no mesh is given: every rank would get all data",
            advice="pass mesh=ol.mesh.from_env(pp=, cp=, tp=), or ol.mesh(...)",
        )
    return Mesh()


def _ordered(sizes: Mapping[str, int], order: str | Sequence[str] | None) -> list[str]:
    if order is None:
        extra = [name for name in sizes if name not in DEFAULT_ORDER]
        data = [name for name in extra if name.startswith(_DATA_PREFIX)]
        unplaced = [name for name in extra if name not in data]
        if unplaced:
            raise refused(
                ("mesh", "order"),
                f"needed to place the axes {', '.join(unplaced)}",
                allowed="all axes, slowest first",
                advice="like order='pp-dp-cp-ep-tp'",
            )
        return [name for name in ("pp", "dp", *data, "cp", "tp") if name in sizes]
    names = [part.strip() for part in order.split("-")] if isinstance(order, str) else list(order)
    missing = [name for name, size in sizes.items() if size != 1 and name not in names]
    unknown = [name for name in names if name not in sizes]
    twice = [name for name in names if names.count(name) > 1]
    if missing or unknown or twice:
        wrong = (
            f"{missing[0]} is missing"
            if missing
            else f"{unknown[0]} has no size"
            if unknown
            else f"{twice[0]} stands twice"
        )
        raise refused(
            ("mesh", "order"),
            wrong,
            "-".join(names),
            "each axis once, slowest first",
            f"axes: {', '.join(sizes)}",
        )
    return names


def _launched(environment: Mapping[str, str]) -> tuple[int, int, tuple[str, str]]:
    for rank_name, world_name in _LAUNCHERS:
        if rank_name in environment and world_name in environment:
            values = []
            for name in (rank_name, world_name):
                text = environment[name].strip()
                if not text.isdigit():
                    raise refused((name,), "not a number", text, "an integer >= 0")
                values.append(int(text))
            return values[0], values[1], (rank_name, world_name)
    raise refused(
        ("mesh",),
        "the environment names no rank",
        allowed="RANK and WORLD_SIZE, or SLURM_PROCID and SLURM_NTASKS",
        advice="start with torchrun or srun, or use ol.mesh(...)",
    )


def _axes_by_stride(names: list[str], ranks: np.ndarray[Any, Any]) -> list[tuple[str, int]]:
    """Axes slowest first, if the ranks are a regular grid over 0 .. world-1."""
    flat = np.sort(ranks.reshape(-1))
    if not np.array_equal(flat, np.arange(flat.size)):
        absent = sorted(set(range(flat.size)) - set(flat.tolist()))
        repeated = sorted({int(rank) for rank in flat if np.count_nonzero(flat == rank) > 1})
        raise refused(
            ("mesh",),
            "the DeviceMesh does not hold each rank once: "
            f"missing {absent[:8]}, repeated {repeated[:8]}",
            allowed=f"ranks 0 to {flat.size - 1}",
            advice="pass the mesh of the whole job, not a part of it",
        )
    strides = []
    for dim, size in enumerate(ranks.shape):
        index = [0] * ranks.ndim
        index[dim] = 1 if size > 1 else 0
        strides.append(int(ranks[tuple(index)]) if size > 1 else 0)
    order = list(range(ranks.ndim))
    if not np.array_equal(ranks.reshape(-1), flat):
        order.sort(key=lambda dim: (-strides[dim], dim))
    regular = ranks.transpose(order).reshape(-1)
    if not np.array_equal(regular, np.arange(flat.size)):
        raise refused(
            ("mesh",),
            "the ranks of the DeviceMesh are not a regular grid",
            ranks.reshape(-1).tolist(),
            "rank = a sum of coordinate x stride",
        )
    return [(names[dim], ranks.shape[dim]) for dim in order]


def _named_axes(axes: list[tuple[str, int]], mapping: Mapping[str, str]) -> list[tuple[str, int]]:
    """The dimensions under our names; neighbours that mean the same axis are merged."""
    result: list[tuple[str, int]] = []
    for name, size in axes:
        target = mapping.get(name, name if name in _KNOWN_DIMS else "")
        if not target and size > 1:
            raise refused(
                ("mesh", name),
                f"a dimension of size {size} whose meaning is not known",
                allowed=", ".join(_KNOWN_DIMS),
                advice=f'pass mapping={{"{name}": "cp"}} (or another axis), or "{REPLICA}" '
                "if its ranks need the same data",
            )
        if size == 1 and not target:
            continue
        if target not in (*_KNOWN_DIMS, REPLICA):
            raise refused(
                ("mesh", name),
                "mapped to an unknown axis",
                target,
                ", ".join((*_KNOWN_DIMS, REPLICA)),
            )
        target = name if target == REPLICA else target
        if result and result[-1][0] == target:
            result[-1] = (target, result[-1][1] * size)
        else:
            result.append((target, size))
    return result


@lru_cache(maxsize=64)
def peers_of(mesh: Mesh, rank: int, ranks: tuple[int, ...] = ()) -> tuple[int, ...]:
    """`mesh.peers(rank)`, kept: every batch asks. `ranks`: of the mesh, where some are lost."""
    if not ranks:
        return tuple(mesh.peers(rank))
    return tuple(ranks[place] for place in mesh.peers(ranks.index(rank)))
