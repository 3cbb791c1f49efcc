"""What trainers ask of a job before it runs: microbatches of a step, steps, ranks that average."""

from __future__ import annotations

from overlord._src.config.hybrid_fit import hybrid_of
from overlord._src.config.streams import TRAIN, resolve_stream
from overlord._src.errors import refused
from overlord._src.job.job import Job
from overlord._src.loader.stream_length import microbatches_in


def microbatches_of(job: Job, stream: str = TRAIN) -> int:
    """Microbatches of a step on every rank: the gradient accumulation of trainers."""
    if hybrid_of(job.config) is not None:
        raise refused(
            ("strategy", "hybrid"),
            "every rank has its own number of microbatches, and this trainer wants one for all",
            advice="write the loop yourself (docs/reference/hdp.md), or leave strategy.hybrid out",
        )
    found = resolve_stream(job.config, stream)
    counts = {microbatches_in(found, job.mesh, bins) for bins in found.bins_by_step.values()}
    if len(counts) > 1:
        raise refused(
            found.path_of("bins"),
            "steps have different numbers of microbatches, and this trainer wants one for all",
            ", ".join(map(str, sorted(counts))),
            advice="write the loop yourself (docs/trainers/ddp.md), or give all steps as many bins",
        )
    return counts.pop()


def steps_of(job: Job, stream: str = TRAIN) -> int | None:
    """Steps of a stream, where the config says how many."""
    return resolve_stream(job.config, stream).steps
