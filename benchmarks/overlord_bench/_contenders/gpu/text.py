"""A text model on the device, fed by us; with `ahead` the next microbatch is on its way."""

from __future__ import annotations

from typing import Any

from overlord_bench._contenders.gpu.training import reading, trained
from overlord_bench._contenders.overlord_loader import job_config
from overlord_bench._contenders.trainers.models import llama, threads_for


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Where the device's time goes."""
    import overlord as ol

    threads_for(work["device"])
    model = llama(work["model"], work["vocabulary"], work["context"], work["device"])
    config = job_config(work)
    config["delivery"]["microbatch_size"] = work["rows"]
    with ol.job(config).train(rank=0, **reading(work)) as loader:
        return trained(loader, model, lambda b: b.model_inputs("hf", model=model), work)
