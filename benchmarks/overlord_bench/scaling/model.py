"""The paper's Figs 14 and 17: memory of roles over that of colocated loaders, as modelled.

The closed forms are those of `overlord simulate`; the state of an open source, the buffer of a
worker and the base of a constructor are measured here: fleets of few and of many sources.
"""

from __future__ import annotations

from dataclasses import replace

from overlord._src.simulate.memory import APPENDIX_A, CONSTANTS, MemoryConstants, ratio

from overlord_bench import memory
from overlord_bench._contract import Figures
from overlord_bench._peers import is_measured
from overlord_bench.scaling import _fleets
from overlord_bench.scaling._bench import Bench
from overlord_bench.scaling.loaders import PLAIN, SMALL

AIMS = {
    "fig14": "plots with the paper's claim beside",
    "fig17": "plots with the paper's claim beside",
}
CLAIMS = {
    "fig14_paper": "slightly above 1 at CP = PP = 1, falls as CP and PP grow",
    "fig17_paper": "a larger batch raises it; more workers, or nodes with CP and PP, lower it",
}
PLACES = ((1, 1), (2, 2), (8, 8))  # CP, PP
_DOCUMENT_BYTES = 1400  # of a sample: 350 tokens at 32 bits


def constants_of(
    few: Figures, many: Figures, ours: Figures, ranks: int, sources: tuple[int, int]
) -> MemoryConstants:
    """From colocated loaders over few and many sources, and ours over many."""
    workers = ranks * _fleets.WORKERS
    small, large = (told["pss_bytes"] / workers for told in (few, many))
    state = (large - small) / (sources[1] - sources[0])
    groups = memory.MESHES[ranks]["dp"]
    return replace(
        CONSTANTS,
        file_state_bytes=round(state),
        worker_buffer_bytes=max(0, round(small - sources[0] * state)),
        constructor_base_bytes=round(ours["by_kind"]["constructors"] / groups),
        sample_bytes=_DOCUMENT_BYTES,
    )


def run(bench: Bench) -> Figures:
    """Measure the constants, then the model."""
    counts = (min(SMALL, bench.options.sources - 1), bench.options.sources)
    few, many = (_fleets.measure(bench, _fleets.COLOCATED, count, kind="torch") for count in counts)
    ours = _fleets.measure(bench, "plain", counts[1], sized=PLAIN)
    if not all(map(is_measured, (few, many, ours))):
        return dict(CLAIMS)
    return figures_of(constants_of(few, many, ours, bench.options.ranks, counts))


def figures_of(constants: MemoryConstants) -> Figures:
    """Ratios of the paper's cases at some meshes: under 1 the roles need less."""
    names = ("file_state_bytes", "worker_buffer_bytes", "constructor_base_bytes", "sample_bytes")
    figures: Figures = {f"model_{name}": getattr(constants, name) for name in names}
    for number, (title, case) in enumerate(APPENDIX_A.items()):
        figure = "fig14" if number == 0 else "fig17"
        words = "" if number == 0 else "_" + title.replace(" ", "_").replace(",", "")
        for cp, pp in PLACES:
            figures[f"{figure}{words}_cp{cp}_pp{pp}"] = ratio(case.at(cp, pp), constants)
    return figures | CLAIMS
