"""Ours: pictures through the whole stream, from a tar to batches; or the bare native loops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overlord._src.bench._contenders.batches_per_second import measure_batches
from overlord._src.bench._contenders.picture_files import names, tar_name
from overlord._version import __version__


def _config(work: dict[str, Any]) -> dict[str, Any]:
    side = work["side"]
    image = {
        "from": ["jpg"],
        "transform": f"decode jpeg=scaled; resize width={side} height={side} filter=bilinear",
        "tokens": {"pad": 255, "count": 1},
    }
    return {
        "job": "bench-images",
        "seed": 7,
        "index_dir": work["folder"] + "/index-images",
        "steps": 1_000_000,
        "context": 64,
        "bins": work["batch"],
        "packing": {"method": "pad"},
        "vocabulary": 256,
        "over_length": "drop",
        "at_end": "repeat",
        "sources": {
            "pairs": {
                "files": tar_name(work),
                "text": "txt",
                "tokenizer": "bytes",
                "shuffle": "full",
                "media": {"image": image},
                "workers": work["workers"],
            }
        },
        "mixture": {"weights": {"pairs": 1}},
        "delivery": {"microbatch_size": work["batch"]},
        "runtime": {"threads": work["workers"], "prefetch": 4, "runway": 4},
    }


def _stream(work: dict[str, Any]) -> dict[str, Any]:
    import overlord as ol

    with ol.job(_config(work)).train(engine="embedded") as loader:

        def batches() -> Iterator[Any]:
            for batch in loader:
                yield batch.media["image"].data

        return measure_batches(batches(), work)


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Files a second."""
    if work["way"] == "stream":
        return {"version": __version__, **_stream(work)}
    from overlord._src.native import core

    files = [Path(name).read_bytes() for name in names(work)]
    is_chain = work["way"] == "chain"
    rate, _ = core.pictures_per_second(
        files, work["side"], is_chain, work["workers"], work["seconds"]
    )
    return {"version": __version__, "files_per_s": rate}
