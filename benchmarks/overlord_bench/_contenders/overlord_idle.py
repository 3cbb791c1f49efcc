"""Ours: a job of many sources, of which one is read; how much memory the process then has."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

from overlord_bench._contenders.loop import touch
from overlord_bench._contenders.overlord_loader import name_fields
from overlord_bench._tiny_sources import is_parquet, source_name

READ_STEPS = 3  # steps of all sources together, when they are read before they rest
FAR_STEP = 1_000_000  # begin of the stage that idle sources wait for


def job_config(work: dict[str, Any]) -> dict[str, Any]:
    """One source is read. The others are unused, wait for a later stage, or were read before."""
    names = [source_name(number) for number in range(work["sources"])]
    alone, together = {names[0]: 1.0}, dict.fromkeys(names, 1.0)
    unused = {**dict.fromkeys(names, 0.0), **alone}
    first, turn, then = {
        "unused": (unused, FAR_STEP, unused),
        "waiting": (alone, FAR_STEP, together),
        "rested": (together, READ_STEPS, alone),
    }[work["kind"]]
    stages = [{"steps": [0, turn], "weights": first}, {"steps": [turn, None], "weights": then}]
    sources: dict[str, Any] = {}
    for number, name in enumerate(names):
        if is_parquet(number):
            sources[name] = {"files": [f"{work['folder']}/{name}/*.parquet"], "tokens": "tokens"}
        else:
            sources[name] = {"files": [f"{work['folder']}/{name}/*.bin"]}
    return {
        "job": "bench-idle",
        "seed": 7,
        "context": work["context"],
        "bins": work["bins"],
        "vocabulary": 50_000,
        "at_end": "repeat",
        "sources": sources,
        "mixture": {"stages": stages},
        "delivery": {"microbatch_size": work["bins"]},
        "index_dir": f"{work['folder']}/index",
    }


def memory() -> dict[str, int]:
    """Bytes of this process: resident, and of those the anonymous ones."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    kilobytes = {line.partition(":")[0]: int(line.split()[1]) for line in lines}
    return {"rss": kilobytes["Rss"] * 1024, "anonymous": kilobytes["Anonymous"] * 1024}


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Memory after the job is open, and after some steps, when nothing moves any more."""
    import overlord as ol

    job = ol.job(job_config(work))
    job.open_stream()
    gc.collect()
    opened = memory()
    began = time.perf_counter()
    with job.train(rank=0) as loader:
        for _ in range(work["steps"]):
            touch(name_fields(next(loader)))
        first = time.perf_counter() - began
        time.sleep(1.0)  # what runs ahead of the trainer has come to rest
        gc.collect()
        idle = memory()
        status = loader.status()
    return {
        "version": ol.__version__,
        "rss_bytes": idle["rss"],
        "anonymous_bytes": idle["anonymous"],
        "opened_rss_bytes": opened["rss"],
        "steps_seconds": first,
        "payload_bytes": status["memory"]["payload_bytes"],
        "pool_idle_bytes": status["memory"]["pool_idle_bytes"],
        "pool_held_bytes": status["memory"]["pool_held_bytes"],
        "file_state_bytes": sum(part["file_state_bytes"] for part in status["loaders"]),
    }
