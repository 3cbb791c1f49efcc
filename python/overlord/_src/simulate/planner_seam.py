"""Where simulation meets the native planner: its balancer and its order of microbatches, if built.

The NumPy code of this package stands in where the extension lacks them. `ours` asks here, so that
what is simulated is what would be planned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from overlord._src.simulate import pipeline
from overlord._src.simulate.columns import Integers
from overlord._src.simulate.partition import longest_first, search_swaps


def native_function(name: str) -> Any:
    """A function of the extension; None where that is absent or older."""
    try:
        from overlord._src.native import core
    except ImportError:
        return None
    return getattr(core, name, None)


_balance = native_function("balance")
_pipeline_order = native_function("pipeline_order")


def balancer_name() -> str:
    """Which balancer `balance` uses, for reports."""
    return "native lpt_search" if _balance is not None else "NumPy lpt_search"


def balance(costs: Integers, bins: int) -> Integers:
    """Bin of each cost, so that the fullest bin holds little more than the mean."""
    if _balance is not None:
        found = _balance(np.ascontiguousarray(costs, dtype=np.int64), bins, method="lpt_search")
        return np.asarray(found["bin_of"], dtype=np.int64)
    return search_swaps(costs, longest_first(costs, bins), bins)


def order_microbatches(loads: Integers, stages: int) -> Integers:
    """`order[g, k]` is the microbatch that pipeline g runs as its k-th, under 1F1B.

    `loads[g, m]` is forward and backward of microbatch m over all stages.
    """
    if _pipeline_order is None or stages == 1:
        return pipeline.search_order(loads, stages)
    forward = np.rint(loads * ((1 - pipeline.BACKWARD_SHARE) / stages)).astype(np.int64)
    found = [_pipeline_order(row, stages, "search")["order"] for row in forward]
    return np.array(found, dtype=np.int64)
