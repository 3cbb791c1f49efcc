"""JPEGs of 500 to 1300 pixels to 224 x 224 RGB in a Python loop, shuffled, two cores.

Ours is the whole stream: a tar with captions is indexed, planned, decoded in `scaled` mode, packed
and delivered with its tokens; peers give pictures alone, in batches of 32, with two worker
processes or threads. Two native loops over files in memory show what is left to win:
libjpeg-turbo with a resize, and the chain that our sources use.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _web_corpus
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience

OURS, BARE, CHAIN = "overlord", "bare/libjpeg-turbo", "bare/chain"
PILLOW = "dataloader/pillow"
_PEERS = (
    ("dataloader", "pillow"),
    ("dataloader", "pillow_draft"),
    ("dataloader", "simplejpeg"),
    ("dataloader", "opencv"),
    ("webdataset", "simplejpeg"),
    ("spdl", "simplejpeg"),
)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench images")
    parser.add_argument("--files", type=int, default=128)
    parser.add_argument("--side", type=int, default=224, help="of a delivered picture")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=6.0, help="that a run is measured")
    parser.add_argument(
        "--workers", type=int, default=2, help="threads of ours, processes of peers"
    )
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def _contenders() -> list[Contender]:
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ours = [
        Contender(key, "overlord_images", {"way": way}, is_peer=False)
        for key, way in ((OURS, "stream"), (BARE, "plain"), (CHAIN, "chain"))
    ]
    peers = [
        Contender(
            f"{loader}/{decoder}", "user_images", {"loader": loader, "decoder": decoder}, quiet
        )
        for loader, decoder in _PEERS
    ]
    return [*ours, *peers]


def make_files(pythons: _peers.Pythons, work: dict[str, Any]) -> None:
    """The pictures, written by whichever Python has Pillow."""
    found: dict[str, Any] = {}
    with _peers.package_folder() as path:
        for is_peer in (True, False):
            maker = Contender("files", "picture_files", is_peer=is_peer)
            found = _peers.run_once(pythons, maker, work, path)
            if _peers.is_measured(found):
                return
    raise RuntimeError(f"Pillow is needed to write the JPEGs of this bench: {found}")


def _ratio(ours: float | None, other: float | None) -> float | None:
    return ours / other if ours and other else None


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure everyone."""
    options = _parse(arguments)
    host = _contract.machine()
    pythons = _peers.find_pythons(options.peers)
    work = {
        "folder": str(options.data / f"images-v3-{options.files}"),
        "files": options.files,
        "side": options.side,
        "batch": options.batch,
        "seconds": options.seconds,
        "workers": options.workers,
    }
    make_files(pythons, work)
    found = _peers.interleave(
        pythons, _contenders(), work, options.rounds, Patience(options.patience)
    )
    rates = {key: one.get("files_per_s") for key, one in found.items()}
    peers = [rate for key, rate in rates.items() if key not in (OURS, BARE, CHAIN) and rate]
    figures = {
        "files_per_s": rates[OURS],
        "ratio_vs_pillow_dataloader": _ratio(rates[OURS], rates[PILLOW]),
        "ratio_vs_best_peer": _ratio(rates[OURS], max(peers, default=None)),
        "fraction_of_bare_loop": _ratio(rates[OURS], rates[BARE]),
        "fraction_of_bare_chain": _ratio(rates[OURS], rates[CHAIN]),
    }
    settings = {key: work[key] for key in ("files", "side", "batch", "workers")}
    return _contract.report("images", figures, found, settings | {"rounds": options.rounds}, host)
