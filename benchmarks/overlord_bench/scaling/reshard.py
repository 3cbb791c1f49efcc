"""A source read by 4 and by 16 loaders, with a trainer at 0.8 of the lesser capacity.

What each fixed number of loaders can do, how many steps of a paced run are not ready in time, and
the same of a run in which they become 16 and then 4 again: `reshard_stalled_steps`. What a run that
has become as large as another can do two seconds later, against it: `reshard_throughput_after`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlord_bench._contract import Figures
from overlord_bench._peers import is_measured
from overlord_bench.scaling import _paced
from overlord_bench.scaling._bench import Bench
from overlord_bench.scaling._sizes import engine, sized
from overlord_bench.scaling._sources import Sources
from overlord_bench.scaling.shift import AHEAD

AIMS = {"reshard_stalled_steps": "0", "reshard_throughput_after": ">= 0.95"}
LOADERS = (4, 16)
SETTLE_S = 2.0


def job_of(sources: Sources, cores: int) -> dict[str, Any]:
    """One source of texts."""
    bins = max(4, 2 * cores)
    more = {"bins": bins, "delivery": {"microbatch_size": bins}, "runtime": engine(cores)}
    return sources.job("reshard", {"heavy": sources.text("web")}, {"heavy": 1.0}, **more)


def run(bench: Bench) -> Figures:
    """Both numbers of loaders, as fast as they can and at a pace that both can keep."""
    options = bench.options
    steps = 8 if options.quick else 40
    sources = Sources(options.data, documents=options.documents, times=32)
    sources.prepare()
    config = job_of(sources, options.cores)
    fixed = {count: sized(config, (count, 1)) for count in LOADERS}
    found = {
        count: _paced.capacity(bench, f"reshard/capacity/{count}", job, AHEAD, steps)
        for count, job in fixed.items()
    }
    if not all(map(is_measured, found.values())):
        return {}
    slowest_s = max(told["step_s"] for told in found.values())
    for count, job in fixed.items():
        pace = _paced.paced(bench, f"reshard/{count}", job, slowest_s, steps)
        found[count] = {**found[count], **pace}
    figures = figures_of(found)
    wishes = {str(steps // 3): ("heavy", LOADERS[1]), str(2 * steps // 3): ("heavy", LOADERS[0])}
    growing = {**config["sources"]["heavy"], "loaders": 4, "workers": 1, "most_loaders": 16}
    runtime = {**config["runtime"], "scaling": {"policy": "off"}}
    job = {**config, "sources": {"heavy": growing}, "runtime": runtime}
    told = _paced.paced(bench, "reshard/4-16-4", job, slowest_s, steps, resize=wishes)
    if is_measured(told):
        figures["reshard_stalled_steps"] = told["stalled_steps"]
        figures["reshard_longest_wait_ms"] = told["longest_wait_ms"]
    return figures | throughput_after(bench, job, found, steps)


def throughput_after(
    bench: Bench, job: Mapping[str, Any], fixed: Mapping[int, Figures], steps: int
) -> Figures:
    """Tokens a second soon after a change of size, over those of the size that never changed."""
    figures: Figures = {}
    for before, after in (LOADERS, LOADERS[::-1]):
        sources = {"heavy": {**job["sources"]["heavy"], "loaders": before}}
        changed = {"resize": ["heavy", after], "settle_s": SETTLE_S}
        key = f"reshard/after/{before}-{after}"
        told = _paced.capacity(bench, key, {**job, "sources": sources}, AHEAD, steps, **changed)
        if is_measured(told):
            ratio = told["tokens_per_s"] / fixed[after]["tokens_per_s"]
            figures[f"reshard_throughput_{before}_to_{after}"] = ratio
    if len(figures) == 2:
        figures["reshard_throughput_after"] = min(figures.values())
    return figures


def figures_of(found: Mapping[int, Figures]) -> Figures:
    """Of every number of loaders."""
    figures: Figures = {}
    for count, told in found.items():
        figures[f"reshard_tokens_per_s_{count}_loaders"] = told["tokens_per_s"]
        if "stalled_steps" in told:
            figures[f"reshard_stalled_steps_{count}_loaders"] = told["stalled_steps"]
    return figures
