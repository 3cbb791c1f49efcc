"""Lines of glue under each trainer, and a training step against the usual DataLoader.

`glue_lines` counts what a user adds by the pages of docs/trainers: lines of the block that is
written which the block before does not have.

A small model trains on the CPU with batches of Overlord, and with the same batches out of a
DataLoader: rows that were packed beforehand lie in one file, mapped, and workers do nothing but
take and collate them. Every round runs each way once, in a process of its own; the round's ratio is
our step time over the best of the DataLoader's at 0, 2, 4 and 8 workers.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _pages, _peers, _web_corpus
from overlord_bench._peers import Contender, is_measured
from overlord_bench._quiet import Patience

OURS = "overlord"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench trainers")
    parser.add_argument("--steps", type=int, default=60, help="measured steps of each run")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--bins", type=int, default=8, help="sequences of a step")
    parser.add_argument("--tokens", type=int, default=4_000_000, help="of the corpus")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2, 4, 8])
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    _peers.add_options(parser, rounds=7)
    return parser.parse_args(arguments)


def _contenders(workers: list[int]) -> list[Contender]:
    module = "trainers.trained_steps"
    usual = [
        Contender(f"dataloader/{count}_workers", module, {"workers": count}, is_peer=False)
        for count in workers
    ]
    return [Contender(OURS, module, {"workers": None}, is_peer=False), *usual]


def _ratio(found: dict[str, Any]) -> float | None:
    """Of one round: ours over the best of theirs."""
    if not all(is_measured(figures) for figures in found.values()):
        return None
    theirs = [figures["step_s"] for key, figures in found.items() if key != OURS]
    return float(found[OURS]["step_s"] / min(theirs))


def run(arguments: list[str]) -> dict[str, Any]:
    """Count the lines, then train in turn."""
    options = _parse(arguments)
    host = _contract.machine()
    corpus = _web_corpus.WebCorpus(tokens=options.tokens, shards=2, vocabulary=1000)
    place = _web_corpus.prepare(corpus, options.data, parquet=False)
    work = {
        "folder": str(place),
        "format": "bin",
        "column": _web_corpus.COLUMN,
        "context": options.context,
        "bins": options.bins,
        "vocabulary": corpus.vocabulary,
        "steps": options.steps,
        "warmup": max(2, options.steps // 10),
    }
    pythons, patience = _peers.find_pythons(options.peers), Patience(options.patience)
    rounds = [
        _peers.interleave(pythons, _contenders(options.workers), work, 1, patience)
        for _ in range(options.rounds)
    ]
    ratios = sorted(ratio for found in rounds if (ratio := _ratio(found)) is not None)
    lines = {page: len(_pages.glue_lines(page)) for page in _pages.pages()}
    figures = {
        "step_time_ratio": statistics.median(ratios) if ratios else None,
        "step_time_ratio_least": ratios[0] if ratios else None,
        "step_time_ratio_most": ratios[-1] if ratios else None,
        **{f"glue_lines_{page}": count for page, count in lines.items()},
    }
    found = {key: _contract.medians([one[key] for one in rounds]) for key in rounds[0]}
    settings = {"steps": options.steps, "rounds": options.rounds, **work}
    return _contract.report("trainers", figures, found, settings, host)
