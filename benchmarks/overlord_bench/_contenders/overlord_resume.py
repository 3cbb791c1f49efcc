"""Ours: jobs that load a state near the begin or far in, and give their first batch."""

from __future__ import annotations

import statistics
import time
from typing import Any

from overlord_bench._contenders.loop import touch
from overlord_bench._contenders.overlord_loader import job_config, name_fields

MOST_PER_STEP = 20_000  # samples of a step, at most


def state_after(job: Any, samples: int) -> tuple[dict[str, Any], int]:
    """The first step boundary after so many samples, from plans alone: its state and samples."""
    from overlord._src.native import core
    from overlord._src.state.saved_state import build_state
    from overlord._workers.tokenizer_worker import worker_command

    cursor = job.open_stream().native.planner(None, worker_command())
    described = core.describe_state(cursor.state())
    while samples_of(described) < samples:
        left = samples - samples_of(described)
        for _ in range(max(1, left // MOST_PER_STEP)):
            cursor.next()
        described = core.describe_state(cursor.state())
    state = build_state(cursor.state(), described, job.config.job)
    return state, samples_of(described)


def samples_of(described: dict[str, Any]) -> int:
    """Samples drawn so far, over all sources."""
    return sum(int(source["samples"]) for source in described["sources"].values())


def resume(work: dict[str, Any], state: dict[str, Any]) -> tuple[float, float]:
    """Seconds to open the job, and from then to its first batch."""
    import overlord as ol

    began = time.perf_counter()
    job = ol.job(job_config(work))
    job.open_stream()
    opened = time.perf_counter()
    with job.train(rank=0) as loader:
        loader.load_state_dict(state)
        touch(name_fields(next(loader)))
        done = time.perf_counter()
    return opened - began, done - opened


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Medians over the repeats; both states take turns."""
    import overlord as ol

    job = ol.job(job_config(work))
    near_state, near_samples = state_after(job, work["near"])
    far_state, far_samples = state_after(job, work["far"])
    states = {"near": near_state, "far": far_state}
    resume(work, near_state)
    opened: list[float] = []
    times: dict[str, list[float]] = {"near": [], "far": []}
    for _ in range(work["repeats"]):
        for name, state in states.items():
            open_seconds, seconds = resume(work, state)
            opened.append(open_seconds)
            times[name].append(seconds)
    near, far = (statistics.median(times[name]) for name in ("near", "far"))
    return {
        "version": ol.__version__,
        "near_seconds": near,
        "far_seconds": far,
        "ratio": far / near,
        "open_seconds": statistics.median(opened),
        "near_samples": near_samples,
        "far_samples": far_samples,
        "far_step": far_state["step"],
    }
