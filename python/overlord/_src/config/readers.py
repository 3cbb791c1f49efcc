"""Which ranks read the stream: all of them, or those alone that get something of a microbatch, as
the engine deals it (`src/overlord/plan/place/place_tree.h`)."""

from __future__ import annotations

from collections.abc import Iterator

from overlord._src.config.job_models import JobFields
from overlord._src.config.mixture_models import FeedbackConfig
from overlord._src.config.streams import ResolvedStream
from overlord._src.errors import Problem, refused
from overlord._src.mesh import Mesh
from overlord._src.native import core


def broadcast_axes(config: JobFields) -> list[str]:
    """Axes along which the trainer broadcasts, from delivery and strategy."""
    declared = config.strategy.broadcast if config.strategy is not None else []
    return list(dict.fromkeys([*config.delivery.broadcast, *declared]))


def reading_ranks(config: JobFields, mesh: Mesh) -> list[int]:
    """All ranks that hold a loader, ascending; nobody waits for the others."""
    delivery = config.delivery
    if delivery.readers == "all":
        return list(range(mesh.world_size))
    return core.ranks_served(
        core.Mesh(list(mesh.axes)),
        broadcast_axes(config),
        delivery.all_stages,
        delivery.readers == "payload",
    )


def check_reads(config: JobFields, mesh: Mesh, ranks: list[int]) -> None:
    """Refuses ranks that are not to read."""
    reading = reading_ranks(config, mesh)
    for rank in ranks:
        if rank not in reading:
            raise refused(
                ("rank",),
                f"delivery.readers is {config.delivery.readers}, and this one gets its data from "
                "the trainer's own ranks or needs none",
                rank,
                ", ".join(map(str, reading)),
                "make no loader here, or set delivery.readers to all",
            )


def reader_problems(config: JobFields, stream: ResolvedStream, mesh: Mesh) -> Iterator[Problem]:
    """What does not go with ranks that stay away."""
    path = ("delivery", "readers")
    readers = config.delivery.readers
    if readers == "all":
        return
    if config.strategy is not None and config.strategy.encoder is not None:
        yield Problem(
            path,
            "with strategy.encoder ranks exchange embeddings, and each has to know with whom",
            readers,
            "all",
        )
    reporters = (stream.mixture.feedback or FeedbackConfig()).reporters
    if stream.mixture.metric_driven and isinstance(reporters, list):
        away = sorted(set(reporters) - set(reading_ranks(config, mesh)))
        if away:
            yield Problem(path, f"rank {away[0]} is to report losses and would not read", readers)
    elif stream.mixture.metric_driven and reporters == "all":
        yield Problem(path, "feedback.reporters is all, and not all would read", readers, "all")
