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
_WAITED_S = 0.002
_MOST_AHEAD = 32


@contextlib.contextmanager
def started(work: dict[str, Any]) -> Iterator[Any]:
    """The job's ranks, all in this process."""
    import overlord as ol

    job, engine = ol.job(work["config"], mesh=ol.mesh(**work["mesh"])), work.get("engine")
    try:
        with job.train(ranks="all", engine=engine or "processes") as loaders:
            yield loaders
    finally:
        if engine != "ray":  # whose keeper waits for others
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


class Taker:
    """Takes steps and knows how long each took to come."""

    def __init__(self, loaders: Any) -> None:
        self._steps = loaders.steps()
        self.waits_s: list[float] = []
        self.tokens = 0

    def take(self) -> None:
        """One step."""
        asked = time.perf_counter()
        step = next(self._steps)
        self.waits_s.append(time.perf_counter() - asked)
        self.tokens += tokens_of(step)

    def take_made_ahead(self) -> None:
        """Steps that are there, up to one that has to be waited for; not more than a few."""
        for _ in range(_MOST_AHEAD):
            self.take()
            if self.waits_s[-1] > _WAITED_S:
                return


def rate(work: dict[str, Any]) -> dict[str, Any]:
    """Steps as fast as they come: `warmup` of them, then `steps`, or those of `seconds`.

    Steps come in bursts, as windows of rows do: the clock of `seconds` starts and stops behind one
    that was waited for. A warm-up also lasts `warmup_s`, in which processes that were moved start.
    `elsewhere`: joined hosts that all loaders must have moved to before. `resize`: behind the
    warm-up a source gets another number of loaders, and `settle_s` go by before the clock starts.
    """
    told: dict[str, Any] = {"version": __version__}
    began = time.perf_counter()
    with started(work) as loaders:
        warm = Taker(loaders)
        warm.take()
        told["first_step_s"] = time.perf_counter() - began
        if work.get("elsewhere"):
            told["loader_processes"] = until_elsewhere(loaders, work["elsewhere"], 30.0)
        warm_until = time.perf_counter() + work.get("warmup_s", 0.0)
        while len(warm.waits_s) < work.get("warmup", 0) or time.perf_counter() < warm_until:
            warm.take()
        if "resize" in work:
            loaders.resize(*work["resize"])
            settled = time.perf_counter() + work["settle_s"]
            while time.perf_counter() < settled:
                warm.take()
        if "seconds" in work:
            warm.take_made_ahead()
        before = {name: busy_seconds(cores) for name, cores in work.get("busy", {}).items()}
        taker, began = Taker(loaders), time.perf_counter()
        if "seconds" in work:
            while time.perf_counter() < began + work["seconds"]:
                taker.take()
            taker.take_made_ahead()
        else:
            for _ in range(work["steps"]):
                taker.take()
        wall = time.perf_counter() - began
        for name, cores in work.get("busy", {}).items():
            told[f"{name}_busy"] = (busy_seconds(cores) - before[name]) / wall / len(cores)
    return {
        **told,
        "tokens_per_s": taker.tokens / wall,
        "steps_per_s": len(taker.waits_s) / wall,
        "p50_ms": statistics.median(taker.waits_s) * 1e3,
        "longest_ms": max(taker.waits_s) * 1e3,
        "steps": len(taker.waits_s),
        "seconds": wall,
    }


def paced(work: dict[str, Any]) -> dict[str, Any]:
    """A step is trained for `period_s` each; how long every `next()` took.

    `resize`: by step, a source and how many loaders it has from then on.
    """
    waits, wishes = [], work.get("resize", {})
    with started(work) as loaders:
        steps = loaders.steps()
        for step in range(work["steps"]):
            if str(step) in wishes:
                loaders.resize(*wishes[str(step)])
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
