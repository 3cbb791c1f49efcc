"""10 s of FLAC to log-mel spectrograms, two cores, against soundfile with NumPy, torch or librosa.

Everyone reads the same files in a shuffled order and delivers batches of 8 float32 spectrograms of
80 mels by Whisper's definition: ours is the whole stream, from a tar with captions, with two
threads (`bare/chain`: the native chain alone), peers give spectrograms in a torch DataLoader with
two worker processes. First speech-like mono at 16 kHz, then stereo at 44.1 kHz, which has to be
mixed down and resampled. Peers get one thread per worker and the fastest way we know for each
library.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _web_corpus
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience

OURS, CHAIN = "overlord", "bare/chain"
SOUNDS = {"": (16_000, 1), "_44100_stereo": (44_100, 2)}
_WAYS = ("numpy", "torch", "librosa", "transformers")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench audio")
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=6.0, help="that a run is measured")
    parser.add_argument(
        "--workers", type=int, default=2, help="threads of ours, processes of peers"
    )
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def _contenders() -> list[Contender]:
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    peers = [Contender(f"dataloader/{way}", "user_audio", {"way": way}, quiet) for way in _WAYS]
    ours = [
        Contender(key, "overlord_audio", {"way": way}, is_peer=False)
        for key, way in ((OURS, "stream"), (CHAIN, "chain"))
    ]
    return [*ours, *peers]


def _prepare(pythons: _peers.Pythons, work: dict[str, Any]) -> None:
    """The files, written by whichever Python has soundfile."""
    found: dict[str, Any] = {}
    with _peers.package_folder() as path:
        for is_peer in (True, False):
            maker = Contender("files", "audio_files", is_peer=is_peer)
            found = _peers.run_once(pythons, maker, work, path)
            if _peers.is_measured(found):
                return
    raise RuntimeError(f"soundfile is needed to write the FLAC files of this bench: {found}")


def best_peer(found: dict[str, Any]) -> float:
    """Files a second of the fastest that is not ours; 0 where none was measured."""
    rates = [one.get("files_per_s", 0.0) for key, one in found.items() if key not in (OURS, CHAIN)]
    return max(rates, default=0.0)


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure both kinds of sound."""
    options = _parse(arguments)
    host = _contract.machine()
    pythons = _peers.find_pythons(options.peers)
    patience = Patience(options.patience)
    figures: dict[str, Any] = {}
    contenders: dict[str, Any] = {}
    for suffix, (rate, channels) in SOUNDS.items():
        place = options.data / f"audio-v1-{rate}-{channels}-{options.files}"
        work = {
            "folder": str(place),
            "files": options.files,
            "rate": rate,
            "channels": channels,
            "seconds": options.seconds,
            "workers": options.workers,
            "batch": 8,
        }
        _prepare(pythons, work)
        found = _peers.interleave(pythons, _contenders(), work, options.rounds, patience)
        ours = found[OURS].get("files_per_s")
        best = best_peer(found)
        figures["files_per_s" + suffix] = ours
        figures["ratio_vs_best_peer" + suffix] = ours / best if ours and best else None
        chain = found[CHAIN].get("files_per_s")
        figures["fraction_of_bare_chain" + suffix] = ours / chain if ours and chain else None
        contenders.update({key + suffix: value for key, value in found.items()})
    settings = {"sounds": "10 s, FLAC, 16 bits", "rounds": options.rounds, "mels": 80}
    return _contract.report("audio", figures, contenders, settings, host)
