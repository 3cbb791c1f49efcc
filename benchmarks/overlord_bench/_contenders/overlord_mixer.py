"""Ours: the planner's update of a metric-driven mixture."""

from __future__ import annotations

import statistics
from typing import Any

from overlord._version import __version__


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Milliseconds of a step from feedback to quotas, and the bytes of the state."""
    from overlord._src.native import core

    kind = getattr(core.ControllerKind, work["method"])
    found = core.mix_stats(kind, work["sources"], work["steps"])
    times = sorted(found["ms"])
    return {
        "version": __version__,
        "ms": statistics.median(times),
        "ms_p99": times[int(0.99 * (len(times) - 1))],
        "ms_max": times[-1],
        "state_bytes": found["state_bytes"],
    }
