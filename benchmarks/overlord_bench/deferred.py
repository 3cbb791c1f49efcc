"""Media decoded by loaders or by constructors: bytes on the way, and pairs a second.

The pairs of the bench `vlm`, whose patches are float32. `wire_ratio` is what packed blobs take of
the bytes that loaders hand to constructors, `throughput_ratio` the pairs a second with roles in
processes of one host, constructor over loader. `owned_*` are the same of two groups, where other
ranks encode the pictures than train on their texts: both groups find out whether one decodes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _web_corpus
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience
from overlord_bench.images import make_files

PLACES = ("loader", "constructor")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench deferred")
    parser.add_argument("--files", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=6.0, help="that a run is measured")
    parser.add_argument("--workers", type=int, default=2, help="threads of a role")
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure every place in both engines."""
    options = _parse(arguments)
    host = _contract.machine()
    pythons = _peers.find_pythons(options.peers)
    work = {
        "folder": str(options.data / f"images-v3-{options.files}"),
        "files": options.files,
        "context": 4096,
        "min_pixels": 4 * 28 * 28,
        "max_pixels": 512 * 28 * 28,
        "seconds": options.seconds,
        "workers": options.workers,
    }
    make_files(pythons, work)
    contenders = [
        Contender(
            f"{engine}/{place}",
            "overlord_deferred",
            {"engine": engine, "decode_at": place},
            is_peer=False,
        )
        for engine in ("embedded", "processes")
        for place in PLACES
    ]
    contenders += [
        Contender(
            f"owned/{place}",
            "overlord_deferred",
            {"engine": "processes", "decode_at": place, "owned": True},
            is_peer=False,
        )
        for place in PLACES
    ]
    found = _peers.interleave(pythons, contenders, work, options.rounds, Patience(options.patience))

    def ratio(engine: str, figure: str) -> float | None:
        packed, plain = (found[f"{engine}/{at}"].get(figure) for at in ("constructor", "loader"))
        return packed / plain if packed and plain else None

    figures = {
        "wire_ratio": ratio("processes", "sent_bytes_per_sample"),
        "throughput_ratio": ratio("processes", "samples_per_s"),
        "throughput_ratio_embedded": ratio("embedded", "samples_per_s"),
        "owned_wire_ratio": ratio("owned", "sent_bytes_per_sample"),
        "owned_throughput_ratio": ratio("owned", "samples_per_s"),
    }
    settings = {key: work[key] for key in ("files", "context", "max_pixels", "workers")}
    return _contract.report("deferred", figures, found, settings | {"rounds": options.rounds}, host)
