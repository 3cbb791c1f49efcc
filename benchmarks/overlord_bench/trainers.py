"""Lines of glue under each trainer, and its step time fed by us over that with its usual loader.

`glue_lines` counts what a user adds by the pages of docs/trainers: lines of the block that is
written which the block before does not have.

One rank of DDP, FSDP2 and Hugging Face's Trainer trains a Llama with batches of Overlord, and with
the same batches out of a DataLoader with 0, 2, 4 and 8 workers: rows that were packed beforehand
lie in one file per field, mapped, and workers do nothing but take and collate them. Rounds are
interleaved; a trainer's ratio is the median over rounds of ours over that number of workers whose
own median is the least, with an interval that holds the median of such rounds at 95 %.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _pages, _peers, _web_corpus
from overlord_bench._intervals import of_median
from overlord_bench._peers import Contender, is_measured
from overlord_bench._quiet import Patience

TRAINERS = ("ddp", "fsdp2", "hf")
OURS = "overlord"
# By device: model, context, sequences of a step, measured steps of a run, vocabulary.
SIZES = {"cpu": ("tiny", 256, 8, 60, 1000), "cuda": ("160m", 2048, 16, 30, 50_000)}


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench trainers")
    parser.add_argument("--trainers", nargs="*", choices=TRAINERS, default=list(TRAINERS))
    parser.add_argument("--device", choices=list(SIZES), default="cpu")
    parser.add_argument("--model", choices=("tiny", "160m", "1b"), help="by the device")
    parser.add_argument("--context", type=int, help="by the device")
    parser.add_argument("--bins", type=int, help="sequences of a step; by the device")
    parser.add_argument("--steps", type=int, help="measured steps of each run; by the device")
    parser.add_argument("--tokens", type=int, default=4_000_000, help="of the corpus")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2, 4, 8])
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    parser.add_argument("--quick", action="store_true", help="3 rounds of a third of the steps")
    parser.add_argument(
        "--limit",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="no further round of a trainer begins after its part of them",
    )
    _peers.add_options(parser, rounds=9)
    options = parser.parse_args(arguments)
    for key, size in zip(
        ("model", "context", "bins", "steps"), SIZES[options.device], strict=False
    ):
        if getattr(options, key) is None:
            setattr(options, key, size)
    if options.quick:
        options.rounds, options.steps = 3, max(3, options.steps // 3)
    return options


def ratios_of(found: dict[str, Any]) -> dict[str, Any]:
    """Of one trainer: median, interval, and at which workers theirs are best."""
    if not is_measured(found):
        return {"step_time_ratio": None}
    seconds: dict[str, list[float]] = found["step_s"]
    theirs = {name: runs for name, runs in seconds.items() if name != OURS}
    best = min(theirs, key=lambda name: statistics.median(theirs[name]))
    ratios = [mine / other for mine, other in zip(seconds[OURS], theirs[best], strict=True)]
    least, most, _ = of_median(ratios)
    return {
        "step_time_ratio": statistics.median(ratios),
        "step_time_ratio_least": least,
        "step_time_ratio_most": most,
        "best_workers": int(best.rpartition("_")[2]),
        "step_ms": statistics.median(seconds[OURS]) * 1e3,
        "rounds": len(ratios),
    }


def run(arguments: list[str]) -> dict[str, Any]:
    """Count the lines, then train in turn."""
    options = _parse(arguments)
    host = _contract.machine()
    corpus = _web_corpus.WebCorpus(
        tokens=options.tokens,
        shards=2,
        mean_length=options.context / 4,
        vocabulary=SIZES[options.device][-1],
    )
    words = options.data / f"words-{corpus.vocabulary}"  # which its name does not say
    place = _web_corpus.prepare(corpus, words, parquet=False)
    work = {
        "folder": str(place),
        "format": "bin",
        "column": _web_corpus.COLUMN,
        "vocabulary": corpus.vocabulary,
        "warmup": max(2, options.steps // 10),
        "limit_s": options.limit / max(len(options.trainers), 1),
        **{key: getattr(options, key) for key in ("context", "bins", "steps", "rounds")},
        **{key: getattr(options, key) for key in ("workers", "device", "model")},
    }
    contenders = [
        Contender(name, "trainers.trained_steps", {"trainer": name}, is_peer=False)
        for name in options.trainers
    ]
    pythons, patience = _peers.find_pythons(options.peers), Patience(options.patience)
    found = _peers.interleave(pythons, contenders, work, 1, patience) if contenders else {}
    figures: dict[str, Any] = {
        f"{name}_{key}": value for name in found for key, value in ratios_of(found[name]).items()
    }
    lines = {page: len(_pages.glue_lines(page)) for page in _pages.pages()}
    figures |= {f"glue_lines_{page}": count for page, count in lines.items()}
    return _contract.report("trainers", figures, found, work, host)
