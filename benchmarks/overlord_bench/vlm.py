"""Image-text pairs to packed Qwen2-VL records, against the Hugging Face processor in a DataLoader.

JPEGs of 500 to 1300 pixels are decoded whole (`exact`), resized by the model's rule, normalised and
cut into patches of 14 with 2 x 2 merging; a record is 4,096 tokens of pairs with the patches of
their pictures and grids. Two threads of ours, two worker processes of theirs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _web_corpus
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience
from overlord_bench.images import make_files

OURS = "overlord"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench vlm")
    parser.add_argument("--files", type=int, default=128)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--max-pixels", type=int, default=512 * 28 * 28)
    parser.add_argument("--seconds", type=float, default=6.0, help="that a run is measured")
    parser.add_argument(
        "--workers", type=int, default=2, help="threads of ours, processes of peers"
    )
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure everyone."""
    options = _parse(arguments)
    host = _contract.machine()
    pythons = _peers.find_pythons(options.peers)
    work = {
        "folder": str(options.data / f"images-v3-{options.files}"),
        "files": options.files,
        "context": options.context,
        "min_pixels": 4 * 28 * 28,
        "max_pixels": options.max_pixels,
        "seconds": options.seconds,
        "workers": options.workers,
    }
    make_files(pythons, work)
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    contenders = [
        Contender(OURS, "overlord_vlm", is_peer=False),
        Contender("dataloader/hf", "hf_vlm", {"fast": False}, quiet),
        Contender("dataloader/hf_fast", "hf_vlm", {"fast": True}, quiet),
    ]
    found = _peers.interleave(pythons, contenders, work, options.rounds, Patience(options.patience))
    rates = {key: one.get("samples_per_s", 0.0) for key, one in found.items()}
    best = max((rate for key, rate in rates.items() if key != OURS), default=0.0)
    figures = {
        "samples_per_s": rates[OURS] or None,
        "ratio_vs_hf": rates[OURS] / best if rates[OURS] and best else None,
    }
    settings = {key: work[key] for key in ("files", "context", "max_pixels", "workers")}
    return _contract.report("vlm", figures, found, settings | {"rounds": options.rounds}, host)
