"""The ceiling of Parquet delivery: pyarrow reads the same column with two threads, and stops there.

Two ways are tried and the faster counts: a thread per share of the row groups, and Arrow's own
dataset scanner with a pool of two.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

THREADS = 2


def _read_share(paths: list[Path], column: str, share: int, until: float, found: list[int]) -> None:
    files = [pq.ParquetFile(path) for path in paths]
    groups = [(file, group) for file in files for group in range(file.num_row_groups)]
    count = tokens = 0
    while time.perf_counter() < until:
        file, group = groups[(share + count * THREADS) % len(groups)]
        table = file.read_row_group(group, columns=[column], use_threads=False)
        tokens += sum(len(chunk.values) for chunk in table.column(0).chunks)
        count += 1
    found.append(tokens)


def by_row_groups(paths: list[Path], column: str, seconds: float) -> float:
    """Tokens a second with a thread per share of the row groups."""
    found: list[int] = []
    began = time.perf_counter()
    threads = [
        threading.Thread(target=_read_share, args=(paths, column, share, began + seconds, found))
        for share in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(found) / (time.perf_counter() - began)


def by_scanner(paths: list[Path], column: str, seconds: float) -> float:
    """Tokens a second through the dataset scanner."""
    pa.set_cpu_count(THREADS)
    pa.set_io_thread_count(THREADS)
    data = ds.dataset([str(path) for path in paths])
    tokens, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for batch in data.to_batches(columns=[column], use_threads=True):
            lists = batch.column(0)
            tokens += lists.offsets[-1].as_py() - lists.offsets[0].as_py()
            if time.perf_counter() - began > seconds:
                break
    return tokens / (time.perf_counter() - began)


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Tokens read a second, the faster of the two ways."""
    paths = sorted(Path(work["folder"]).glob("*.parquet"))
    groups = by_row_groups(paths, work["column"], work["seconds"] / 2)
    scanner = by_scanner(paths, work["column"], work["seconds"] / 2)
    return {
        "version": pa.__version__,
        "tokens_per_s": max(groups, scanner),
        "row_groups_tokens_per_s": groups,
        "scanner_tokens_per_s": scanner,
    }
