"""The paper's Fig 12: loaders in every rank, one plain loader a source, and `auto`.

Memory of all processes of a host and the time of a step that nobody trains, for a few sources and
for many. Colocated is torch's DataLoader in every rank, whose workers keep all sources open; plain
is one loader with one worker for each source, shared by all ranks; auto is what `overlord
partition` makes of its profiles.
"""

from __future__ import annotations

from typing import Any

from overlord_bench._contenders import held_loader
from overlord_bench._contract import Figures
from overlord_bench._peers import is_measured
from overlord_bench.scaling import _fleets
from overlord_bench.scaling._bench import Bench, partition
from overlord_bench.scaling._sizes import AUTO

AIMS = {"fig12_auto": "plots; where auto loses is said"}
SMALL = 5  # sources
PLAIN = {"loaders": 1, "workers": 1}
COMPARED = ("pss_bytes", "fetch_ms_p50", "fetch_ms_p99")


def auto_sizes(bench: Bench, sources: int) -> dict[str, int]:
    """Leaves sizes for `auto`, from a short run that leaves profiles; how many loaders have which.

    The run is of one rank that reads what all data-parallel groups would.
    """
    config = held_loader.job_config(
        {**_fleets.job_of(bench, sources, sized=PLAIN), "directory": ""}
    )
    config["delivery"] = {"microbatch_size": config["bins"]}
    told = bench.measure(f"loaders/profile/{sources}", "rate", config, warmup=1, steps=8)
    if not is_measured(told):
        return {}
    counted: dict[str, int] = {}
    for size in partition(bench, config, bench.options.cores)["sizes"]:
        key = f"{size['loaders']}x{size['workers']}"
        counted[key] = counted.get(key, 0) + 1
    return counted


def compare(bench: Bench, name: str, sources: int) -> Figures:
    """Everybody at one size."""
    setups: dict[str, dict[str, Any]] = {
        _fleets.COLOCATED: {"kind": "torch"},
        "plain": {"sized": PLAIN},
        AUTO: {"sized": {"loaders": AUTO, "workers": AUTO}},
    }
    figures: Figures = {}
    for way, setup in setups.items():
        if way == AUTO:
            sizes = auto_sizes(bench, sources)
            figures[f"fig12_{name}_auto_sizes"] = ", ".join(
                f"{count} of {size}" for size, count in sorted(sizes.items())
            )
        told = _fleets.measure(bench, way, sources, **setup)
        for key in COMPARED:
            if key in told:
                figures[f"fig12_{name}_{way}_{key}"] = told[key]
    return figures | ratios(name, figures)


def ratios(name: str, figures: Figures) -> Figures:
    """`auto` over the others: under 1 it needs less."""
    out: Figures = {}
    for key in COMPARED:
        auto = figures.get(f"fig12_{name}_{AUTO}_{key}")
        for other in (_fleets.COLOCATED, "plain"):
            theirs = figures.get(f"fig12_{name}_{other}_{key}")
            if auto and theirs:
                out[f"fig12_{name}_auto_vs_{other}_{key}"] = auto / theirs
    return out


def loses(figures: Figures) -> str:
    """Where `auto` needs more than somebody else, by more than a tenth."""
    found = [
        key.removeprefix("fig12_")
        for key, value in figures.items()
        if "_auto_vs_" in key and value > 1.1
    ]
    return ", ".join(found) or "nowhere"


def run(bench: Bench) -> Figures:
    """Few sources and many."""
    figures = compare(bench, "small", min(SMALL, bench.options.sources))
    figures |= compare(bench, "large", bench.options.sources)
    return figures | {"fig12_auto_loses": loses(figures)}
