"""The measured loop: what a trainer does with a batch before it computes, and nothing else."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

from overlord_bench._contenders.numpy_packer import Batch

Named = Callable[[Any], Batch]


def touch(batch: Batch) -> int:
    """Read one value of every field; the real tokens of the batch."""
    for name in ("tokens", "targets", "positions", "loss_weights"):
        batch[name][-1, -1]
    return int(batch["cu_seqlens"][-1])


def bytes_of(batch: Batch) -> int:
    """Bytes of the arrays of a batch."""
    return sum(int(array.nbytes) for array in batch.values())


def compute(until: float) -> None:
    """Python code that runs up to a moment, as a trainer's own does."""
    while time.perf_counter() < until:
        pass


def run_loop(batches: Iterator[Any], work: dict[str, Any], named: Named) -> dict[str, Any]:
    """Take batches for `seconds` after `warmup` steps; `named` gives a batch's fields by name.

    With `half_busy` the loop computes in Python as long as it waited for the batch, so that half of
    its thread's time is the trainer's own. A loader that needs nothing of that thread, nor of the
    interpreter's lock, goes on meanwhile.
    """
    half_busy = work.get("half_busy", False)
    size = 0
    for _ in range(work["warmup"]):
        batch = named(next(batches))
        check_fields(batch, work)
        size += bytes_of(batch)
    tokens = steps = 0
    began_thread, began_cpu, began = time.thread_time(), _all_cpu(), time.perf_counter()
    until = began + work["seconds"]
    now = began
    while now < until:
        asked = now
        batch = named(next(batches))
        tokens += touch(batch)
        steps += 1
        now = time.perf_counter()
        if half_busy:
            compute(2 * now - asked)
            now = time.perf_counter()
    wall = now - began
    return {
        "tokens_per_s": tokens / wall,
        "bytes_per_s": size / work["warmup"] * steps / wall,
        "loop_cpu": (time.thread_time() - began_thread) / wall,
        "process_cpu": (_all_cpu() - began_cpu) / wall,
        "fill": tokens / (steps * work["bins"] * work["context"]),
        "steps": steps,
    }


def _all_cpu() -> float:
    """CPU seconds of this process (children count only once they have ended)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def check_fields(batch: Batch, work: dict[str, Any]) -> None:
    """Every contender fills the same fields, in the same shapes and types."""
    shape = (work["bins"], work["context"])
    kinds = {"tokens": "int32", "targets": "int32", "positions": "int32", "loss_weights": "float32"}
    for name, kind in kinds.items():
        array = batch[name]
        if tuple(array.shape) != shape or str(array.dtype).removeprefix("torch.") != kind:
            raise AssertionError(f"{name}: {array.dtype}{tuple(array.shape)}, not {kind}{shape}")
    starts = batch["cu_seqlens"]
    if str(starts.dtype).removeprefix("torch.") != "int32" or int(starts[0]) != 0:
        raise AssertionError("cu_seqlens: int32 that begins with 0 is wanted")
