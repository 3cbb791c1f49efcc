"""pipeline: what DeepSpeed's pipeline engine calls `next()` on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from overlord._src.errors import refused
from overlord._src.job.job import Job


def pipeline(job: Job, stream: str = "train", **options: Any) -> tuple[Any, PipelineBatches | None]:
    """The loader of this rank, for its state, and an iterator for `engine.train_batch`.

    Both are None on the stages between the first and the last, which the engine lets read nothing:
    the job says `delivery: {readers: payload}`, so that nobody waits for them.
    """
    if job.config.delivery.readers != "payload" and job.mesh.size("pp") > 2:
        raise refused(
            ("delivery", "readers"),
            "stages between the first and the last never read",
            job.config.delivery.readers,
            "payload",
        )
    rank = job.mesh.rank
    if rank is None:
        raise refused(("mesh",), "needs the rank of this process", advice="ol.mesh.from_env(pp=)")
    if rank not in job.readers:
        return None, None
    loader = job.stream(stream, rank, **options)
    return loader, PipelineBatches(loader)


class PipelineBatches(Iterator[tuple[Any, Any]]):
    """Inputs and labels of every microbatch; None where this stage does not read them."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __next__(self) -> tuple[Any, Any]:
        parts = next(self._loader).model_inputs("deepspeed", pipeline=True)
        return parts["inputs"], parts["labels"]
