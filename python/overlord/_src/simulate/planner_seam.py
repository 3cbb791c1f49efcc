"""Where simulation meets the native planner: its balancer and its order of microbatches.

`ours` asks here, so that what is simulated is what would be planned.
"""

from __future__ import annotations

import numpy as np

from overlord._src.native import core
from overlord._src.simulate import pipeline
from overlord._src.simulate.columns import Integers

BALANCER = "native lpt_search"  # for reports


def balance(costs: Integers, bins: int) -> Integers:
    """Bin of each cost, so that the fullest bin holds little more than the mean."""
    found = core.balance(np.ascontiguousarray(costs, dtype=np.int64), bins, method="lpt_search")
    return np.asarray(found["bin_of"], dtype=np.int64)


def order_microbatches(loads: Integers, stages: int) -> Integers:
    """`order[g, k]` is the microbatch that pipeline g runs as its k-th, under 1F1B.

    `loads[g, m]` is forward and backward of microbatch m over all stages.
    """
    forward = np.rint(loads * ((1 - pipeline.BACKWARD_SHARE) / stages)).astype(np.int64)
    found = [core.pipeline_order(row, stages, "search")["order"] for row in forward]
    return np.array(found, dtype=np.int64)
