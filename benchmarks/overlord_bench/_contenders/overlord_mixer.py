"""Ours: the planner's update of a metric-driven mixture."""

from __future__ import annotations

import statistics
from typing import Any

from overlord._version import __version__


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds of a step from feedback to quotas, and the bytes of the state."""
    from overlord_bench._native import bench_core

    found = bench_core().mix_stats(work["method"], work["sources"], work["steps"])
    times = sorted(found["ms"])
    return {
        "version": __version__,
        "ms": statistics.median(times),
        "ms_p99": times[int(0.99 * (len(times) - 1))],
        "ms_max": times[-1],
        "state_bytes": found["state_bytes"],
    }
