"""broadcast: hands microbatches from the ranks that read to those that they serve."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from overlord._src.batch.microbatch import Microbatch
from overlord._src.config.readers import broadcast_axes
from overlord._src.errors import refused
from overlord._src.job.job import Job
from overlord._src.mesh import Mesh, is_data_axis
from overlord._src.native import core
from overlord._src.trainers import message

_FIRST_CAPACITY = 1 << 12


class Broadcast(Iterator[Microbatch]):
    """The microbatches of this rank, wherever they were read: the same arrays on all it serves."""

    def __init__(self, loader: Any, mesh: Mesh, axes: Sequence[str]) -> None:
        self.loader = loader
        self._torch: Any = importlib.import_module("torch")
        self._levels = _levels(mesh, axes)
        self._capacity = _FIRST_CAPACITY
        self._ended = False
        self.messages = 0  # that this rank has sent or received
        self.sent_bytes = 0  # to each of those who hear it

    def __next__(self) -> Microbatch:
        if self._ended:
            raise StopIteration
        if self.loader is None:
            return self._received()
        try:
            batch: Microbatch = next(self.loader)
            data = message.packed(batch) if self._levels else bytearray()
        except StopIteration:
            self._pass_on(message.told({"end": True}))
            self._ended = True
            raise
        except BaseException as error:
            self._ended = True
            self._pass_on(message.told({"error": f"{type(error).__name__}: {error}"}))
            raise
        self._pass_on(data)
        return batch

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """That of the loader, on ranks that have one."""
        if self.loader is None:
            return message._NoStates().state_dict(None)
        state: dict[str, Any] = self.loader.state_dict(step)
        return state

    def close(self) -> None:
        """Stop the loader, where there is one."""
        if self.loader is not None:
            self.loader.close()

    def _pass_on(self, data: bytearray) -> None:
        """To everybody below. Who needs more room than there was hears of it, and gets the rest."""
        if not self._levels:
            return
        torch = self._torch
        buffer = torch.zeros(self._capacity, dtype=torch.uint8)
        whole = torch.frombuffer(data, dtype=torch.uint8)
        buffer[: len(data)] = whole[: self._capacity]
        self._along_the_tree(buffer)
        if len(data) > self._capacity:
            self._along_the_tree(whole[self._capacity :].clone())
            self._capacity = _room(len(data))

    def _received(self) -> Microbatch:
        torch = self._torch
        buffer = torch.empty(self._capacity, dtype=torch.uint8)
        self._along_the_tree(buffer)
        size = message.length(buffer.numpy())
        if size > self._capacity:
            rest = torch.empty(size - self._capacity, dtype=torch.uint8)
            self._along_the_tree(rest)
            buffer, self._capacity = torch.cat([buffer, rest]), _room(size)
        data: Any = buffer.numpy()
        text = message.text_of(data)
        if "arrays" in text:
            return message.unpacked(data)
        self._ended = True
        if "error" in text:
            why = text["error"]
            raise core.UnavailableError(f"the rank that reads for this one has failed: {why}")
        raise StopIteration

    def _along_the_tree(self, buffer: Any) -> None:
        for source, group, others in self._levels:
            self._torch.distributed.broadcast(buffer, source, group=group)
            self.messages += 1
            if source == self._torch.distributed.get_rank():
                self.sent_bytes += buffer.numel() * others


def broadcast(
    loader: Any, mesh: Any = None, *, axes: Sequence[str] | None = None, **options: Any
) -> Broadcast:
    """Microbatches on every rank, read by those alone that a plan has read: an iterator.

    `loader` is a job with `delivery.broadcast`, whose training stream is read with these options of
    `job.train`; or the loader of this rank, None where it is served, and then `axes` names the axes
    of `mesh` along which it is handed on. Every rank calls it, once torch.distributed is up. Each
    microbatch is one message: from the ranks with coordinate 0 along the innermost axis first, and
    then outwards.
    """
    if isinstance(loader, Job):
        mesh = loader.mesh if mesh is None else mesh
        axes = broadcast_axes(loader.config) if axes is None else axes
        rank = _rank_in(mesh)
        _check_stages(loader, axes)
        if loader.config.delivery.readers != "fields":
            raise refused(
                ("delivery", "readers"),
                "ranks that are served read nothing, and all others do",
                loader.config.delivery.readers,
                "fields",
            )
        reads = rank in loader.readers
        return Broadcast(loader.train(rank, **options) if reads else None, mesh, axes)
    if mesh is None or axes is None:
        raise refused(("axes",), "needed with a loader, as the mesh is", allowed="like ['tp']")
    _check_served(loader, mesh, axes)
    return Broadcast(loader, mesh, axes)


def _check_stages(job: Job, axes: Sequence[str]) -> None:
    if "pp" in axes and job.mesh.size("pp") > 1 and not job.config.delivery.all_stages:
        raise refused(
            ("delivery", "broadcast"),
            "the first stage hands out what it has, and it has no targets",
            "pp",
            advice="set delivery.all_stages to true, or leave pp out",
        )


def _check_served(loader: Any, mesh: Mesh, axes: Sequence[str]) -> None:
    rank = _rank_in(mesh)
    served = any(mesh.coordinate(rank, axis) > 0 for axis in axes)
    if served != (loader is None):
        raise refused(
            ("loader",),
            f"rank {rank} of {mesh.text()} "
            + ("is served along " if served else "reads for others along ")
            + ", ".join(axes),
            "a loader" if served else None,
            "None" if served else "its loader",
        )


def _rank_in(mesh: Mesh) -> int:
    distributed: Any = importlib.import_module("torch.distributed")
    if distributed.get_world_size() != mesh.world_size:
        raise refused(
            ("mesh",),
            f"has {mesh.world_size} ranks, and torch.distributed {distributed.get_world_size()}",
            mesh.text(),
        )
    return int(distributed.get_rank())


def _levels(mesh: Mesh, axes: Sequence[str]) -> list[tuple[int, Any, int]]:
    """Of this rank, innermost axis first: who tells whom in which group, and how many hear it."""
    names = [name for name, _ in mesh.axes]
    for axis in axes:
        if is_data_axis(axis) or (axis not in names and axis not in ("pp", "cp", "tp")):
            raise refused(
                ("axes",),
                "ranks along it see different samples" if is_data_axis(axis) else "no such axis",
                axis,
                ", ".join(name for name in names if not is_data_axis(name)),
            )
    torch: Any = importlib.import_module("torch")
    own = int(torch.distributed.get_rank())
    order = [name for name in reversed(names) if name in axes and mesh.size(name) > 1]
    levels = []
    for number, axis in enumerate(order):
        for ranks in _groups(mesh, axis, order[number + 1 :]):
            # Everybody makes every group, in the same order.
            group = torch.distributed.new_group(ranks, backend="gloo")
            if own in ranks:
                levels.append((ranks[0], group, len(ranks) - 1))
    return levels


def _groups(mesh: Mesh, axis: str, outer: Sequence[str]) -> list[list[int]]:
    """Ranks along an axis that hear of a microbatch at this level, each led by who has it."""
    places = np.arange(mesh.world_size).reshape([size for _, size in mesh.axes])
    names = [name for name, _ in mesh.axes]
    along = np.moveaxis(places, names.index(axis), -1).reshape(-1, mesh.size(axis)).tolist()
    return [
        ranks for ranks in along if all(mesh.coordinate(ranks[0], other) == 0 for other in outer)
    ]


def _room(size: int) -> int:
    """What the next messages may take where one took so much."""
    return size + size // 8
