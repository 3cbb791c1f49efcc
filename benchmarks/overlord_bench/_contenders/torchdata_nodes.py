"""torchdata.nodes: blocks, a mapper that reads them, a node that packs, and a prefetching thread.

`threads: 0` runs all in the loop's thread; 1 moves all of it to a Prefetcher's thread; 2 also reads
blocks in a thread of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from overlord_bench._contenders.loop import run_loop
from overlord_bench._contenders.numpy_packer import name_fields
from overlord_bench._contenders.whole_packer import make_packer
from overlord_bench._document_files import open_files, permuted_blocks


class _Blocks:
    """Block after block, without end."""

    def __init__(self, blocks: list[tuple[int, int]]) -> None:
        self._blocks = blocks

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return permuted_blocks(self._blocks, 7)


def pack_node(source: Any, work: dict[str, Any]) -> Any:
    """A node that packs the documents of its source into steps."""
    from torchdata.nodes import BaseNode  # type: ignore[import-not-found,unused-ignore]

    class Pack(BaseNode):  # type: ignore[misc]
        def reset(self, initial_state: dict[str, Any] | None = None) -> None:
            super().reset(initial_state)
            source.reset(initial_state and initial_state["source"])
            self._steps = make_packer(work).pack(source)

        def next(self) -> Any:
            return next(self._steps)

        def get_state(self) -> dict[str, Any]:
            return {"source": source.state_dict()}

    return Pack()


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run."""
    import torchdata  # type: ignore[import-not-found,unused-ignore]
    from torchdata.nodes import IterableWrapper, Loader, Mapper, ParallelMapper, Prefetcher

    files, threads = open_files(work), work.get("threads", 0)
    order = np.random.default_rng(7)
    blocks = IterableWrapper(_Blocks(files.blocks()))

    def read(block: tuple[int, int]) -> Any:
        return files.read(block, order)

    if threads == 2:
        reader = ParallelMapper(blocks, read, num_workers=1, method="thread", prebatch=None)
    else:
        reader = Mapper(blocks, read)
    node = pack_node(reader, work)
    if threads:
        node = Prefetcher(node, prefetch_factor=4)
    context = work["context"]
    figures = run_loop(iter(Loader(node)), work, lambda batch: name_fields(batch, context))
    return {"version": torchdata.__version__, **figures}
