"""A loop that trains for some seconds and says how its device fared."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch

from overlord_bench import _quiet
from overlord_bench._contenders.gpu.marks import Marks

SKIPPED = 6  # microbatches before anything is measured


def optimizer_of(model: Any, device: str) -> Any:
    """As one trains such models."""
    return torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device == "cuda")


def reading(work: dict[str, Any]) -> dict[str, Any]:
    """Options of `job.train`: batches on their way to the device, or left to the loop."""
    options: dict[str, Any] = {"engine": work["engine"]}
    if work["ahead"]:
        options |= {"device": work["device"], "pin": work["device"] == "cuda"}
    return options


def trained(
    loader: Any,
    model: Any,
    inputs_of: Callable[[Any], dict[str, Any]],
    work: dict[str, Any],
) -> dict[str, Any]:
    """Train `work["seconds"]` long."""
    optimizer = optimizer_of(model, work["device"])
    marks = Marks(work["device"])
    moved = pictures = done = 0
    loss: Any = None
    moment, until = _quiet.now(), float("inf")
    while True:
        marks.asked()
        if time.perf_counter() > until:
            break
        batch = next(loader)
        if not work["ahead"]:
            batch = batch.to(work["device"])
        marks.given()
        inputs = inputs_of(batch)
        marks.ready()
        loss = model(**inputs).loss
        loss.backward()
        if batch.last_in_step:
            optimizer.step()
            optimizer.zero_grad()
        moved += batch.nbytes
        pictures += sum(len(media) for media in batch.media.values())
        done += 1
        if done == SKIPPED:
            if work["device"] == "cuda":
                torch.cuda.synchronize()
            marks, moved, pictures = Marks(work["device"]), 0, 0
            moment, until = _quiet.now(), time.perf_counter() + work["seconds"]
    shares = marks.shares()
    wall = time.perf_counter() - moment.wall
    busy = _quiet.now().system - moment.system
    loop_busy = _quiet.now().ours - moment.ours
    if not torch.isfinite(loss.detach()):
        raise AssertionError(f"the loss is {float(loss)}: this was no training")
    return {
        "version": torch.__version__,
        **shares,
        "host_busy_share": busy / wall / len(os.sched_getaffinity(0)),
        "loop_cores": loop_busy / wall,
        "copied_mb_per_s": moved / wall / 1e6,
        "pictures_per_s": pictures / wall,
        "loss": float(loss.detach()),
    }
