"""A job's own strategy in a simulation: where its real plans put the sequences of a step.

The plans are made by the same planner, with the same calls of the user's Python and the same checks
of what it answers, as in training. So a cost, a balancer or a `plan_raw` of one's own is simulated
as it would run, and refused here with what it would be refused with there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlord._src.simulate.clients import Clients
from overlord._src.simulate.columns import Columns, Integers
from overlord._src.simulate.placing import ModulePlacement, Placement, Work, encode_at_home
from overlord._src.strategy_lowering import python_cost
from overlord.config import StrategyConfig

NAME = "job"
TITLE = "the job's own"
DESCRIPTION = "The job's own strategy: its real plans on this mesh, with its own functions called."


@dataclass(frozen=True)
class OwnStep:
    """One planned step: consumer and microbatch of every sequence, and what its samples cost."""

    bucket: Integers
    microbatch: Integers
    microbatches: int
    costs: Integers | None  # nanoseconds of every piece, where a function of one's own tells them


def moves_sequences(strategy: StrategyConfig | None) -> bool:
    """Can the plans of this strategy be shown beside others? Its atoms must be theirs."""
    if strategy is None or strategy.hybrid is not None or strategy.encoder is not None:
        return False
    return strategy.balance is None or strategy.balance.atoms == "sequences"


def read_step(plan: Any, graph: dict[str, Any], columns: Columns, *, own_cost: bool) -> OwnStep:
    """What a plan says; `columns` are its pieces, with one of no tokens for an empty sequence."""
    places = np.array(plan.placement(), dtype=np.int64).reshape(-1, 3)
    costs = None
    if own_cost:
        costs = np.zeros(len(columns), dtype=np.int64)
        costs[columns.tokens > 0] = graph["sample_costs"]
    return OwnStep(places[:, 0], places[:, 1], int(plan.microbatches), costs)


def has_own_cost(strategy: StrategyConfig | None) -> bool:
    """Does a Python function say what samples cost?"""
    return strategy is not None and python_cost(strategy.cost) is not None


def place(step: OwnStep, sequences: Integers, work: Work, clients: Clients) -> Placement:
    """As planned. `sequences`: the sequence of every atom that is placed."""
    backbone = ModulePlacement("dp", step.bucket[sequences], step.microbatch[sequences])
    return encode_at_home(work, clients, backbone)
