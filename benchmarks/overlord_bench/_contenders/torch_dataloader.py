"""torch.utils.data.DataLoader: an iterable dataset that packs, in process or in workers.

In workers a step is packed into shared memory straight away, so that nothing but the handle is
copied on its way to the trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from overlord_bench._contenders.loop import run_loop
from overlord_bench._contenders.numpy_packer import Documents, name_fields
from overlord_bench._contenders.whole_packer import make_packer
from overlord_bench._document_files import open_files, permuted_documents

ReadShare = Callable[[int, int], Iterator[Documents]]  # of one part of so many


def _as_given(batch: Any) -> Any:
    return batch


def shared_slab(count: int) -> Any:
    """Memory for a step that another process can map."""
    import torch

    storage = torch.UntypedStorage._new_shared(count * 16)
    return torch.empty(0, dtype=torch.int32).set_(storage).reshape(4, count)


def packed_dataset(read_share: ReadShare, work: dict[str, Any]) -> Any:
    """Steps as an IterableDataset; workers share the documents among them."""
    import torch
    from torch.utils.data import IterableDataset, get_worker_info

    class PackedSteps(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            info = get_worker_info()
            if info is None:
                yield from make_packer(work).pack(read_share(0, 1))
                return
            share = read_share(info.id, info.num_workers)
            for slab, starts in make_packer(work, shared_slab).pack(share):
                yield slab, torch.from_numpy(starts)

    return PackedSteps()


def loader_over(dataset: Any, workers: int, prefetch: int = 4, sharing: str = "file_system") -> Any:
    """A DataLoader that hands on what the dataset yields."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    torch.multiprocessing.set_sharing_strategy(sharing)  # file_system: the faster of the two
    more = {"prefetch_factor": prefetch, "persistent_workers": True} if workers else {}
    return DataLoader(dataset, batch_size=None, num_workers=workers, collate_fn=_as_given, **more)


def measure_share(read_share: ReadShare, work: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run with `workers` processes; with none the loop's own thread packs."""
    loader = loader_over(packed_dataset(read_share, work), work.get("workers", 0))
    context = work["context"]
    return run_loop(iter(loader), work, lambda batch: name_fields(batch, context))


def read_files(work: dict[str, Any], part: int, parts: int) -> Iterator[Documents]:
    """Documents of one worker's share of the files."""
    return permuted_documents(open_files(work), 7, part, parts)


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run."""
    import torch

    return {"version": str(torch.__version__), **measure_share(partial(read_files, work), work)}
