"""The paper's Fig 15: memory by source parallelism, 1 to 8.

Sources split over k processes of loaders (the paper's source parallelism), and every source read by
k loaders, one in each of as many processes. Memory is that of all processes of loaders, and of
the largest of them.
"""

from __future__ import annotations

from overlord_bench._contract import Figures
from overlord_bench.scaling import _fleets
from overlord_bench.scaling._bench import Bench

AIMS = {"fig15": "plots with the paper's claim beside"}
CLAIM = "Fig 15 (TP 16, DP 2, batch 32): splitting sources over two loaders cuts memory a lot"
COUNTS = (1, 2, 4, 8)


def run(bench: Bench) -> Figures:
    """Both ways to have more loaders."""
    figures: Figures = {"fig15_paper": CLAIM}
    quick = bench.options.quick
    for count in (2,) if quick else COUNTS:
        ways = {"split": {"processes": {"loaders": count}}}
        if not quick:
            ways["loaders"] = {**ways["split"], "ablation": {"uniform_loaders": count}}
        for name, runtime in ways.items():
            key = f"parallelism/{name}_{count}"
            told = _fleets.measure(bench, key, bench.options.sources, runtime=runtime)
            if "by_kind" in told:
                size = told["by_kind"].get("loaders", 0)
                figures[f"fig15_{name}_{count}_bytes"] = size
                figures[f"fig15_{name}_{count}_bytes_each"] = size / count
                figures[f"fig15_{name}_{count}_fetch_ms_p50"] = told.get("fetch_ms_p50")
    return figures
