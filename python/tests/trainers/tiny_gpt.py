"""A decoder that is called as those of transformers are, for tests that have torch alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from packed_job import VOCABULARY
from torch import nn
from torch.nn import functional

WIDTH, HEADS = 32, 4


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.split = nn.Linear(WIDTH, 3 * WIDTH)
        self.join = nn.Linear(WIDTH, WIDTH)
        self.hidden = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x: Any, visible: Any) -> Any:
        parts = self.split(self.norms[0](x)).unflatten(-1, (3 * HEADS, -1)).transpose(1, 2)
        y = functional.scaled_dot_product_attention(*parts.chunk(3, 1), attn_mask=visible)
        x = x + self.join(y.transpose(1, 2).flatten(2))
        return x + self.hidden(self.norms[1](x))


class TinyGPT(nn.Module):
    """Documents begin where positions are 0; labels that are not shifted are shifted here."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.ModuleDict(
            {"words": nn.Embedding(VOCABULARY, WIDTH), "places": nn.Embedding(64, WIDTH)}
        )
        self.model.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(
        self,
        input_ids: Any,
        position_ids: Any = None,
        use_cache: bool = True,
        labels: Any = None,
        shift_labels: Any = None,
        num_items_in_batch: Any = None,
    ) -> Any:
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1])[None]
        documents = (position_ids == 0).cumsum(-1)
        visible = (documents[:, :, None] == documents[:, None, :]).tril()[:, None]
        x = self.model["words"](input_ids) + self.model["places"](position_ids)
        for layer in self.model.layers:
            x = layer(x, visible)
        logits = self.head(x)
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(
                logits.flatten(0, 1), shift_labels.flatten(), ignore_index=-100, reduction="sum"
            )
            loss = loss / num_items_in_batch
        return SimpleNamespace(loss=loss, logits=logits)
