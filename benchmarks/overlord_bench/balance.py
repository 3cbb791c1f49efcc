"""Balancing of 32,768 sequences on 1,024 ranks: time and gap to the bound, against verl's.

Ours and verl's Karmarkar-Karp (with and without equal counts) get the same costs, of web and of
long-tail lengths. Times are CPU times of the call alone. verl's takes minutes at the full size, so
it runs once.
"""

from __future__ import annotations

import argparse
from typing import Any

from overlord_bench import _contract, _peers
from overlord_bench._contenders.sequence_costs import SHAPES
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience

SAMPLES = 32_768
BINS = 1024
METHODS = ("arrival", "greedy", "lpt", "lpt_search", "karmarkar_karp", "zigzag")
OURS = "overlord/lpt_search"
PEER = "verl/karmarkar_karp"
EQUAL = "/equal_count"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench balance")
    parser.add_argument("--samples", type=float, default=SAMPLES)
    parser.add_argument("--bins", type=int, default=BINS)
    parser.add_argument("--repeats", type=int, default=9, help="calls of ours in a run")
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def _ours() -> list[Contender]:
    return [
        Contender(
            f"overlord/{method}{EQUAL if equal else ''}",
            "overlord_balancer",
            {"method": method, "equal_count": equal},
            is_peer=False,
        )
        for equal in (False, True)
        for method in METHODS
    ]


def _verl() -> list[Contender]:
    return [
        Contender(PEER + EQUAL, "verl_balancer", {"equal_count": True}),
        Contender(PEER, "verl_balancer", {"equal_count": False}),
    ]


def add_gaps(found: dict[str, Any]) -> None:
    """How far each is above the bound, in percent; the bound is ours, with equal counts or not."""
    for key, figures in found.items():
        if "max_load" not in figures:
            continue
        bound = found[OURS + (EQUAL if key.endswith(EQUAL) else "")]["lower_bound"]
        figures["gap_percent"] = 100 * (figures["max_load"] / bound - 1)


def figures_of(found: dict[str, Any]) -> dict[str, Any]:
    """The numbers that count, of one shape of lengths."""
    ours, equal = found[OURS], found[OURS + EQUAL]

    def speedup(peer: str, mine: dict[str, Any]) -> float | None:
        figures = found[peer]
        return figures["time_ms"] / mine["time_ms"] if "time_ms" in figures else None

    return {
        "time_ms": ours["time_ms"],
        "gap_percent": ours["gap_percent"],
        "bound_by": ours["bound_by"],
        "speedup_vs_kk": speedup(PEER, ours),
        "equal_count_time_ms": equal["time_ms"],
        "equal_count_gap_percent": equal["gap_percent"],
        "speedup_vs_kk_equal_count": speedup(PEER + EQUAL, equal),
        "kk_gap_percent": found[PEER].get("gap_percent"),
        "kk_equal_count_gap_percent": found[PEER + EQUAL].get("gap_percent"),
    }


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure every method on both shapes of lengths."""
    options = _parse(arguments)
    host = _contract.machine()
    pythons = _peers.find_pythons(options.peers)
    patience = Patience(options.patience)
    figures: dict[str, Any] = {}
    contenders: dict[str, Any] = {}
    for shape in SHAPES:
        work = {
            "shape": shape,
            "samples": int(options.samples),
            "bins": options.bins,
            "repeats": options.repeats,
        }
        found = _peers.interleave(pythons, _ours(), work, options.rounds, patience)
        found |= _peers.interleave(pythons, _verl(), work, 1, patience)
        add_gaps(found)
        suffix = "" if shape == "web" else f"_{shape}"
        figures |= {key + suffix: value for key, value in figures_of(found).items()}
        contenders |= {f"{key}/{shape}": value for key, value in found.items()}
    settings = {
        "samples": int(options.samples),
        "bins": options.bins,
        "lengths": {
            name: f"log-normal, mu {mu}, sigma {sigma}, at most {longest:,}"
            for name, (mu, sigma, longest) in SHAPES.items()
        },
        "cost": "24,576 s + s^2",
        "times": "CPU time of the call",
        "rounds": options.rounds,
    }
    return _contract.report("balance", figures, contenders, settings, host)
