"""Ranks as processes over many Parquet sources: memory of all of them, and how long steps take."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overlord._version import __version__

from overlord_bench import _fleet, _mixed_sources, memory
from overlord_bench._contract import Figures
from overlord_bench._peers import Contender
from overlord_bench.scaling._bench import Bench

COLOCATED = "colocated"
WORKERS = 2  # of every rank's own loader
STARTING = 2  # steps that are not timed
MICROBATCHES = 2  # of a step


def job_of(bench: Bench, sources: int, **setup: Any) -> dict[str, Any]:
    """What every rank is told."""
    mixed = _mixed_sources.MixedSources(sources=sources)
    return {
        "kind": "overlord",
        "folder": str(_mixed_sources.prepare(mixed, bench.options.data)),
        "sources": sources,
        "vocabulary": 50_000,
        "mesh": memory.MESHES[bench.options.ranks],
        "context": 4096,
        "bins": 4,
        "microbatches": MICROBATCHES,
        "prefetch": 2,
        "steps": STARTING + bench.options.steps,
        "workers": WORKERS,
        **setup,
    }


def measure(bench: Bench, key: str, sources: int, **setup: Any) -> Figures:
    """A fleet, without the memory of ranks that only import what it needs; measured once."""
    key = f"fleet/{key}/{sources}"
    if key in bench.found:
        return bench.found[key]
    work = job_of(bench, sources, **setup)
    is_peer = work["kind"] != "overlord"
    python = bench.pythons.of(Contender(key, "", is_peer=is_peer)) or bench.pythons.ours
    ranks = bench.options.ranks
    with tempfile.TemporaryDirectory(prefix="ol-sc-") as waits:
        try:
            empty = _empty(bench, python, work)
            found = _fleet.measure(python, bench.path, {**work, "waits": waits}, ranks)
        except _fleet.FleetError as error:
            kind, _, reason = str(error).partition(" ")
            known = kind if kind in ("missing", "failed") else "failed"
            return bench.keep(key, {known: reason or str(error)})
        times = step_times(Path(waits), 1 if work["kind"] == "overlord" else MICROBATCHES)
    told = {
        "version": __version__,
        "pss_bytes": found.pss - empty,
        "processes": found.processes,
        "by_kind": found.by_kind,
        **times,
    }
    return bench.keep(key, told)


def _empty(bench: Bench, python: str, work: Mapping[str, Any]) -> int:
    key = f"fleet/empty/{work['kind']}"
    if key not in bench.found:
        work = {**work, "empty": True}
        found = _fleet.measure(python, bench.path, work, bench.options.ranks)
        bench.keep(key, {"version": __version__, "pss_bytes": found.pss})
    size: int = bench.found[key]["pss_bytes"]
    return size


def step_times(folder: Path, parts: int) -> Figures:
    """Of all ranks; `parts`: calls that make a step."""
    steps: list[float] = []
    for path in sorted(folder.glob("*.json")):
        waits = json.loads(path.read_text())[STARTING * parts :]
        steps += [sum(waits[at : at + parts]) for at in range(0, len(waits), parts)]
    if not steps:
        return {}
    steps.sort()
    return {
        "fetch_ms_p50": statistics.median(steps) * 1e3,
        "fetch_ms_p99": steps[int(0.99 * (len(steps) - 1))] * 1e3,
        "fetch_ms_mean": statistics.mean(steps) * 1e3,
    }
