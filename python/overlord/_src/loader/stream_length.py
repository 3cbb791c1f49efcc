"""How many microbatches a stream has from its start to its end, where that can be known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlord._src.config.hybrid_fit import hybrid_of
from overlord._src.config.job_models import JobFields
from overlord._src.config.streams import ResolvedStream
from overlord._src.mesh import Mesh
from overlord._src.native import core

if TYPE_CHECKING:
    from overlord._src.job.open_stream import OpenStream


def steps_of(opened: OpenStream) -> int:
    """Steps of a stream, planned ahead from lengths where its sources end it; or a TypeError."""
    stream = opened.resolved
    ends = stream.mixture.max_passes or any(
        stream.at_end[name] != "repeat" for name in opened.source_names
    )
    if not ends:
        if stream.steps is None:
            raise TypeError(
                f"the stream {stream.name} has no length: its sources repeat without end; give it "
                "`steps`, `at_end: drop` or `max_passes`"
            )
        return stream.steps
    if stream.mixture.metric_driven:
        raise TypeError(
            f"the stream {stream.name} has no length that is known: it ends where the losses that "
            "will be reported take it"
        )
    unknown = [
        name
        for name, info in zip(opened.source_names, opened.infos, strict=True)
        if not info["has_lengths"]
    ]
    if unknown:
        raise TypeError(
            f"the stream {stream.name} has no length that is known: the index of source "
            f"{unknown[0]} has no lengths; make it with `overlord index --lengths`"
        )
    cursor, steps = opened.cursor(place=False), 0
    try:
        while cursor.next() is not None:
            steps += 1
    except core.OverlordError as error:  # list() asks too, and reading says it in its place
        raise TypeError(f"the stream {stream.name} has no length: {error}") from error
    return steps


def microbatches_of(config: JobFields, stream: ResolvedStream, mesh: Mesh, steps: int) -> int:
    """Microbatches of a rank in so many steps; or a TypeError where only plans can tell."""
    balance = config.strategy.balance if config.strategy is not None else None
    if hybrid_of(config) is not None or (balance is not None and balance.atoms == "samples"):
        raise TypeError(
            f"the stream {stream.name} has no length that is known: its strategy decides in every "
            "step how many microbatches it has"
        )
    stages = [*stream.bins_by_step.items()]
    ends = [step for step, _ in stages[1:]] + [steps]
    return sum(
        max(0, min(end, steps) - first) * microbatches_in(stream, mesh, bins)
        for (first, bins), end in zip(stages, ends, strict=True)
    )


def microbatches_in(stream: ResolvedStream, mesh: Mesh, bins: int) -> int:
    """Microbatches of a rank in a step of so many bins."""
    width = mesh.data_size * stream.microbatch_size
    return stream.substeps * -(-(bins // stream.substeps) // width)
