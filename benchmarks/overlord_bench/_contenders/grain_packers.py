"""Grain's packing datasets: first-fit and best-fit over 64 bins, as its documentation uses them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from overlord_bench._web_corpus import WebCorpus, lengths


class _Documents:
    """Documents by number; those over the context were split before, as ours does."""

    def __init__(self, count: int, context: int) -> None:
        drawn = lengths(WebCorpus(), count, np.random.default_rng(7)).tolist()
        pieces = [
            min(context, length - first) for length in drawn for first in range(0, length, context)
        ]
        self._documents = [{"tokens": np.ones(length, np.int32)} for length in pieces]

    def __len__(self) -> int:
        return len(self._documents)

    def __getitem__(self, row: Any) -> Any:
        return self._documents[int(row)]


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Fill, and documents a second."""
    from importlib.metadata import version

    import grain  # type: ignore[import-not-found,unused-ignore]

    packers = {
        "first_fit": grain.experimental.FirstFitPackIterDataset,
        "best_fit": grain.experimental.BestFitPackIterDataset,
    }
    source = grain.MapDataset.source(_Documents(work["documents"], work["context"]))
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    packed = packers[work["method"]](
        source.to_iter_dataset(options),
        length_struct={"tokens": work["context"]},
        num_packing_bins=work["bins"],
    )
    tokens = sequences = 0
    began = time.perf_counter()
    for sequence in packed:
        tokens += int(np.count_nonzero(sequence["tokens_segment_ids"]))
        sequences += 1
    wall = time.perf_counter() - began
    return {
        "version": version("grain"),
        "fill": tokens / (sequences * work["context"]),
        "docs_per_s": work["documents"] / wall,
        "steps": sequences / work["bins"],
    }
