"""Overlord under DeepSpeed's pipeline engine."""

from __future__ import annotations

from overlord._src.trainers.pipeline import PipelineBatches, pipeline

__all__ = ["PipelineBatches", "pipeline"]
