"""What trainers ask of a job before it runs: microbatches of a step, steps, ranks that average."""

from __future__ import annotations

from overlord._src.config.hybrid_fit import hybrid_of
from overlord._src.config.streams import TRAIN, resolve_stream
from overlord._src.errors import refused
from overlord._src.job.job import Job


def microbatches_of(job: Job, stream: str = TRAIN) -> int:
    """Microbatches of a step on every rank: the gradient accumulation of trainers."""
    if hybrid_of(job.config) is not None:
        raise refused(
            ("strategy", "hybrid"),
            "every rank has its own number of microbatches, and this trainer wants one for all",
            advice="write the loop yourself (docs/reference/hdp.md), or leave strategy.hybrid out",
        )
    found = resolve_stream(job.config, stream)
    unit = job.mesh.data_size * found.microbatch_size * found.substeps
    return found.substeps * -(-found.bins // unit)


def steps_of(job: Job, stream: str = TRAIN) -> int | None:
    """Steps of a stream, where the config says how many."""
    return resolve_stream(job.config, stream).steps
