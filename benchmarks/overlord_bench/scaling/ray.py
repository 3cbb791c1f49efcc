"""A job on a Ray cluster of this machine: how long loaders take to their places, and what is
delivered, against the same job with `engine="processes"`.

Loaders live in slots, slots in processes, processes on hosts without ranks, and each host is an
actor: 64 slots in 8 actors, and one by one (`--actors`). The keeper's host has as many as an actor.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from overlord._version import __version__

from overlord_bench._contract import Figures
from overlord_bench._peers import is_measured
from overlord_bench.scaling._bench import Bench, written_job
from overlord_bench.scaling._network import PORT
from overlord_bench.scaling._sources import Sources

AIMS = {"ray_placement_8_actors_s": "<= 20", "ray_delivery_ratio": ">= 0.95"}
SOURCES, SLOTS = 8, 64
_PATIENCE_S = 600.0
_LOOK_S = 0.05


def job_of(sources: Sources, slots: int, processes: int) -> dict[str, Any]:
    """Ready tokens of eight sources, whose slots are dealt over so many processes."""
    few, more = divmod(slots, SOURCES)
    read = {
        f"ready{number}": {**sources.ready(), "loaders": few + (number < more)}
        for number in range(SOURCES)
    }
    wire = {"planner": f"127.0.0.1:{PORT}", "host": "127.0.0.1", "joinable": True}
    runtime = {"prefetch": 4, "runway": 8, "payload_budget": "64MB", "wire": wire}
    runtime["processes"] = {"loaders": processes}
    return sources.job(
        f"ray-{slots}-{processes}", read, dict.fromkeys(read, 1.0), bins=8, runtime=runtime
    )


@contextlib.contextmanager
def cluster(cores: int) -> Iterator[Any]:
    """One of its own, for as long as it is measured; what Ray counts as cores are none."""
    import ray

    ray.init("local", num_cpus=cores, include_dashboard=False, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()


def placed(config: Mapping[str, Any], hosts: int) -> Figures:
    """Seconds from `launch` until so many hosts have loaders, all of which live and are read."""
    from overlord._src.node.watch import watch_of

    import overlord as ol

    began = time.perf_counter()
    with written_job(config) as job:
        mesh = ol.mesh(dp=1)
        launched = ol.ray.launch(job["config"], mesh=mesh, loader_hosts=hosts, seconds=_PATIENCE_S)
        told: Figures = {"version": __version__, "launch_s": time.perf_counter() - began}
        try:
            with ol.job(job["config"], mesh=mesh).train(ranks="all", engine="ray") as loaders:
                next(loaders.steps())
                told["first_step_s"] = time.perf_counter() - began
                watch = watch_of(loaders)
                assert watch is not None
                while (living := living_now(watch)) is None or len(living) < hosts:
                    if time.perf_counter() - began > _PATIENCE_S:
                        return {"failed": f"after {_PATIENCE_S:g} s loaders live on {living}"}
                    time.sleep(_LOOK_S)
                told["placed_s"] = time.perf_counter() - began
                told["loader_processes"] = sum(living.values())
        finally:
            launched.close()
    return told


def living_now(watch: Any) -> dict[str, int] | None:
    """None, too, while all cores start actors and the node has no time to answer."""
    import overlord as ol

    with contextlib.suppress(ol.DeadlineError):
        return living_on(watch.look())
    return None


def living_on(seen: Mapping[str, Any]) -> dict[str, int] | None:
    """How many groups of loaders every joined host has; None while one is not there."""
    out: dict[str, int] = {}
    for item in seen["processes"]:
        if not item["name"].startswith("loaders"):
            continue
        if not item["connected"]:
            return None
        if item["host"].startswith("joined-"):
            out[item["host"]] = out.get(item["host"], 0) + 1
    return out


def delivered(bench: Bench, config: Mapping[str, Any], turn: int) -> dict[str, Figures]:
    """Steps as fast as they come, with both engines in turn, beside the same idle cluster."""
    import overlord as ol

    found: dict[str, Figures] = {}
    for engine in ("processes", "ray") if turn % 2 == 0 else ("ray", "processes"):
        key, work = f"ray/{engine}/{turn}", {"warmup": 20, "seconds": bench.options.seconds}
        with written_job(config) as job:
            if engine == "processes":
                found[engine] = bench.measure_written(key, "rate", job, **work)
                continue
            launched = ol.ray.launch(job["config"], mesh=ol.mesh(dp=1))
            try:
                found[engine] = bench.measure_written(key, "rate", job, engine="ray", **work)
            finally:
                launched.close()
    return found


def run(bench: Bench) -> Figures:
    """Both, where Ray is installed."""
    options = bench.options
    try:
        import ray  # noqa: F401
    except ImportError as error:
        bench.keep("ray", {"missing": str(error)})
        return {}
    sources = Sources(Path(options.data), documents=options.documents)
    sources.prepare()
    figures: Figures = {}
    with cluster(2 + max(options.actors)):
        config = job_of(sources, SOURCES, 1)
        rounds = [delivered(bench, config, turn) for turn in range(options.rounds)]
        figures |= figures_of(rounds)
        for actors in options.actors:
            config = job_of(sources, SLOTS + SLOTS // actors, actors + 1)
            told = bench.keep(f"ray/placed/{actors}", placed(config, actors))
            if is_measured(told):
                figures[f"ray_placement_{actors}_actors_s"] = told["placed_s"]
    return figures


def figures_of(rounds: list[dict[str, Figures]]) -> Figures:
    """Medians of the engines, and of their ratio in each round."""
    rounds = [found for found in rounds if all(map(is_measured, found.values()))]
    if not rounds:
        return {}
    rates = {engine: [found[engine]["steps_per_s"] for found in rounds] for engine in rounds[0]}
    ratios = [ours / theirs for ours, theirs in zip(rates["ray"], rates["processes"], strict=True)]
    figures = {
        f"ray_delivery_{engine}_steps_per_s": statistics.median(each)
        for engine, each in rates.items()
    }
    return figures | {"ray_delivery_ratio": statistics.median(ratios)}
