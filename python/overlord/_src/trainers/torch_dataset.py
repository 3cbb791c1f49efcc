"""Dataset: a loader as an IterableDataset, for those who wrap what they read in a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from overlord._src.errors import refused
from overlord._src.loader.loader import Loader


class Dataset(IterableDataset):  # type: ignore[misc]
    """`DataLoader(ol.torch.Dataset(loader, "hf"), batch_size=None)`: dicts of tensors.

    `form` and `options` are those of `batch.model_inputs`; without a form it gives `batch.torch()`.
    Batches come as they are (`batch_size=None`), read ahead by the engine, not by workers.
    """

    def __init__(self, loader: Loader, form: str | None = None, **options: Any) -> None:
        super().__init__()
        self._loader = loader
        self._form = form
        self._options = options

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if get_worker_info() is not None:
            raise refused(
                ("num_workers",),
                "every worker would read the whole stream, and the loader's state stays behind",
                get_worker_info().num_workers,
                "0: the engine reads ahead by itself, in threads or processes of its own",
            )
        for batch in self._loader:
            yield (
                batch.torch()
                if self._form is None
                else batch.model_inputs(self._form, **self._options)
            )

    def state_dict(self) -> dict[str, Any]:
        """The loader's: after what was read. A DataLoader without workers reads nothing ahead."""
        return self._loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._loader.load_state_dict(state_dict)
