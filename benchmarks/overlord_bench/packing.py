"""Packing of web-length documents, online: fill, speed and delay, against Grain's packers.

Ours decides where documents go (`best_fit`, whole documents, those over the context split), for
steps of 64 sequences of 4,096 tokens, and of 32 K and 128 K. It moves no tokens: that is part of
`delivery`. Grain's packers copy the tokens as they place them, so compare the fill first.
"""

from __future__ import annotations

import argparse
from typing import Any

from overlord_bench import _contract, _peers
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience

BINS = 64
CONTEXTS = (4096, 32_768, 131_072)
OURS = "overlord"
# The packers of a peer see fewer documents; enough for several steps of every context.
_PEER_SHARE = {4096: 20_000, 32_768: 40_000, 131_072: 80_000}
_FIGURES = ("fill", "docs_per_s", "max_delay_steps")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench packing")
    parser.add_argument("--documents", type=float, default=8e6, help="that ours packs per context")
    parser.add_argument("--scale", type=float, default=1.0, help="of the documents peers pack")
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def _contenders(context: int, options: argparse.Namespace) -> list[Contender]:
    ours = {"documents": int(options.documents)}
    peer = {"documents": int(_PEER_SHARE[context] * options.scale)}
    return [
        Contender(OURS, "overlord_packer", ours, is_peer=False),
        Contender("grain/first_fit", "grain_packers", {**peer, "method": "first_fit"}),
        Contender("grain/best_fit", "grain_packers", {**peer, "method": "best_fit"}),
    ]


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure every context."""
    options = _parse(arguments)
    host = _contract.machine()
    pythons = _peers.find_pythons(options.peers)
    patience = Patience(options.patience)
    figures: dict[str, Any] = {}
    contenders: dict[str, Any] = {}
    for context in CONTEXTS:
        work = {"context": context, "bins": BINS, "slack_permille": 50, "max_delay": 4}
        found = _peers.interleave(
            pythons, _contenders(context, options), work, options.rounds, patience
        )
        suffix = "" if context == CONTEXTS[0] else f"_{context}"
        figures.update({key + suffix: found[OURS].get(key) for key in _FIGURES})
        for key, value in found.items():
            contenders[key if not suffix else f"{key}/{context}"] = value
    settings = {
        "lengths": "log-normal, mean 700 tokens, sigma 1.0, from 4 to 120,000",
        "sequences_per_step": BINS,
        "documents": int(options.documents),
        "ours": "best_fit, slack 0.05, max_delay 4",
        "rounds": options.rounds,
    }
    return _contract.report("packing", figures, contenders, settings, host)
