"""Overlord under verl's SFT trainer: what takes the place of its dataloader."""

from __future__ import annotations

from overlord._src.trainers.step_batches import StepBatches

__all__ = ["StepBatches"]
