"""For loops of torch: docs/trainers/README.md. Torch is imported with the first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlord._src.trainers.torch_dataset import Dataset

__all__ = ["Dataset"]

_HOMES = {"Dataset": "overlord._src.trainers.torch_dataset"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'overlord.torch' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
