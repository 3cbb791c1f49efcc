"""A small job over ready tokens for tests of trainers, and what its documents are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

VOCABULARY = 96


def packed_job(folder: Path, **more: Any) -> dict[str, Any]:
    """Its config: three to eight documents in a row, some of which are cut, and masks."""
    dice = np.random.default_rng(7)
    sources = {}
    for source, documents in (("books", 60), ("web", 240)):
        path = folder / f"{source}.parquet"
        if not path.exists():
            lengths = dice.integers(3, 30, documents)
            tokens = [dice.integers(1, VOCABULARY, length) for length in lengths]
            masks = [dice.random(length) < 0.8 for length in lengths]
            columns = {
                "tokens": pa.array(tokens, pa.list_(pa.int32())),
                "mask": pa.array([mask.astype(np.uint8) for mask in masks], pa.list_(pa.uint8())),
            }
            pq.write_table(pa.table(columns), path)
        sources[source] = {"files": str(path), "tokens": "tokens", "mask": "mask"}
    config = {
        "job": "packed",
        "seed": 11,
        "context": 64,
        "bins": 8,
        "steps": 20,
        "vocabulary": VOCABULARY,
        "at_end": "repeat",
        "index_dir": str(folder / "index"),
        "packing": {"method": "concat"},
        "mixture": {"weights": {"books": 0.3, "web": 0.7}},
        "sources": sources,
    }
    return {**config, **more}


def documents(batch: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Of every document of a microbatch, alone: its tokens, targets and weights."""
    arrays = [array.reshape(-1) for array in (batch.tokens, batch.targets, batch.loss_weights)]
    begins, lengths = batch.cu_seqlens_padded, np.diff(batch.cu_seqlens)
    for begin, length in zip(begins, lengths, strict=False):
        if length:
            yield tuple(array[begin : begin + length] for array in arrays)
