"""A declared strategy in the engine's own values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlord._src.config.strategy_models import (
    BalanceConfig,
    EncoderConfig,
    HybridConfig,
    StrategyConfig,
)
from overlord._src.cost.python_cost import PythonCost
from overlord._src.errors import Problem, refused
from overlord._src.functions.callouts import AnyFunction, Function
from overlord._src.native import core


def cost_data(
    declared: str | dict[str, Any], path: tuple[str, ...] = ("strategy", "cost")
) -> dict[str, Any]:
    """A cost model as data; a name is that of a preset."""
    from overlord import cost

    if isinstance(declared, dict) and declared.get("kind") == "python":
        raise refused(
            path,
            "a Python function cannot be the cost here: only strategy.cost is asked of one",
            declared.get("name"),
            "a native cost model",
            "fit one to it with `overlord calibrate`",
        )
    named = isinstance(declared, str) and declared in cost.presets()
    model = cost.preset(str(declared)) if named else cost.from_dict(declared)
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


def lower_encoder(config: EncoderConfig) -> dict[str, Any]:
    """A module with owners of its own; without a cost, its units are what is evened out."""
    from overlord import cost

    units = cost.tokens(config.column).to_dict()
    path = ("strategy", "encoder", "cost")
    return {
        "module": config.module,
        "axis": config.distribute.axis,
        "group_size": config.distribute.group_size,
        "column": config.column,
        "cost": units if config.cost is None else cost_data(config.cost, path),
        "balance": config.balance.method,
        "parity": config.parity,
        "bytes_per_unit": config.bytes_per_unit,
    }


def python_cost(declared: str | dict[str, Any] | None) -> dict[str, Any] | None:
    """Name, version and scale of a cost that a Python function says; None for native ones."""
    if not isinstance(declared, Mapping) or declared.get("kind") != "python":
        return None
    from overlord import cost

    stand_in = {str(declared.get("name")): len}  # here only the name counts
    return cost.from_dict(declared, stand_in).to_dict()  # refuses wrong keys and values


def functions_of(config: StrategyConfig | None) -> dict[str, tuple[tuple[str, ...], int | str]]:
    """The Python functions that a strategy names: where it does, and of which version."""
    found: dict[str, tuple[tuple[str, ...], int | str]] = {}
    if config is None:
        return found
    own_cost = python_cost(config.cost)
    if own_cost is not None:
        found[own_cost["name"]] = (("strategy", "cost"), own_cost["version"])
    balance = config.balance.python if config.balance is not None else None
    if balance is not None and config.balance != BalanceConfig(python=balance):
        raise refused(
            ("strategy", "balance", "python"),
            "stands for method, level, atoms and limits: leave those out",
            balance.name,
        )
    for key, declared in ((("balance", "python"), balance), (("plan_raw",), config.plan_raw)):
        if declared is None:
            continue
        path = ("strategy", *key)
        if declared.name in found:
            raise refused((*path, "name"), "names two functions of the strategy", declared.name)
        found[declared.name] = (path, declared.version)
    return found


def match_functions(
    config: StrategyConfig | None, given: Mapping[str, Any]
) -> tuple[dict[str, AnyFunction], list[Problem]]:
    """The functions that a strategy names, out of those that are given; and what does not fit."""
    matched: dict[str, AnyFunction] = {}
    problems: list[Problem] = []
    named = functions_of(config)
    for name, (path, version) in named.items():
        function = given.get(name)
        if function is None:
            problems.append(
                Problem(
                    path,
                    "names a Python function that is not given",
                    name,
                    advice=f"pass callouts={{{name!r}: function}} to ol.job, or say in which file "
                    "it is: --functions FILE.py",
                )
            )
            continue
        own = version
        if isinstance(function, Function | PythonCost):
            own, function = function.version, function.function
        if not callable(function):
            problems.append(Problem(("callouts", name), "not callable", repr(function)))
        elif own != version:
            problems.append(
                Problem(
                    (*path, "version"),
                    f"the function that was passed has version {own}",
                    version,
                    advice="a changed function is another strategy: raise both versions together",
                )
            )
        else:
            matched[name] = function
    for name in sorted({*given} - {*named}):
        allowed = ", ".join(named) or "none"
        problems.append(
            Problem(("callouts", name), "the strategy names no such function", name, allowed)
        )
    return matched, problems


def functions_of_trainers(config: StrategyConfig | None) -> dict[str, AnyFunction]:
    """Stands for the functions where trainers, who are elsewhere, bring them and are asked."""

    def elsewhere(*_: Any) -> Any:
        raise NotImplementedError("a node asks functions in a trainer's process")

    return dict.fromkeys(functions_of(config), elsewhere)


def lower_strategy(config: StrategyConfig | None) -> core.Strategy:
    """What the planner carries out; without a declaration, bins are dealt in arrival order."""
    if config is None:
        return core.Strategy()
    values: dict[str, Any] = dict.fromkeys(core.Strategy.FIELDS)  # None: the engine's default
    values["name"] = config.name
    values |= config.distribute.model_dump()
    own_cost = python_cost(config.cost)
    if own_cost is not None:
        values["cost_by"] = _function(own_cost["name"], own_cost["version"], own_cost["scale"])
    elif config.cost is not None:
        values["cost"] = cost_data(config.cost)
    values["has_cost"] = config.cost is not None
    path = ("strategy", "further_costs")
    values["further_costs"] = [cost_data(further, path) for further in config.further_costs]
    if config.encoder is not None:
        values["encoder"] = lower_encoder(config.encoder)
    if config.plan_raw is not None:
        values["plan_by"] = _function(config.plan_raw.name, config.plan_raw.version)
    if config.balance is not None and config.balance.python is not None:
        own = config.balance.python
        values["balance_by"] = _function(own.name, own.version)
    elif config.balance is not None:
        declared = config.balance.model_dump(exclude={"method", "python"})
        values |= {"balance": config.balance.method, **declared}
    if config.hybrid is not None:
        values |= {"atoms": "slices", "hdp": hybrid_data(config.hybrid)}
    if config.order is not None:
        values["order"] = config.order.method
        values["virtual_stages"] = config.order.virtual_stages
        values["backward_permille"] = round(config.order.backward * 1000)
    return core.Strategy(values)


def _function(name: str, version: int | str, scale: int = 1) -> dict[str, Any]:
    return {"name": name, "version": str(version), "scale": scale}


def strategy_digest(config: StrategyConfig) -> str:
    """Twelve digits that tell strategies apart."""
    return str(core.strategy_digest(lower_strategy(config)))[:12]
