"""Ours: the native chain in threads, batches stacked in the loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overlord._src.bench._contenders.audio_files import names
from overlord._src.bench._contenders.batches_per_second import measure_threads
from overlord._version import __version__

CHAIN = "mono; resample rate=16000; log_mel mels=80"


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Files a second."""
    from overlord._src.native import core

    chain = core.AudioChain(CHAIN)

    def spectrogram(name: str) -> Any:
        return chain.run(Path(name).read_bytes())[0]

    return {"version": __version__, **measure_threads(spectrogram, names(work), work)}
