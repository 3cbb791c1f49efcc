"""A small model that trains on batches of Overlord, or on the same out of a DataLoader."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from overlord_bench._contenders.overlord_loader import job_config

FIELDS = ("tokens", "targets", "positions", "loss_weights")
WIDTH = 64


class Model(nn.Module):  # type: ignore[misc]
    """Words and places, two layers, and the loss of every target by its weight."""

    def __init__(self, vocabulary: int, context: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, WIDTH)
        self.places = nn.Embedding(context, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, batch: dict[str, Any]) -> Any:
        """The sum of the losses over the targets."""
        tokens = batch["tokens"].long()
        hidden = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        x = self.words(tokens) + self.places(batch["positions"].long())
        logits = self.head(self.layers(x, hidden, is_causal=True))
        losses = nn.functional.cross_entropy(
            logits.flatten(0, 1), batch["targets"].long().flatten(), reduction="none"
        )
        weights = batch["loss_weights"].flatten()
        return (losses * weights).sum() / weights.sum()


class Rows(Dataset):  # type: ignore[misc]
    """Rows that were packed beforehand, one file per field."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arrays: dict[str, Any] = {}
        self._count = len(np.load(folder / "tokens.npy", mmap_mode="r"))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> dict[str, Any]:
        if not self._arrays:  # in the worker that reads
            self._arrays = {f: np.load(self._folder / f"{f}.npy", mmap_mode="r") for f in FIELDS}
        return {name: torch.tensor(array[row]) for name, array in self._arrays.items()}


def _ours(work: dict[str, Any]) -> Any:
    import overlord as ol

    return ol.job(job_config(work)).train(rank=0, engine="embedded")


def _packed(work: dict[str, Any], steps: int) -> Path:
    """The rows of the first steps, written once."""
    folder = Path(work["folder"]) / f"packed-{work['context']}-{work['bins']}-{steps}"
    if folder.is_dir():
        return folder
    with _ours(work) as loader:
        batches = list(islice(loader, steps))
    writing = folder.with_name(f"{folder.name}.{os.getpid()}")
    writing.mkdir()
    for name in FIELDS:
        np.save(writing / f"{name}.npy", np.concatenate([getattr(b, name) for b in batches]))
    writing.rename(folder)
    return folder


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a step, without the first ones; the last loss tells that all saw the same."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model(work["vocabulary"], work["context"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = work["warmup"] + work["steps"]
    batches: Iterator[dict[str, Any]]
    if work["workers"] is None:
        loader = _ours(work)
        batches = (batch.torch() for batch in loader)
    else:
        rows, workers = Rows(_packed(work, steps)), work["workers"]
        batches = iter(DataLoader(rows, batch_size=work["bins"], num_workers=workers))
    began = waited = 0.0
    for step in range(steps):
        if step == work["warmup"]:
            began, waited = time.perf_counter(), 0.0
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    seconds = time.perf_counter() - began
    return {
        "version": torch.__version__,
        "step_s": seconds / work["steps"],
        "wait_s": waited / work["steps"],
        "last_loss": float(loss),
    }
