"""Ours: the native chain in threads, batches stacked in the loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from overlord._src.bench._contenders.batches_per_second import measure_batches, shuffled
from overlord._src.bench._contenders.video_files import names
from overlord._version import __version__


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Files a second."""
    from overlord._src.native import core

    chain = core.VideoChain(
        f"sample frames={work['frames']}; "
        f"resize width={work['side']} height={work['side']} filter=bilinear"
    )
    files, batch = names(work), work["batch"]

    def frames(name: str) -> Any:
        return chain.run(Path(name).read_bytes())[0]

    def batches(pool: ThreadPoolExecutor) -> Iterator[Any]:
        waiting: deque[Future[Any]] = deque()
        for index in shuffled(len(files)):
            waiting.append(pool.submit(frames, files[index]))
            if len(waiting) >= 3 * batch:
                yield np.stack([waiting.popleft().result() for _ in range(batch)])

    with ThreadPoolExecutor(work["workers"]) as pool:
        figures = measure_batches(batches(pool), work)
        pool.shutdown(cancel_futures=True)
    return {"version": __version__, **figures}
