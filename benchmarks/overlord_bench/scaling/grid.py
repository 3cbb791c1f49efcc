"""`loaders: auto` against a grid of fixed sizes: `auto_vs_grid`.

Three workloads on the same cores and budgets: texts, pictures, and a curriculum that turns from one
to the other. A fixed size is one of all sources. `auto` has what `overlord partition` makes of the
profiles of a run with the default sizes. The best of the grid and `auto` then run again in turn,
because the best of many runs is also the luckiest; what counts are medians of these.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from overlord_bench._contract import Figures
from overlord_bench._peers import is_measured
from overlord_bench.scaling._bench import Bench, partition
from overlord_bench.scaling._sizes import AUTO, Size, engine, on_cores, sized
from overlord_bench.scaling._sources import Sources

AIMS = {"auto_vs_grid": ">= 0.95"}
DEFAULT: Size = (1, 2)  # of a job that says nothing
GRID: tuple[Size, ...] = tuple((loaders, workers) for loaders in (1, 2, 4) for workers in (1, 2, 4))
QUICK: tuple[Size, ...] = (DEFAULT,)
WARMUP = 10  # steps: more than are made ahead
BEFORE, AFTER = 64, 24  # steps of the curriculum's two stages


@dataclass(frozen=True)
class Workload:
    """Sources with a mixture; `bins`: sequences of a step for every core."""

    sources: dict[str, Any]
    mixture: Any
    bins: float
    steps: int = 0  # that are measured; 0: for a while


def text_heavy(sources: Sources) -> Workload:
    """Short and long texts beside tokens that need no work."""
    named = {"web": sources.text(), "long": sources.text("long"), "ready": sources.ready()}
    return Workload(named, {"web": 0.5, "long": 0.3, "ready": 0.2}, 4)


def image_heavy(sources: Sources) -> Workload:
    """Pictures, and some texts."""
    named = {"picture": sources.picture(), "web": sources.text()}
    return Workload(named, {"picture": 0.7, "web": 0.3}, 0.5)


def curriculum(sources: Sources) -> Workload:
    """Hardly any picture first, then as many as take most of the time."""
    stages = [
        {"steps": [0, BEFORE], "weights": {"picture": 0.005, "web": 0.995}},
        {"steps": [BEFORE, None], "weights": {"picture": 0.2, "web": 0.8}},
    ]
    steps = BEFORE + AFTER - WARMUP
    return Workload(image_heavy(sources).sources, {"stages": stages}, 2, steps)


WORKLOADS: dict[str, Callable[[Sources], Workload]] = {
    "text": text_heavy,
    "images": image_heavy,
    "curriculum": curriculum,
}


class _Comparison:
    """One workload on this machine."""

    def __init__(self, bench: Bench, sources: Sources, name: str) -> None:
        self._bench, self._name = bench, name
        self._cores = min(bench.options.cores, len(on_cores(1 << 20).cores))
        work = WORKLOADS[name](sources)
        bins = max(2, round(self._cores * work.bins))
        more = {"bins": bins, "delivery": {"microbatch_size": bins}}
        engine_of = engine(self._cores)
        self._config = sources.job(name, work.sources, work.mixture, **more, runtime=engine_of)
        self._planned = work.steps + WARMUP if work.steps else 16
        warmup = 1 if bench.options.quick else WARMUP
        self._work: dict[str, Any] = {"warmup": warmup, "seconds": bench.options.seconds / 5}
        if work.steps:
            self._work = {"warmup": WARMUP, "steps": work.steps}

    def run(self, size: Size, turn: int | str = "grid") -> float | None:
        """Tokens a second."""
        key = f"grid/{self._name}/{size[0]}x{size[1]}/{turn}"
        config = sized(self._config, size)
        told = self._bench.measure(key, "rate", config, on_cores(self._cores), **self._work)
        return told["tokens_per_s"] if is_measured(told) else None

    def size_it(self) -> dict[str, Any]:
        """As `overlord partition` does, from the profiles of the run before."""
        words = ("--steps", str(self._planned))
        told = partition(self._bench, sized(self._config, DEFAULT), self._cores, *words)
        kept = ("name", "loaders", "workers", "work_ns", "wait_ns", "rows_per_step", "reason")
        return {size["name"]: {key: size[key] for key in kept} for size in told["sizes"]}

    def compare(self) -> Figures:
        """The grid, and `auto` against its best."""
        options = self._bench.options
        found: dict[Size, float | None] = {DEFAULT: self.run(DEFAULT)}
        sizes = self.size_it()
        grid = QUICK if options.quick else GRID
        found |= {size: self.run(size) for size in grid if size != DEFAULT}
        rates = {size: rate for size, rate in found.items() if rate}
        if not rates:
            return {}
        best = max(rates, key=rates.__getitem__)
        again: dict[str, list[float]] = {AUTO: [], "best": []}
        for turn in range(options.rounds):
            for name, size in ((AUTO, (AUTO, AUTO)), ("best", best)):
                if rate := self.run(size, turn):
                    again[name].append(rate)
        return ratios(self._name, best, again, sizes)


def ratios(
    name: str, best: Size, again: Mapping[str, list[float]], sizes: Mapping[str, Any]
) -> Figures:
    """Of one workload; nothing where a side has not run."""
    if not again[AUTO] or not again["best"]:
        return {}
    auto, fixed = statistics.median(again[AUTO]), statistics.median(again["best"])
    chosen = {source: f"{size['loaders']}x{size['workers']}" for source, size in sizes.items()}
    return {
        f"auto_vs_grid_{name}": auto / fixed,
        f"auto_{name}_tokens_per_s": auto,
        f"grid_{name}_best": f"{best[0]}x{best[1]}",
        f"grid_{name}_best_tokens_per_s": fixed,
        f"auto_{name}_sizes": ", ".join(f"{source} {size}" for source, size in chosen.items()),
    }


def run(bench: Bench) -> Figures:
    """All workloads; the worst is the figure."""
    quick = bench.options.quick
    sources = Sources(bench.options.data, documents=bench.options.documents, times=32)
    sources.prepare(pictures=not quick)
    figures: Figures = {}
    for name in ("text",) if quick else WORKLOADS:
        figures |= _Comparison(bench, sources, name).compare()
    worst = [value for key, value in figures.items() if key.startswith("auto_vs_grid_")]
    return figures | ({"auto_vs_grid": min(worst)} if worst else {})
