"""A job's own strategy in a simulation: where its real plans put the atoms of a step.

The plans are made by the same planner, with the same calls of the user's Python and the same checks
of what it answers, as in training. So a cost, a balancer or a `plan_raw` of one's own is simulated
as it would run, and refused here with what it would be refused with there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from overlord._src.config.strategy_models import StrategyConfig
from overlord._src.lowering.strategy import python_cost
from overlord._src.simulate.clients import Clients
from overlord._src.simulate.columns import Columns, Integers
from overlord._src.simulate.costs import BACKBONE, ENCODER
from overlord._src.simulate.placing import ModulePlacement, Placement, Work, encode_at_home

NAME = "job"
TITLE = "the job's own"
DESCRIPTION = "The job's own strategy: its real plans on this mesh, with its own functions called."


@dataclass(frozen=True)
class EncoderStep:
    """Of every piece: the rank that encodes it, -1 for nobody, and when."""

    rank: Integers
    microbatch: Integers


@dataclass(frozen=True)
class OwnStep:
    """One planned step: consumer and microbatch of every bin, and what its samples cost."""

    bucket: Integers
    microbatch: Integers
    microbatches: int
    costs: Integers | None  # nanoseconds of every piece, where a function of one's own tells them
    encoder: EncoderStep | None = None


def moved_atoms(strategy: StrategyConfig | None) -> Literal["samples", "sequences"] | None:
    """What the plans of this strategy move; None: they cannot be shown beside others.

    Slices of a hybrid strategy are neither. An encoder's samples have owners of their own.
    """
    if strategy is None or strategy.hybrid is not None:
        return None
    by_samples = strategy.balance is not None and strategy.balance.atoms == "samples"
    return "samples" if by_samples or strategy.encoder is not None else "sequences"


def read_step(
    plan: Any,
    graph: dict[str, Any],
    columns: Columns,
    *,
    own_cost: bool,
) -> OwnStep:
    """What a plan says; `columns` are its pieces, with one of no tokens for an empty sequence."""
    places = np.array(plan.placement(), dtype=np.int64).reshape(-1, 3)
    costs = None
    if own_cost:
        costs = np.zeros(len(columns), dtype=np.int64)
        costs[columns.tokens > 0] = graph["sample_costs"]
    encoder = _read_encoder(plan, columns)
    return OwnStep(places[:, 0], places[:, 1], int(plan.microbatches), costs, encoder)


def _read_encoder(plan: Any, columns: Columns) -> EncoderStep | None:
    table = plan.encoder()
    if table is None:
        return None
    pieces = np.flatnonzero(columns.tokens > 0)[np.asarray(table["backbone_segment"])]
    found = EncoderStep(np.full(len(columns), -1), np.zeros(len(columns), dtype=np.int64))
    found.rank[pieces] = np.asarray(table["runners"])[table["columns"]["bucket"]]
    found.microbatch[pieces] = table["columns"]["microbatch"]
    return found


def has_own_cost(strategy: StrategyConfig | None) -> bool:
    """Does a Python function say what samples cost?"""
    return strategy is not None and python_cost(strategy.cost) is not None


def place(step: OwnStep, sequences: Integers, work: Work, clients: Clients) -> Placement:
    """As planned. `sequences`: the bin of every atom that is placed."""
    backbone = ModulePlacement("dp", step.bucket[sequences], step.microbatch[sequences])
    if step.encoder is None or work.encoder is None:
        return encode_at_home(work, clients, backbone)
    encoder = ModulePlacement("world", step.encoder.rank, step.encoder.microbatch)
    return {BACKBONE: backbone, ENCODER: encoder}
