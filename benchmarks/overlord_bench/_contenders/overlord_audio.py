"""Ours: sounds through the whole stream, or the native chain alone in threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overlord._version import __version__

from overlord_bench._contenders.audio_files import SECONDS, names
from overlord_bench._contenders.batches_per_second import measure_threads
from overlord_bench._contenders.media_stream import measure_stream, write_tar

RATE = 16_000
CHAIN = f"mono; resample rate={RATE}; fit samples={SECONDS * RATE}; log_mel mels=80"


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Files a second."""
    if work["way"] == "stream":
        tar = write_tar(work["folder"] + "/sounds.tar", names(work))
        return measure_stream(work, tar, {"kind": "audio", "from": ["flac"], "transform": CHAIN})
    from overlord._src.native import core

    chain = core.AudioChain(CHAIN)

    def spectrogram(name: str) -> Any:
        return chain.run(Path(name).read_bytes())[0]

    return {"version": __version__, **measure_threads(spectrogram, names(work), work)}
