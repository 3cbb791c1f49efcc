"""A declared strategy in the engine's own values."""

from __future__ import annotations

from typing import Any

from overlord._src.native import core
from overlord.config import StrategyConfig


def cost_data(declared: str | dict[str, Any]) -> dict[str, Any]:
    """A cost model as data; a name is that of a preset."""
    from overlord import cost

    named = isinstance(declared, str) and declared in cost.presets()
    model = cost.preset(str(declared)) if named else cost.from_dict(declared)
    if isinstance(model, cost.PythonCost):
        raise ValueError(
            "strategy.cost: a Python function is called by `overlord simulate` only; fit a native "
            "model to it with `overlord calibrate`"
        )
    data: dict[str, Any] = model.to_dict()
    return data


def lower_strategy(config: StrategyConfig | None) -> core.Strategy:
    """What the planner carries out; without a declaration, bins are dealt in arrival order."""
    strategy = core.Strategy()
    if config is None:
        return strategy
    strategy.name = config.name
    strategy.axis = config.distribute.axis
    strategy.group_size = config.distribute.group_size
    if config.cost is not None:
        strategy.set_cost(cost_data(config.cost))
    if config.balance is not None:
        strategy.balance = getattr(core.BalanceMethod, config.balance.method)
        strategy.level = getattr(core.BalanceLevel, config.balance.level)
        strategy.atoms = getattr(core.Atoms, config.balance.atoms)
        strategy.microbatch_tokens = config.balance.microbatch_tokens
        strategy.memory_limit = config.balance.memory_limit or 0
    if config.order is not None:
        strategy.order = getattr(core.OrderMethod, config.order.method)
        strategy.virtual_stages = config.order.virtual_stages
        strategy.backward_permille = round(config.order.backward * 1000)
    return strategy


def strategy_digest(config: StrategyConfig) -> str:
    """Twelve digits that tell strategies apart."""
    return str(core.strategy_digest(lower_strategy(config)))[:12]
