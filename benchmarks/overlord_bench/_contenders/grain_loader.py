"""Grain: a random-access source, its shuffle, a packing dataset, and its prefetching.

`unit` is what one Grain element is: a document, or a block of documents, which spreads Grain's cost
per element. `place` says who packs: the loop's thread, a prefetching thread, or worker processes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from overlord_bench._contenders.loop import run_loop
from overlord_bench._contenders.numpy_packer import name_fields
from overlord_bench._contenders.whole_packer import make_packer
from overlord_bench._document_files import open_files

GATHER = 1024  # documents handed to the packer at once when elements are documents


class _DocumentSource:
    """Documents by number."""

    def __init__(self, work: dict[str, Any]) -> None:
        self._work = work
        self._files: Any = open_files(work)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, row: Any) -> Any:
        return self._files.document(int(row))

    def __getstate__(self) -> dict[str, Any]:
        return self._work

    def __setstate__(self, work: dict[str, Any]) -> None:
        self._work, self._files = work, open_files(work)


class _BlockSource(_DocumentSource):
    """Blocks of documents by number."""

    def __len__(self) -> int:
        return len(self._files.blocks())

    def __getitem__(self, block: Any) -> Any:
        where = self._files.blocks()[int(block)]
        return self._files.read(where, np.random.default_rng(int(block)))


def packed(parent: Any, work: dict[str, Any]) -> Any:
    """An IterDataset of steps over one of documents or blocks."""
    import grain  # type: ignore[import-not-found,unused-ignore]

    documents = work.get("unit", "block") == "document"

    class PackIterator(grain.DatasetIterator):  # type: ignore[misc]
        def __init__(self, source: Any) -> None:
            super().__init__(source)
            self._packer = make_packer(work)
            self._steps = self._packer.pack(self._lists())

        def _lists(self) -> Any:
            while documents:
                yield [next(self._parent) for _ in range(GATHER)]
            yield from self._parent

        def __next__(self) -> Any:
            slab, starts = next(self._steps)
            return {"slab": slab, "starts": starts}

        def get_state(self) -> dict[str, Any]:
            return {"parent": self._parent.get_state()}

        def set_state(self, state: dict[str, Any]) -> None:
            self._parent.set_state(state["parent"])

    class PackDataset(grain.IterDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return PackIterator(self._parent.__iter__())

    return PackDataset(parent)


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run."""
    import grain

    kind = _DocumentSource if work.get("unit", "block") == "document" else _BlockSource
    threads = work.get("read_threads", 0)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=16 if threads else 0)
    data = grain.MapDataset.source(kind(work)).seed(7).shuffle().repeat()
    steps = packed(data.to_iter_dataset(options), work)
    place = work.get("place", "loop")
    if place == "thread":
        steps = grain.experimental.ThreadPrefetchIterDataset(steps, prefetch_buffer_size=4)
    elif place != "loop":
        steps = steps.mp_prefetch(
            grain.MultiprocessingOptions(num_workers=int(place), per_worker_buffer_size=4)
        )
    context = work["context"]
    figures = run_loop(
        iter(steps), work, lambda batch: name_fields((batch["slab"], batch["starts"]), context)
    )
    from importlib.metadata import version

    return {"version": version("grain"), **figures}
