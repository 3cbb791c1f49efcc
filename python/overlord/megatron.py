"""Overlord under Megatron-LM and Megatron-Bridge: an external loader and its provider.

from overlord.megatron import provider
pretrain(provider("mix.yaml", packed=True), model_provider, ...)  # --dataloader-type external
"""

from __future__ import annotations

from overlord._src.trainers.megatron import MegatronLoader, mesh, provider, saved_state

__all__ = ["MegatronLoader", "mesh", "provider", "saved_state"]
