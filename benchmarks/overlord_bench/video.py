"""8 frames of a 10 s H.264 clip, two cores, against PyAV, decord or torchcodec in a DataLoader.

Everyone reads the same files in a shuffled order and delivers batches of 8 clips, each of 8 frames
from the first to the last, resized to 224 x 224: ours is the whole stream, from a tar with
captions, with two threads (`bare/chain`: the native chain alone), peers give frames in a torch
DataLoader with two worker processes and one thread of the decoder each (`pyav-threads`: as many as
it likes).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _web_corpus
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience
from overlord_bench.audio import CHAIN, OURS, best_peer

_WAYS = ("pyav", "pyav-threads", "pyav-seek", "decord", "torchcodec")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench video")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8.0, help="that a run is measured")
    parser.add_argument(
        "--workers", type=int, default=2, help="threads of ours, processes of peers"
    )
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=360)
    parser.add_argument("--small", action="store_true", help="4 files, 2 s")
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    _peers.add_options(parser)
    options = parser.parse_args(arguments)
    if options.small:
        options.files, options.seconds = 4, 2.0
    return options


def _contenders() -> list[Contender]:
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    peers = [Contender(f"dataloader/{way}", "user_video", {"way": way}, quiet) for way in _WAYS]
    ours = [
        Contender(key, "overlord_video", {"way": way}, is_peer=False)
        for key, way in ((OURS, "stream"), (CHAIN, "chain"))
    ]
    return [*ours, *peers]


def prepare(pythons: _peers.Pythons, work: dict[str, Any]) -> None:
    """The files, written by whichever Python has PyAV."""
    found: dict[str, Any] = {}
    with _peers.package_folder() as path:
        for is_peer in (True, False):
            maker = Contender("files", "video_files", is_peer=is_peer)
            found = _peers.run_once(pythons, maker, work, path)
            if _peers.is_measured(found):
                return
    raise RuntimeError(f"PyAV is needed to write the clips of this bench: {found}")


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure everyone in turn."""
    options = _parse(arguments)
    host = _contract.machine()
    pythons = _peers.find_pythons(options.peers)
    size = f"{options.width}x{options.height}"
    work = {
        "folder": str(options.data / f"video-v1-{size}-{options.files}"),
        "files": options.files,
        "width": options.width,
        "height": options.height,
        "frames": 8,
        "side": 224,
        "seconds": options.seconds,
        "workers": options.workers,
        "batch": 8,
    }
    prepare(pythons, work)
    found = _peers.interleave(
        pythons, _contenders(), work, options.rounds, Patience(options.patience)
    )
    ours = found[OURS].get("files_per_s")
    best = best_peer(found)
    chain = found[CHAIN].get("files_per_s")
    figures = {
        "files_per_s": ours,
        "ratio_vs_best_peer": ours / best if ours and best else None,
        "fraction_of_bare_chain": ours / chain if ours and chain else None,
    }
    settings = {"clips": f"10 s, H.264, {size}, 30 fps", "frames": 8, "rounds": options.rounds}
    return _contract.report("video", figures, found, settings, host)
