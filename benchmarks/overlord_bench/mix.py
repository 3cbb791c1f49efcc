"""Metric-driven mixing: one step's weight update and quota set-up, over 306 sources.

The controllers are `odm` and `ado`; the figure `ms` is the slower one's median. Nobody else's mixer
is measured: peers that follow losses do it in the trainer.
"""

from __future__ import annotations

import argparse
from typing import Any

from overlord_bench import _contract, _peers
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience

SOURCES = 306
METHODS = ("odm", "ado")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench mix")
    parser.add_argument("--sources", type=int, default=SOURCES, help="of the mixture")
    parser.add_argument("--steps", type=int, default=3000, help="that are mixed")
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure both controllers."""
    options = _parse(arguments)
    host = _contract.machine()
    pythons = _peers.find_pythons(options.peers)
    ours = [
        Contender(f"overlord/{method}", "overlord_mixer", {"method": method}, is_peer=False)
        for method in METHODS
    ]
    work = {"sources": options.sources, "steps": options.steps}
    found = _peers.interleave(pythons, ours, work, options.rounds, Patience(options.patience))
    figures = {
        key: max(found[item.key][key] for item in ours)
        for key in ("ms", "ms_p99", "ms_max", "state_bytes")
    }
    settings = {"sources": options.sources, "steps": options.steps, "rounds": options.rounds}
    return _contract.report("mix", figures, found, settings, host)
