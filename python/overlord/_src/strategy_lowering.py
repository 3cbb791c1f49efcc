"""A declared strategy in the engine's own values."""

from __future__ import annotations

from typing import Any

from overlord._src.native import core
from overlord.config import EncoderConfig, HybridConfig, StrategyConfig


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


def hybrid_data(config: HybridConfig) -> dict[str, Any]:
    """A declaration of hybrid data parallelism as the engine takes it."""
    from dataclasses import asdict, fields

    from overlord import hdp

    if isinstance(config.model, str):
        model = hdp.model(config.model, config.capacity)
    else:
        known = [item.name for item in fields(hdp.Model)]
        given = dict(config.model)
        if config.capacity is not None:
            given["capacity"] = config.capacity
        unknown = [name for name in given if name not in known]
        missing = [name for name in known[:4] if name not in given]
        if unknown or missing:
            what = f"no coefficient {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
            raise ValueError(f"strategy.hybrid.model: {what}; allowed: {', '.join(known)}")
        model = hdp.Model(**given)
    declared = config.model_dump(exclude={"model", "capacity"})
    return {**declared, "model": asdict(model)}


def lower_encoder(config: EncoderConfig) -> core.EncoderStrategy:
    """A module with owners of its own; without a cost, its units are what is evened out."""
    from overlord import cost

    encoder = core.EncoderStrategy()
    encoder.module = config.module
    encoder.axis = config.distribute.axis
    encoder.group_size = config.distribute.group_size
    encoder.column = config.column
    units = cost.tokens(config.column).to_dict()
    encoder.set_cost(units if config.cost is None else cost_data(config.cost))
    encoder.balance = getattr(core.BalanceMethod, config.balance.method)
    encoder.parity = config.parity
    encoder.bytes_per_unit = config.bytes_per_unit
    return encoder


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
    for further in config.further_costs:
        strategy.add_cost(cost_data(further))
    if config.encoder is not None:
        strategy.encoder = lower_encoder(config.encoder)
    if config.balance is not None:
        strategy.balance = getattr(core.BalanceMethod, config.balance.method)
        strategy.level = getattr(core.BalanceLevel, config.balance.level)
        strategy.atoms = getattr(core.Atoms, config.balance.atoms)
        strategy.microbatch_tokens = config.balance.microbatch_tokens
        strategy.memory_limit = config.balance.memory_limit or 0
    if config.hybrid is not None:
        strategy.set_hybrid(hybrid_data(config.hybrid))
    if config.order is not None:
        strategy.order = getattr(core.OrderMethod, config.order.method)
        strategy.virtual_stages = config.order.virtual_stages
        strategy.backward_permille = round(config.order.backward * 1000)
    return strategy


def strategy_digest(config: StrategyConfig) -> str:
    """Twelve digits that tell strategies apart."""
    return str(core.strategy_digest(lower_strategy(config)))[:12]
