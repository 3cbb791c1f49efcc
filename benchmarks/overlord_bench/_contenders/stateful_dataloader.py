"""torchdata's StatefulDataLoader: a loader made anew that loads a state and gives a batch.

With a mapped dataset and its own random sampler, which remembers how many it gave; and with an
iterable dataset without a state of its own, which is replayed. States are made by loaders over the
same sampler whose documents are not read.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

from overlord_bench._document_files import BinFiles

BATCH = 1000  # documents; about as many as a step of ours has
MOST_REPLAYED = 1_000_000  # documents of an iterable dataset; ten million take minutes


def _take_first(batch: Any) -> Any:
    return len(batch)


class _Documents:
    """A mapped dataset, whose documents need not be read."""

    def __init__(self, files: BinFiles, read: bool) -> None:
        self._files, self._read = files, read

    def __len__(self) -> int:
        return len(self._files)

    def __getitems__(self, rows: list[int]) -> list[Any]:
        return [self._files.document(row) for row in rows] if self._read else rows


def _iterable(files: BinFiles) -> Any:
    from torch.utils.data import IterableDataset

    class Stream(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            return map(files.document, range(len(files)))

    return Stream()


def _loader(files: BinFiles, work: dict[str, Any], *, read: bool) -> Any:
    import torch
    from torchdata.stateful_dataloader import (  # type: ignore[import-not-found,unused-ignore]
        StatefulDataLoader,
    )

    workers = work.get("workers", 0)
    common = {"batch_size": BATCH, "num_workers": workers, "collate_fn": _take_first}
    if work.get("iterable"):
        return StatefulDataLoader(_iterable(files), **common)
    order = torch.Generator()
    order.manual_seed(7)
    return StatefulDataLoader(_Documents(files, read), shuffle=True, generator=order, **common)


def state_after(files: BinFiles, work: dict[str, Any], samples: int) -> Any:
    """The state of a loader that has given so many samples."""
    loader = _loader(files, work, read=False)
    batches = iter(loader)
    for _ in range(samples // BATCH):
        next(batches)
    return loader.state_dict()


def resume(files: BinFiles, work: dict[str, Any], state: Any) -> float:
    """Seconds from `load_state_dict` to the first batch."""
    loader = _loader(files, work, read=True)
    began = time.perf_counter()
    loader.load_state_dict(state)
    next(iter(loader))
    return time.perf_counter() - began


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Medians over the repeats; both states take turns."""
    import torchdata  # type: ignore[import-not-found,unused-ignore]

    files = BinFiles(work["folder"])
    far = min(work["far"], MOST_REPLAYED) if work.get("iterable") else work["far"]
    states = {"near": state_after(files, work, work["near"])}
    states["far"] = state_after(files, work, far)
    times: dict[str, list[float]] = {"near": [], "far": []}
    for _ in range(work["repeats"]):
        for name, state in states.items():
            times[name].append(resume(files, work, state))
    near_s, far_s = (statistics.median(times[name]) for name in ("near", "far"))
    return {
        "version": torchdata.__version__,
        "near_seconds": near_s,
        "far_seconds": far_s,
        "ratio": far_s / near_s,
        "far_samples": far,
    }
