"""A trainer of all ranks of a job: how fast it is fed, and which of its steps come too late."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overlord._version import __version__

from overlord_bench import _fleet

_LOOK_S = 0.05


@contextlib.contextmanager
def started(work: dict[str, Any]) -> Iterator[Any]:
    """The job's ranks, all in this process."""
    import overlord as ol

    job = ol.job(work["config"], mesh=ol.mesh(**work["mesh"]))
    try:
        with job.train(ranks="all", engine="processes") as loaders:
            yield loaders
    finally:
        _fleet.wait_until_served_by_none(work["directory"])


def tokens_of(step: dict[int, list[Any]]) -> int:
    """Of documents, not of padding."""
    return sum(int(batch.cu_seqlens[-1]) for batches in step.values() for batch in batches)


def until_elsewhere(loaders: Any, hosts: int, seconds: float) -> dict[str, int]:
    """Waits until all loaders live on so many joined hosts; how many processes each has."""
    from overlord._src.node.watch import watch_of

    watch, deadline = watch_of(loaders), time.monotonic() + seconds
    assert watch is not None
    while True:
        found: dict[str, int] = {}
        for item in watch.look()["processes"]:
            if item["name"].startswith("loaders"):
                found[item["host"]] = found.get(item["host"], 0) + 1
        if len(found) == hosts and all(host.startswith("joined-") for host in found):
            return found
        if time.monotonic() > deadline:
            raise RuntimeError(f"loaders live on {found}, and {hosts} joined hosts are wanted")
        time.sleep(_LOOK_S)


def busy_seconds(cores: list[int]) -> float:
    """CPU seconds that these cores have worked so far, for whomever."""
    wanted, total = {f"cpu{core}" for core in cores}, 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name in wanted:
            user, nice, system, _, _, irq, softirq = (int(word) for word in ticks[:7])
            total += user + nice + system + irq + softirq
    return total / 100


def _worked(loaders: Any) -> dict[str, float]:
    """What loaders have read and done since they began, of all sources."""
    from overlord._src.node.watch import watch_of

    watch = watch_of(loaders)
    assert watch is not None
    return {"rows": sum(float(one["rows"]) for one in watch.look()["sources"])}


def rate(work: dict[str, Any]) -> dict[str, Any]:
    """Steps as fast as they come: `warmup` of them, then `steps`, or those of `seconds`.

    A warm-up also lasts `warmup_s`, in which processes that were moved start. `elsewhere`: joined
    hosts that all loaders must have moved to before.
    """
    began = time.perf_counter()
    with started(work) as loaders:
        steps = loaders.steps()
        next(steps)
        first_s = time.perf_counter() - began
        told: dict[str, Any] = {"version": __version__, "first_step_s": first_s}
        if work.get("elsewhere"):
            told["loader_processes"] = until_elsewhere(loaders, work["elsewhere"], 30.0)
        warm_until = time.perf_counter() + work.get("warmup_s", 0.0)
        taken = 1
        while taken < work.get("warmup", 0) or time.perf_counter() < warm_until:
            next(steps)
            taken += 1
        before = {name: busy_seconds(cores) for name, cores in work.get("busy", {}).items()}
        rows, taken, tokens, waits = _worked(loaders)["rows"], 0, 0, []
        now = began = time.perf_counter()
        most, until = work.get("steps", 1 << 60), began + work.get("seconds", 1e9)
        while taken < most and now < until:
            tokens += tokens_of(next(steps))
            taken, asked, now = taken + 1, now, time.perf_counter()
            waits.append(now - asked)
        wall = now - began
        for name, cores in work.get("busy", {}).items():
            told[f"{name}_busy"] = (busy_seconds(cores) - before[name]) / wall / len(cores)
        rows = _worked(loaders)["rows"] - rows
    return {
        **told,
        "tokens_per_s": tokens / wall,
        "steps_per_s": taken / wall,
        "rows_per_s": rows / wall,
        "p50_ms": statistics.median(waits) * 1e3,
        "longest_ms": max(waits) * 1e3,
        "steps": taken,
        "seconds": wall,
    }


def paced(work: dict[str, Any]) -> dict[str, Any]:
    """A step is trained for `period_s` each; how long every `next()` took."""
    waits = []
    with started(work) as loaders:
        steps = loaders.steps()
        for _ in range(work["steps"]):
            asked = time.perf_counter()
            next(steps)
            waits.append((time.perf_counter() - asked) * 1e3)
            time.sleep(work["period_s"])
    return {"version": __version__, "waits_ms": waits, "period_s": work["period_s"]}


MEASURES = {"rate": rate, "paced": paced}


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """One of them."""
    told: dict[str, Any] = MEASURES[work["measure"]](work)
    return told
