"""Ours: one method of the planner's balancers."""

from __future__ import annotations

import statistics
import time
from typing import Any

from overlord._version import __version__

from overlord_bench._contenders.sequence_costs import draw_costs, max_load


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Median CPU time of a call, and the fullest bin against the bound."""
    from overlord._src.native import core

    costs = draw_costs(work["shape"], work["samples"])
    times = []
    for _ in range(work["repeats"]):
        began = time.process_time()
        answer = core.balance(
            costs, work["bins"], method=work["method"], equal_count=work["equal_count"]
        )
        times.append(time.process_time() - began)
    assert max_load(costs, answer["bin_of"], work["bins"]) == answer["max_load"]
    return {
        "version": __version__,
        "time_ms": statistics.median(times) * 1e3,
        "max_load": answer["max_load"],
        "lower_bound": answer["lower_bound"],
        "bound_by": answer["bound_by"],
    }
