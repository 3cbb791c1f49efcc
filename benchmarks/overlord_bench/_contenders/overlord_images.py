"""Ours: pictures through the whole stream, from a tar to batches; or the bare native loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overlord._version import __version__

from overlord_bench._contenders.media_stream import measure_stream
from overlord_bench._contenders.picture_files import names, tar_name


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Files a second."""
    side = work["side"]
    if work["way"] == "stream":
        steps = f"decode jpeg=scaled; resize width={side} height={side} filter=bilinear"
        return measure_stream(work, tar_name(work), {"from": ["jpg"], "transform": steps})
    from overlord_bench._native import bench_core

    files = [Path(name).read_bytes() for name in names(work)]
    is_chain = work["way"] == "chain"
    rate, _ = bench_core().pictures_per_second(
        files, side, is_chain, work["workers"], work["seconds"]
    )
    return {"version": __version__, "files_per_s": rate}
