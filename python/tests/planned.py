"""A strategy with functions of one's own, for trainers in processes: functions of columns alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from overlord._src.functions.callouts import Seats
from overlord.strategy import StepView, plan_raw, to_yaml
from trainers import in_time

_calls = 0


def quadratic(columns: Any) -> Any:
    """A cost; waits at its fifth question for the file $GATE, if that is set."""
    global _calls
    _calls += 1
    gate, rank = os.environ.get("GATE"), os.environ.get("RANK")
    if gate is not None and rank is not None and _calls == 5:
        Path(f"{gate}.{rank}").touch()
        in_time(Path(gate).exists, "the gate is opened")
    tokens = columns["tokens"].astype(np.float64)
    return tokens * tokens + 512 * tokens


def tired(columns: Any) -> Any:
    """A cost that fails after a few steps."""
    global _calls
    _calls += 1
    if _calls == 4:
        raise ZeroDivisionError("no more")
    return columns["tokens"]


def heaviest_first(costs: Any, seats: Seats) -> Any:
    """A balancer: heaviest bins first, to the consumers in turn."""
    place = np.empty(len(costs), np.int64)
    place[np.argsort(-costs, kind="stable")] = np.arange(len(costs))
    return place % seats.consumers, place // seats.consumers // seats.microbatch_size


def with_functions(config: dict[str, Any], cost: Any = quadratic) -> dict[str, Any]:
    """The config with both of them in its strategy."""

    def strategy(graph: Any, tree: Any) -> Any:
        return graph.tokens().cost(cost, version=1).balance(heaviest_first, version=2).plan()

    return {**config, "strategy": yaml.safe_load(to_yaml(strategy))["strategy"]}


def functions(*names: str) -> dict[str, Any]:
    """As `ol.job` takes them."""
    return {name: globals()[name] for name in names or ("quadratic", "heaviest_first")}


def last_first(view: StepView) -> Any:
    """A whole plan: bins as they came, from the last consumer down."""
    number = np.arange(view.bins)
    seats = view.seats
    place = np.stack([seats.consumers - 1 - number % seats.consumers, number // seats.consumers], 1)
    place[:, 1] //= seats.microbatch_size
    return place


def placed_by(config: dict[str, Any]) -> dict[str, Any]:
    """The config with it for a strategy."""
    strategy = to_yaml(plan_raw(last_first, version=1))
    return {**config, "strategy": yaml.safe_load(strategy)["strategy"]}
