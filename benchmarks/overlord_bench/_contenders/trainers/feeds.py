"""Who feeds a trainer: Overlord, or a DataLoader over the same rows, packed beforehand.

The DataLoader has what one would give it at best: rows of the finished inputs lie in one file per
field, mapped; workers take and collate them, and that is all. They are `input_ids`, `position_ids`
and `labels`, which the model shifts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from overlord_bench._contenders.overlord_loader import job_config

FIELDS = ("input_ids", "position_ids", "labels")
OURS = "overlord"


def config_of(work: dict[str, Any]) -> dict[str, Any]:
    """The job: documents whole, so that labels say all that targets say."""
    return {**job_config(work), "over_length": "drop", "steps": steps_of(work)}


def steps_of(work: dict[str, Any]) -> int:
    """Steps of a run."""
    return int(work["warmup"] + work["steps"])


def feeds_of(work: dict[str, Any]) -> dict[str, int | None]:
    """Workers of each, by its name; None: ours."""
    return {OURS: None, **{f"dataloader_{count}": count for count in work["workers"]}}


class Rows(Dataset):  # type: ignore[misc]
    """Rows that were packed beforehand, one file per field."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arrays: dict[str, Any] = {}
        self._count = len(np.load(folder / "labels.npy", mmap_mode="r"))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> dict[str, Any]:
        if not self._arrays:  # in the worker that reads
            self._arrays = {f: np.load(self._folder / f"{f}.npy", mmap_mode="r") for f in FIELDS}
        return {name: torch.tensor(array[row]) for name, array in self._arrays.items()}


def packed(work: dict[str, Any], model: Any) -> Rows:
    """The rows of all steps, written once."""
    import overlord as ol

    name = f"rows-{work['context']}-{work['bins']}-{steps_of(work)}"
    folder = Path(work["folder"]) / name
    if not folder.is_dir():
        with ol.job(config_of(work)).train(rank=0, engine="embedded") as loader:
            given = [batch.model_inputs("hf", model=model) for batch in loader]
        writing = folder.with_name(f"{name}.{os.getpid()}")
        writing.mkdir()
        for field in FIELDS:
            rows = np.concatenate([inputs[field].numpy() for inputs in given])
            np.save(writing / f"{field}.npy", rows)
        writing.rename(folder)
    return Rows(folder)


def ours(work: dict[str, Any], model: Any) -> Iterator[dict[str, Any]]:
    """Inputs out of a loader, the next batch on its way to the device."""
    import overlord as ol

    device = work["device"]
    options = {"device": device, "pin": True} if device == "cuda" else {}
    with ol.job(config_of(work)).train(rank=0, engine="embedded", **options) as loader:
        for batch in loader:
            yield batch.model_inputs("hf", model=model)


def theirs(work: dict[str, Any], rows: Rows, workers: int) -> Iterator[dict[str, Any]]:
    """The same out of a DataLoader, through pinned memory where there is a GPU."""
    device = work["device"]
    pinned = device == "cuda"
    batches = DataLoader(rows, work["bins"], num_workers=workers, pin_memory=pinned)
    for inputs in islice(batches, steps_of(work)):
        yield {name: tensor.to(device, non_blocking=pinned) for name, tensor in inputs.items()}
