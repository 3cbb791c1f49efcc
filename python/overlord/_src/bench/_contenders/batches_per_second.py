"""The loop of benches over media files: takes batches for a while and counts the files in them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np


def shuffled(count: int) -> Iterator[int]:
    """Indexes of all files, in another order every pass, without end."""
    drawn = np.random.default_rng(7)
    while True:
        yield from drawn.permutation(count).tolist()


def measure_batches(batches: Iterator[Any], work: dict[str, Any]) -> dict[str, Any]:
    """Files a second after a second of warming up, and a mean that shows what was delivered."""
    size = work["batch"]
    started = time.perf_counter()
    while time.perf_counter() - started < 1.0:
        batch = next(batches)
    count, total = 0, 0.0
    started = time.perf_counter()
    while time.perf_counter() - started < work["seconds"]:
        batch = next(batches)
        total += float(batch[(0,) * batch.ndim])
        count += size
    taken = time.perf_counter() - started
    return {
        "files_per_s": count / taken,
        "shape": list(batch.shape),
        "last_mean": round(float(np.asarray(batch).mean()), 4),
    }
