"""Under Lightning's Trainer: docs/trainers/lightning.md. Lightning is imported at first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlord._src.trainers.lightning_data import DataModule

__all__ = ["DataModule"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'overlord.lightning' has no attribute {name!r}")
    return getattr(importlib.import_module("overlord._src.trainers.lightning_data"), name)
