"""Ours: clips through the whole stream, or the native chain alone in threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overlord._version import __version__

from overlord_bench._contenders.batches_per_second import measure_threads
from overlord_bench._contenders.media_stream import measure_stream, write_tar
from overlord_bench._contenders.video_files import names


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Files a second."""
    steps = (
        f"sample frames={work['frames']}; "
        f"resize width={work['side']} height={work['side']} filter=bilinear"
    )
    if work["way"] == "stream":
        tar = write_tar(work["folder"] + "/clips.tar", names(work))
        return measure_stream(work, tar, {"kind": "video", "from": ["mp4"], "transform": steps})
    from overlord._src.native import core

    chain = core.VideoChain(steps)

    def frames(name: str) -> Any:
        return chain.run(Path(name).read_bytes())[0]

    return {"version": __version__, **measure_threads(frames, names(work), work)}
