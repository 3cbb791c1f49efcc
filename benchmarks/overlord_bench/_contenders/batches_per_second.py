"""The loop of benches over media files: takes batches for a while and counts the files in them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np


def shuffled(count: int) -> Iterator[int]:
    """Indexes of all files, in another order every pass, without end."""
    drawn = np.random.default_rng(7)
    while True:
        yield from drawn.permutation(count).tolist()


class Endless:
    """A torch sampler that goes on."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return shuffled(self.count)

    def __len__(self) -> int:
        return 1 << 30


def measure_threads(
    make: Callable[[str], Any], files: Sequence[str], work: dict[str, Any]
) -> dict[str, Any]:
    """Arrays that threads make of files, stacked to batches in the loop."""
    batch = work["batch"]

    def batches(pool: ThreadPoolExecutor) -> Iterator[Any]:
        waiting: deque[Future[Any]] = deque()
        for index in shuffled(len(files)):
            waiting.append(pool.submit(make, files[index]))
            if len(waiting) >= 3 * batch:
                yield np.stack([waiting.popleft().result() for _ in range(batch)])

    with ThreadPoolExecutor(work["workers"]) as pool:
        figures = measure_batches(batches(pool), work)
        pool.shutdown(cancel_futures=True)
    return figures


def measure_dataloader(
    prepare: Callable[[], Callable[[str], Any]],
    files: Sequence[str],
    work: dict[str, Any],
    prefetch: int,
) -> dict[str, Any]:
    """The same in a torch DataLoader; `prepare` makes each worker's function."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)
    prepare()(files[0])  # whoever is missing is missed here, and nobody compiles in a worker

    class Files(Dataset):  # type: ignore[misc]
        made: Callable[[str], Any] | None = None

        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, index: int) -> Any:
            self.made = self.made or prepare()
            return torch.as_tensor(self.made(files[index]))

    loader = DataLoader(
        Files(),
        batch_size=work["batch"],
        sampler=Endless(len(files)),
        num_workers=work["workers"],
        prefetch_factor=prefetch,
    )
    return {"version": str(torch.__version__), **measure_batches(iter(loader), work)}


def measure_batches(batches: Iterator[Any], work: dict[str, Any]) -> dict[str, Any]:
    """Files a second after a second of warming up, and a mean that shows what was delivered."""
    started = time.perf_counter()
    while time.perf_counter() - started < 1.0:
        batch = next(batches)
    count, total = 0, 0.0
    started = time.perf_counter()
    while time.perf_counter() - started < work["seconds"]:
        batch = next(batches)
        total += float(batch.reshape(-1)[0])
        count += len(batch)
    taken = time.perf_counter() - started
    return {
        "files_per_s": count / taken,
        "shape": list(batch.shape),
        "last_mean": round(float(np.asarray(batch).mean()), 4),
    }
