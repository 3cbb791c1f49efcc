"""Share of the time that a GPU waits for data, while a model trains on it beside a busy host.

`text`: a Llama of 1 B parameters at a context of 4,096. `pictures_*`: Qwen2-VL's architecture with
its own picture processing, of a depth at which decoding keeps half of the host's cores busy: in
loaders, and in constructors. In all of these the next microbatch is copied on a stream of its own
while one is trained (`device=`, `pin=True`); `*_plain` are the same with the copy made by the loop,
out of memory that is not pinned. One rank; each in a process of its own.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _web_corpus
from overlord_bench._peers import Contender, is_measured
from overlord_bench.images import make_files

WAITED = ("text", "pictures_loader", "pictures_constructor")
CASES = (*WAITED, "text_plain", "pictures_plain")
START_S = 45.0  # of a process until it trains, at most


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench gpu")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try it")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seconds", type=float, default=25.0, help="that a case is measured")
    parser.add_argument("--files", type=int, default=512, help="pictures")
    parser.add_argument("--busy", type=float, default=0.5, help="share of cores for pictures")
    parser.add_argument("--engine", choices=("embedded", "processes"), default="processes")
    parser.add_argument("--quick", action="store_true", help="6 seconds of every case")
    parser.add_argument(
        "--limit", type=float, default=330.0, metavar="SECONDS", help="no case begins too late"
    )
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    options = parser.parse_args(arguments)
    if options.quick:
        options.seconds, options.files = 6.0, min(options.files, 128)
    return options


def _text_work(options: argparse.Namespace, is_small: bool) -> dict[str, Any]:
    corpus = _web_corpus.WebCorpus(
        tokens=1_000_000 if is_small else 32_000_000, shards=2, vocabulary=50_000
    )
    place = _web_corpus.prepare(corpus, options.data / "words-50000", parquet=False)
    return {
        "folder": str(place),
        "format": "bin",
        "column": _web_corpus.COLUMN,
        "vocabulary": corpus.vocabulary,
        "model": "tiny" if is_small else "1b",
        "context": 512 if is_small else 4096,
        "bins": 4 if is_small else 8,
        "rows": 2 if is_small else 4,
    }


def _picture_work(options: argparse.Namespace, is_small: bool, cores: int) -> dict[str, Any]:
    return {
        "folder": str(options.data / f"images-v3-{options.files}"),
        "files": options.files,
        "vocabulary": 512,
        "model": "tiny" if is_small else "large",
        "context": 1024 if is_small else 4096,
        "min_pixels": 4 * 28 * 28,
        "max_pixels": (128 if is_small else 512) * 28 * 28,
        "bins": 2 if is_small else 8,
        "rows": 1 if is_small else 4,
        "workers": max(2, cores * 3 // 4),
        "busy": options.busy,
    }


def _contender(case: str, options: argparse.Namespace, work: dict[str, Any]) -> Contender:
    kind, _, way = case.partition("_")
    setup = {
        **work,
        "device": options.device,
        "seconds": options.seconds,
        "ahead": way != "plain",
        "engine": options.engine,
        "decode_at": way if way in ("loader", "constructor") else "loader",
    }
    return Contender(case, f"gpu.{kind}", setup, is_peer=False)


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure one case after the other, until the time is up."""
    options = _parse(arguments)
    began, host = time.perf_counter(), _contract.machine()
    is_small = options.device == "cpu"
    kinds = {case.partition("_")[0] for case in options.cases}
    works: dict[str, dict[str, Any]] = {}
    pythons = _peers.find_pythons("/nowhere/python")
    if "text" in kinds:
        works["text"] = _text_work(options, is_small)
    if "pictures" in kinds:
        works["pictures"] = _picture_work(options, is_small, host["cores"])
        make_files(pythons, works["pictures"])
    found: dict[str, Any] = {}
    with _peers.package_folder() as path:
        for case in options.cases:
            left = options.limit - (time.perf_counter() - began)
            if left < START_S + options.seconds:
                found[case] = {"missing": f"{left:.0f} s are left, which is not enough"}
                continue
            contender = _contender(case, options, works[case.partition("_")[0]])
            found[case] = _peers.run_once(pythons, contender, {}, path, left)
            _peers.say(f"{case} {found[case]}")
    figures: dict[str, Any] = {}
    for case, one in found.items():
        for key in ("wait_share", "inputs_share", "next_share", "host_busy_share"):
            figures[f"{case}_{key}"] = one.get(key)
    shares = [
        found[case]["wait_share"]
        for case in WAITED
        if is_measured(found.get(case, {"missing": ""}))
    ]
    figures["wait_share"] = max(shares, default=None)
    settings = {"seconds": options.seconds, "engine": options.engine, "device": options.device}
    settings |= works
    return _contract.report("gpu", figures, found, settings, host)
