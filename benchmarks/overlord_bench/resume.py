"""Time to the first batch after 10 M samples against after 1 k, and against StatefulDataLoader.

A corpus of short documents holds more than 10 M of them, so that both places lie in its first pass.
States are made by planning alone. Then a new job is made again and again from the config, loads
one of the states in turn, and gives its first batch of 4 sequences of 4,096 tokens: measured is
the time from `load_state_dict` to the batch in hand. The time to open the job, which knows nothing
of the state, is told apart.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _web_corpus
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience

OURS = "overlord"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench resume")
    parser.add_argument("--near", type=float, default=1e3, help="samples before the near state")
    parser.add_argument("--far", type=float, default=1e7, help="samples before the far state")
    parser.add_argument("--repeats", type=int, default=15, help="resumptions of each state")
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def _contenders(repeats: int) -> list[Contender]:
    peer = "stateful_dataloader"
    few = {"repeats": max(1, repeats // 5)}
    return [
        Contender(OURS, "overlord_resume", {"repeats": repeats}, is_peer=False),
        Contender("stateful_dataloader/random_sampler", peer, few),
        Contender("stateful_dataloader/random_sampler/1_worker", peer, {**few, "workers": 1}),
        Contender("stateful_dataloader/iterable", peer, {"repeats": 1, "iterable": True}),
    ]


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure both places for every contender."""
    options = _parse(arguments)
    host = _contract.machine()
    documents = int(options.far * 1.2)
    corpus = _web_corpus.WebCorpus(
        tokens=documents * 16, mean_length=16.0, least=1, most=2048, vocabulary=50_000
    )
    place = _web_corpus.prepare(corpus, options.data, parquet=False)
    work = {
        "folder": str(place),
        "format": "bin",
        "column": _web_corpus.COLUMN,
        "context": 4096,
        "bins": 4,
        "vocabulary": corpus.vocabulary,
        "near": int(options.near),
        "far": int(options.far),
    }
    pythons = _peers.find_pythons(options.peers)
    found = _peers.interleave(
        pythons, _contenders(options.repeats), work, options.rounds, Patience(options.patience)
    )
    ours = found[OURS]
    figures = {
        "ratio_10m_vs_1k": ours.get("ratio"),
        "seconds": ours.get("far_seconds"),
        "seconds_near": ours.get("near_seconds"),
        "job_open_seconds": ours.get("open_seconds"),
    }
    settings = {
        "corpus": {**asdict(corpus), **_web_corpus.facts_of(place)},
        "samples_near": work["near"],
        "samples_far": work["far"],
        "repeats": options.repeats,
        "rounds": options.rounds,
    }
    return _contract.report("resume", figures, found, settings, host)
