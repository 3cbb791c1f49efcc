"""Trainers that take a step every so often, at a share of what their loaders can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlord_bench._contract import Figures
from overlord_bench._peers import is_measured
from overlord_bench._recovering.shadows import STALLED_MS
from overlord_bench.scaling._bench import Bench
from overlord_bench.scaling._sizes import on_cores

SHARE = 0.8  # of capacity
STARTING = 3  # steps in which everything starts


def capacity(
    bench: Bench, key: str, config: Mapping[str, Any], warmup: int, steps: int, **more: Any
) -> Figures:
    """Seconds of a step that nobody trains: of so many, after a warm-up."""
    place = on_cores(bench.options.cores)
    told = bench.measure(key, "rate", config, place, warmup=warmup, steps=steps, **more)
    if is_measured(told):
        told["step_s"] = 1 / told["steps_per_s"]
    return told


def paced(
    bench: Bench, key: str, config: Mapping[str, Any], step_s: float, steps: int, **more: Any
) -> Figures:
    """So many steps at a share of the capacity; adds which of them were not ready in time."""
    place = on_cores(bench.options.cores)
    told = bench.measure(key, "paced", config, place, period_s=step_s / SHARE, steps=steps, **more)
    if is_measured(told):
        late = stalled(told["waits_ms"])
        told |= {"stalled": late, "stalled_steps": len(late)}
        told["longest_wait_ms"] = max(told["waits_ms"][STARTING:])
    return told


def stalled(waits_ms: list[float]) -> list[int]:
    """The steps whose `next()` took too long."""
    return [step for step, wait in enumerate(waits_ms) if step >= STARTING and wait > STALLED_MS]
