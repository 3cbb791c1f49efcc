"""The binding of the balancers: same numbers as counting again, errors by name."""

from __future__ import annotations

import numpy as np
import pytest
from overlord._src.native import core


def test_balance_counts_what_it_says() -> None:
    costs = np.random.default_rng(3).integers(1, 1000, 500)
    for method in ("arrival", "greedy", "lpt", "lpt_search", "karmarkar_karp", "zigzag"):
        answer = core.balance(costs, 7, method=method)
        loads = np.bincount(answer["bin_of"], weights=costs, minlength=7)
        assert loads.max() == answer["max_load"] and loads.min() == answer["min_load"]
        assert answer["total"] == costs.sum() and answer["method"] == method
        assert answer["lower_bound"] == -(-costs.sum() // 7) and answer["bound_by"] == "mean"
        assert answer["left"].size == 0


def test_balance_lists_what_is_left() -> None:
    costs, sizes = np.array([5, 6, 7]), np.array([1, 9, 1])
    answer = core.balance(costs, 2, sizes=sizes, size_limit=4)
    assert answer["left"].tolist() == [1]
    assert answer["bin_of"].tolist() == [1, 2**32 - 1, 0]
    assert answer["limiting_atom"] == 2


def test_balance_refuses_by_name() -> None:
    with pytest.raises(ValueError, match=r"unknown balance method .*lpt_search.*: best"):
        core.balance(np.array([1]), 1, method="best")
    with pytest.raises(ValueError, match="cost 1 is negative: -2"):
        core.balance(np.array([1, -2]), 1)
