"""Order of microbatches in a pipeline under 1F1B: predicted makespan against random order.

Forward times are log-normal with a spread (cv, deviation over mean) of 0.3 to 0.8; a backward takes
twice its forward. Pipelines have 4 or 8 stages and at least twice as many microbatches, plain and
interleaved. All are judged by the same model of the pipeline, which a simulator checks in the
tests. `small_ends` is the order verl uses; `brute_force` tries all orders where there are few.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from overlord_bench import _contract, _peers
from overlord_bench._contract import Figures
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience

OURS = "search"
METHODS = (OURS, "small_ends", "ascending", "descending", "random", "brute_force")
_TIMED = "p8_m32_cv0.8"
_SIZES = ((4, 8), (4, 16), (8, 16), (8, 32))
_SPREADS = (0.3, 0.5, 0.8)


def _case(stages: int, microbatches: int, cv: float, virtual_stages: int = 1) -> dict[str, Any]:
    parts = f"_v{virtual_stages}" if virtual_stages > 1 else ""
    return {
        "name": f"p{stages}{parts}_m{microbatches}_cv{cv}",
        "stages": stages,
        "microbatches": microbatches,
        "cv": cv,
        "virtual_stages": virtual_stages,
    }


PLAIN = [_case(stages, count, cv) for stages, count in _SIZES for cv in _SPREADS]
INTERLEAVED = [_case(4, 8, 0.5, 2), _case(8, 32, 0.5, 2)]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench order")
    parser.add_argument("--seeds", type=int, default=20, help="pipelines per case")
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def _ratios(found: dict[str, Figures], other: str, cases: list[dict[str, Any]]) -> dict[str, float]:
    """Our makespan over another's, by case."""
    keys = [(case["name"], f"{case['name']}/makespan_over_even") for case in cases]
    return {
        name: found[OURS][key] / found[other][key]
        for name, key in keys
        if key in found[OURS] and key in found[other]
    }


def _figures(found: dict[str, Figures]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    random = _ratios(found, "random", PLAIN)
    if random:
        figures["makespan_ratio"] = statistics.fmean(random.values())
        figures["makespan_ratio_worst"] = max(random.values())
    for other in ("small_ends", "ascending", "descending"):
        ratios = _ratios(found, other, PLAIN)
        if ratios:
            figures[f"ratio_vs_{other}"] = statistics.fmean(ratios.values())
    best = found["brute_force"]
    for figure, choose in (("search_over_best", statistics.fmean), ("search_over_best_worst", max)):
        values = [value for key, value in best.items() if key.endswith(f"/{figure}")]
        if values:
            figures[figure.replace("search_over_best", "ratio_vs_brute_force")] = choose(values)
    figures["time_ms"] = found[OURS].get(f"{_TIMED}/time_ms")
    for name, ratio in {**random, **_ratios(found, "random", INTERLEAVED)}.items():
        figures[f"makespan_ratio_{name}"] = ratio
    return figures


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure every case with every way to order."""
    options = _parse(arguments)
    host = _contract.machine()
    pythons = _peers.find_pythons(options.peers)
    contenders = [
        Contender(method, "microbatch_orders", {"method": method}, is_peer=False)
        for method in METHODS
    ]
    work = {"cases": PLAIN + INTERLEAVED, "seeds": options.seeds}
    found = _peers.interleave(pythons, contenders, work, options.rounds, Patience(options.patience))
    settings = {
        "costs": "log-normal, backward twice the forward",
        "random": "mean of 100 orders",
        "timed": _TIMED,
        "pipelines_per_case": options.seeds,
        "rounds": options.rounds,
    }
    return _contract.report("order", _figures(found), found, settings, host)
