"""A mixture that turns to a heavy source: `stalled_steps`, of a trainer at 0.8 of capacity.

The heavy source has long texts to tokenise, the light one tokens that need no work. At step N the
weight of the heavy one jumps from 0.05 to 0.9, seconds after the start: sources that grow are
looked at twice a second. Capacity is that of the second mixture with loaders that are enough for
it. Everybody has the same cores, threads and tokenizer processes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from overlord_bench._contract import Figures
from overlord_bench._peers import is_measured
from overlord_bench.scaling import _paced
from overlord_bench.scaling._bench import Bench
from overlord_bench.scaling._sizes import Size, engine, sized
from overlord_bench.scaling._sources import Sources

AIMS = {"stalled_steps_auto": "0"}
BEFORE = {"light": 0.95, "heavy": 0.05}
AFTER = {"light": 0.1, "heavy": 0.9}
QUICK = ("plain",)
AHEAD = 8  # steps that are made before the trainer comes to them
FIRST_S = 5.0  # that the first mixture lasts


def contenders(cores: int) -> dict[str, dict[str, Size]]:
    """Sizes of both sources, by name; `ample` is enough for both mixtures."""
    return {
        "plain": {"light": (1, 1), "heavy": (1, 1)},
        "before": {"light": (cores, 2), "heavy": (1, 1)},  # as the first mixture wants it
        "ample": {"light": (1, 2), "heavy": (cores, 2)},
    }


def growing(config: Mapping[str, Any], cores: int) -> dict[str, Any]:
    """The plain job, whose sources may grow to what `ample` has."""
    sources = {
        name: {**source, "most_loaders": cores, "workers": 2}
        for name, source in config["sources"].items()
    }
    scaling = {"interval_seconds": 0.5}
    return {**config, "sources": sources, "runtime": {**config["runtime"], "scaling": scaling}}


def job_of(sources: Sources, cores: int, turn: int) -> dict[str, Any]:
    """Both sources, with the weights of two stages."""
    named = {"light": sources.ready(), "heavy": sources.text("long")}
    stages = [
        {"steps": [0, turn], "weights": BEFORE},
        {"steps": [turn, None], "weights": AFTER},
    ]
    bins = max(4, 2 * cores)
    more = {"bins": bins, "delivery": {"microbatch_size": bins}, "runtime": engine(cores)}
    return sources.job("shift", named, {"stages": stages}, **more)


def run(bench: Bench) -> Figures:
    """Capacity of the second mixture, then everybody at the same pace."""
    options = bench.options
    turn, after = (2, 6) if options.quick else (24, 40)
    sources = Sources(options.data, documents=options.documents, times=32)
    sources.prepare()
    config = job_of(sources, options.cores, turn)
    sizes = contenders(options.cores)
    told = _paced.capacity(
        bench, "shift/capacity", sized(config, sizes["ample"]), turn + AHEAD, after
    )
    if not is_measured(told):
        return {}
    step_s, found = told["step_s"], dict[str, Figures]()
    if not options.quick:
        turn = max(turn, math.ceil(FIRST_S * _paced.SHARE / step_s))
        config = job_of(sources, options.cores, turn)
    for name in QUICK if options.quick else sizes:
        job = sized(config, sizes[name])
        found[name] = _paced.paced(bench, f"shift/{name}", job, step_s, turn + after)
    if not options.quick:
        job = growing(config, options.cores)
        found["auto"] = _paced.paced(bench, "shift/auto", job, step_s, turn + after)
    return figures_of(found, step_s, turn)


def figures_of(found: Mapping[str, Figures], step_s: float, turn: int) -> Figures:
    """Stalled steps of everybody who ran: from the turn on, and before, where it is the start's."""
    figures: Figures = {"shift_capacity_step_ms": step_s * 1e3, "shift_turn": turn}
    for name, told in found.items():
        if is_measured(told):
            since = sum(step >= turn for step in told["stalled"])
            figures[f"stalled_steps_{name}"] = since
            figures[f"shift_stalled_before_{name}"] = told["stalled_steps"] - since
            figures[f"shift_longest_wait_ms_{name}"] = max(told["waits_ms"][turn:])
    return figures
