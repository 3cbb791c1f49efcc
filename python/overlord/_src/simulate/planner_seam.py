"""Where simulation meets the native planner: its balancer, if it is built.

The NumPy balancer of this package stands in where the extension lacks one. `ours` asks here, so
that what is simulated is what would be planned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from overlord._src.simulate.columns import Integers
from overlord._src.simulate.partition import longest_first, search_swaps


def _native(name: str) -> Any:
    """A function of the extension; None where that is absent or older."""
    try:
        from overlord._src.native import core
    except ImportError:
        return None
    return getattr(core, name, None)


_balance = _native("balance")


def balancer_name() -> str:
    """Which balancer `balance` uses, for reports."""
    return "native lpt_search" if _balance is not None else "NumPy lpt_search"


def balance(costs: Integers, bins: int) -> Integers:
    """Bin of each cost, so that the fullest bin holds little more than the mean."""
    if _balance is not None:
        found = _balance(np.ascontiguousarray(costs, dtype=np.int64), bins, method="lpt_search")
        return np.asarray(found["bin_of"], dtype=np.int64)
    return search_swaps(costs, longest_first(costs, bins), bins)
