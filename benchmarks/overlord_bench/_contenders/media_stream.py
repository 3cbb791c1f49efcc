"""Ours: media through the whole stream, from a tar with captions to batches in a Python loop."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from overlord._version import __version__

from overlord_bench._contenders.batches_per_second import measure_batches


def caption(number: int) -> str:
    """A few words."""
    return f"file number {number} of the bench, made by chance"


def write_tar(path: str, files: Sequence[str]) -> str:
    """All files in one tar, each with a caption; written once."""
    if Path(path).exists():
        return path
    with tarfile.open(path + ".part", "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, name in enumerate(files):
            suffix, data = Path(name).suffix[1:], Path(name).read_bytes()
            for extension, content in ((suffix, data), ("txt", caption(number).encode())):
                entry = tarfile.TarInfo(f"{number:06}.{extension}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    os.replace(path + ".part", path)
    return path


def _config(work: dict[str, Any], tar: str, field: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": "bench-media",
        "seed": 7,
        "index_dir": work["folder"] + "/index",
        "steps": 1_000_000,
        "context": 64,
        "bins": work["batch"],
        "packing": {"method": "pad"},
        "vocabulary": 256,
        "over_length": "drop",
        "at_end": "repeat",
        "sources": {
            "files": {
                "files": tar,
                "text": "txt",
                "tokenizer": "bytes",
                "shuffle": "full",
                "media": {"media": {**field, "tokens": {"pad": 255, "count": 1}}},
                "workers": work["workers"],
            }
        },
        "mixture": {"weights": {"files": 1}},
        "delivery": {"microbatch_size": work["batch"]},
        "runtime": {"threads": work["workers"], "prefetch": 4, "runway": 4},
    }


def measure_stream(work: dict[str, Any], tar: str, field: dict[str, Any]) -> dict[str, Any]:
    """Files a second; `field` is what the config says of them."""
    import overlord as ol

    with ol.job(_config(work, tar, field)).train(engine="embedded") as loader:

        def batches() -> Iterator[Any]:
            for batch in loader:
                media = batch.media["media"]
                assert media.data is not None
                yield media.data.reshape(len(media), -1, *media.data.shape[1:])

        return {"version": __version__, **measure_batches(batches(), work)}
