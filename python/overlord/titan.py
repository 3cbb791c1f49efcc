"""Overlord under torchtitan: a dataloader that its trainer builds.

from overlord import titan
config.dataloader = titan.DataLoader.Config(job="mix.yaml")

The class is made when it is first asked for, and needs torchtitan.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlord._src.trainers.titan import DataLoader

__all__ = ["DataLoader"]


def __getattr__(name: str) -> Any:
    if name != "DataLoader":
        raise AttributeError(f"module 'overlord.titan' has no attribute {name!r}")
    return importlib.import_module("overlord._src.trainers.titan").DataLoader
