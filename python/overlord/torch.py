"""Overlord in loops of torch: what is handed on from rank to rank."""

from __future__ import annotations

from overlord._src.trainers.broadcast import Broadcast, broadcast

__all__ = ["Broadcast", "broadcast"]
