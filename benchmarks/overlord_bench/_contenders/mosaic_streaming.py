"""Mosaic Streaming: the documents in its MDS format, shuffled by it, packed where it iterates.

`unit` is what one MDS sample is: a document, or 64 documents, which spreads its cost per sample.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from overlord_bench._contenders.loop import run_loop
from overlord_bench._contenders.numpy_packer import allocate, name_fields
from overlord_bench._contenders.torch_dataloader import loader_over, shared_slab
from overlord_bench._contenders.whole_packer import make_packer
from overlord_bench._document_files import BinFiles

GROUP = 64  # documents of a sample when samples are groups
GATHER = 1024  # documents handed to the packer at once when samples are documents


def converted(work: dict[str, Any]) -> Path:
    """The documents as MDS, written once."""
    from streaming import MDSWriter  # type: ignore[import-not-found,unused-ignore]

    unit = work.get("unit", "document")
    place = Path(work["folder"]) / f"mds-{unit}"
    if not (place / "converted").exists():
        shutil.rmtree(place, ignore_errors=True)
        files = BinFiles(work["folder"])
        size = GROUP if unit == "group" else 1
        columns = {"tokens": "ndarray:uint16", "counts": "ndarray:int32"}
        with MDSWriter(out=str(place), columns=columns) as writer:
            for first in range(0, len(files), size):
                rows = [files.document(row) for row in range(first, min(first + size, len(files)))]
                counts = np.array([len(row) for row in rows], np.int32)
                writer.write({"tokens": np.concatenate(rows), "counts": counts})
        (place / "converted").touch()
    return place


def packed_dataset(place: Path, work: dict[str, Any]) -> Any:
    """A StreamingDataset that yields packed steps."""
    import torch
    from streaming import StreamingDataset

    grouped = work.get("unit", "document") == "group"

    class PackedStream(StreamingDataset):  # type: ignore[misc]
        def _lists(self) -> Iterator[Any]:
            waiting = []
            for sample in super().__iter__():
                if grouped:
                    yield np.split(sample["tokens"], np.cumsum(sample["counts"])[:-1])
                    continue
                waiting.append(sample["tokens"])
                if len(waiting) == GATHER:
                    yield waiting
                    waiting = []
            if waiting:
                yield waiting

        def __iter__(self) -> Iterator[Any]:
            in_worker = torch.utils.data.get_worker_info() is not None
            packer = make_packer(work, shared_slab if in_worker else allocate)
            for slab, starts in packer.pack(self._lists()):
                yield slab, torch.from_numpy(starts)

    return PackedStream(local=str(place), shuffle=True, shuffle_algo="py1e", batch_size=64)


def _without_end(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run."""
    if work["format"] != "bin":
        return {"missing": "reads its own MDS format only; it is among the .bin contenders"}
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import streaming

    streaming.base.util.clean_stale_shared_memory()
    dataset = packed_dataset(converted(work), work)
    loader = loader_over(dataset, work.get("workers", 0))
    context = work["context"]
    figures = run_loop(_without_end(loader), work, lambda batch: name_fields(batch, context))
    return {"version": streaming.__version__, **figures}
