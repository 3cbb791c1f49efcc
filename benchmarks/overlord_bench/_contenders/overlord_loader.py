"""Ours: the public API, one rank, default settings, in a plain Python loop."""

from __future__ import annotations

from typing import Any

from overlord_bench._contenders.loop import run_loop
from overlord_bench._contenders.numpy_packer import Batch


def job_config(work: dict[str, Any]) -> dict[str, Any]:
    """The job of the delivery benchmark."""
    source: dict[str, Any] = {"files": [f"{work['folder']}/*.{work['format']}"]}
    if work["format"] == "parquet":
        source["tokens"] = work["column"]
    source.update(work.get("source", {}))
    return {
        "job": "bench",
        "seed": 7,
        "context": work["context"],
        "bins": work["bins"],
        "vocabulary": work["vocabulary"],
        "at_end": "repeat",
        "sources": {"web": source},
        "mixture": {"weights": {"web": 1.0}},
        "packing": {"method": work.get("method", "best_fit")},
        "delivery": {"microbatch_size": work["bins"]},
        "runtime": dict(work.get("runtime", {})),
        "index_dir": f"{work['folder']}/index-{work['format']}",
    }


def name_fields(batch: Any) -> Batch:
    """The five fields of a microbatch."""
    return {
        "tokens": batch.tokens,
        "targets": batch.targets,
        "positions": batch.positions,
        "loss_weights": batch.loss_weights,
        "cu_seqlens": batch.cu_seqlens,
    }


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run, with what the engine counted per step."""
    import overlord as ol

    engine = work.get("engine", "embedded")
    with ol.job(job_config(work)).train(rank=0, engine=engine) as loader:
        figures = run_loop(loader, work, name_fields)
        return {"version": ol.__version__, **figures, "engine": engine_times(loader.status())}


def engine_times(status: dict[str, Any]) -> dict[str, float]:
    """Microseconds of each kind of work per planned step, over the whole run."""
    steps = max(1, status["planner"]["plans"])
    totals = {
        "planning": status["planner"]["planning_ns"],
        "assemble": sum(part["assemble_ns"] for part in status["constructors"]),
        "transform": sum(part["transform_ns"] for part in status["loaders"]),
        "busy": status["executor"]["busy_ns"],
    }
    return {f"{key}_us_per_step": round(total / steps / 1e3, 1) for key, total in totals.items()}
