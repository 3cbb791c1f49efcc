"""The ceiling of delivery: two threads that copy as many bytes as a batch has, and do nothing else.

Each thread cycles over a few pairs of buffers of half a batch, as a loader that recycles its
memory would. Copies release the interpreter's lock.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

PAIRS = 4
THREADS = 2


def _copy(size: int, until: float, copied: list[int]) -> None:
    sources = [np.full(size, 1, np.uint8) for _ in range(PAIRS)]
    targets = [np.full(size, 2, np.uint8) for _ in range(PAIRS)]
    count = 0
    while time.perf_counter() < until:
        np.copyto(targets[count % PAIRS], sources[count % PAIRS])
        count += 1
    copied.append(count * size)


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Bytes copied a second by all threads together."""
    size = work["bins"] * work["context"] * 16 // THREADS
    copied: list[int] = []
    began = time.perf_counter()
    threads = [
        threading.Thread(target=_copy, args=(size, began + work["seconds"], copied))
        for _ in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - began
    return {"version": f"numpy {np.__version__}", "bytes_per_s": sum(copied) / wall}
