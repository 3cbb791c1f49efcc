"""For loops of torch: docs/trainers/README.md. Torch is imported with the first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlord._src.trainers.broadcast import Broadcast, broadcast
    from overlord._src.trainers.torch_dataset import Dataset

__all__ = ["Broadcast", "Dataset", "broadcast"]

_HOMES = {
    "Broadcast": "overlord._src.trainers.broadcast",
    "Dataset": "overlord._src.trainers.torch_dataset",
    "broadcast": "overlord._src.trainers.broadcast",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'overlord.torch' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
