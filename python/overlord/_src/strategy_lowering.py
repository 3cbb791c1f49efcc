"""A declared strategy in the engine's own values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlord._src.callouts import AnyFunction, Function
from overlord._src.cost.python_cost import PythonCost
from overlord._src.errors import ConfigError, Problem
from overlord._src.native import core
from overlord.config import BalanceConfig, StrategyConfig


def cost_data(declared: str | dict[str, Any], key: str = "strategy") -> dict[str, Any]:
    """A cost model as data; a name is that of a preset."""
    from overlord import cost

    if isinstance(declared, dict) and declared.get("kind") == "python":
        raise ConfigError(
            Problem(
                (key, "cost"),
                "a Python function cannot be the cost here: only strategy.cost is asked of one",
                declared.get("name"),
                "a native cost model",
                "fit one to it with `overlord calibrate`",
            )
        )
    named = isinstance(declared, str) and declared in cost.presets()
    model = cost.preset(str(declared)) if named else cost.from_dict(declared)
    data: dict[str, Any] = model.to_dict()
    return data


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
        raise ConfigError(
            Problem(
                ("strategy", "balance", "python"),
                "stands for method, level and atoms: leave those out",
                balance.name,
            )
        )
    if config.encoder is not None and config.encoder.balance.python is not None:
        raise ConfigError(
            Problem(
                ("strategy", "encoder", "balance", "python"),
                "a function of your own is not for an encoder",
                config.encoder.balance.python.name,
            )
        )
    for key, declared in ((("balance", "python"), balance), (("plan_raw",), config.plan_raw)):
        if declared is None:
            continue
        path = ("strategy", *key)
        if declared.name in found:
            raise ConfigError(
                Problem((*path, "name"), "names two functions of the strategy", declared.name)
            )
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
                    advice=f"pass callouts={{{name!r}: function}} to ol.job",
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


def lower_strategy(config: StrategyConfig | None) -> core.Strategy:
    """What the planner carries out; without a declaration, bins are dealt in arrival order."""
    strategy = core.Strategy()
    if config is None:
        return strategy
    strategy.name = config.name
    strategy.axis = config.distribute.axis
    strategy.group_size = config.distribute.group_size
    own_cost = python_cost(config.cost)
    if own_cost is not None:
        strategy.set_cost_function(own_cost["name"], str(own_cost["version"]), own_cost["scale"])
    elif config.cost is not None:
        strategy.set_cost(cost_data(config.cost))
    if config.plan_raw is not None:
        strategy.set_plan_function(config.plan_raw.name, str(config.plan_raw.version))
    if config.balance is not None and config.balance.python is not None:
        own = config.balance.python
        strategy.set_balance_function(own.name, str(own.version))
    elif config.balance is not None:
        strategy.balance = getattr(core.BalanceMethod, config.balance.method)
        strategy.level = getattr(core.BalanceLevel, config.balance.level)
        strategy.atoms = getattr(core.Atoms, config.balance.atoms)
        strategy.microbatch_tokens = config.balance.microbatch_tokens
    if config.order is not None:
        strategy.order = getattr(core.OrderMethod, config.order.method)
        strategy.virtual_stages = config.order.virtual_stages
        strategy.backward_permille = round(config.order.backward * 1000)
    return strategy


def strategy_digest(config: StrategyConfig) -> str:
    """Twelve digits that tell strategies apart."""
    return str(core.strategy_digest(lower_strategy(config)))[:12]
