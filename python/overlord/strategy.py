"""Strategies: how the samples of a step are dealt to ranks, declared with a few primitives.

A strategy is a function over the step's metadata graph and the tree of clients:

    @ol.strategy.declare
    def long_short(graph, tree):
        text = graph.tokens()
        text.distribute(tree.dp)
        text.cost(ol.cost.preset("llama12b"))
        text.balance("lpt_search", level="interleaved")
        text.order("search")
        text.broadcast_at(tree.tp)
        return text.plan()

    job = ol.job("mix.yaml", mesh="pp=4,dp=8,tp=8", strategy=long_short)

The function runs once, on stand-ins that write down what it calls: the result is plain data, the
`strategy:` section of a config, which the planner carries out natively. The two forms are the same
strategy: `trace(fn)` gives the data, `to_yaml` its text. Code that looks at samples cannot be
written down and is refused where it looks.

What cannot be written down with the primitives is a function of your own, known by its name and
version, that the planner asks while it plans: `cost(fn, version=1)`, `balance(fn, version=1)`, or
`plan_raw(fn, version=1)` for the whole placement. Plans themselves can be programmed against with
`loader_do_plan` and `constructor_do_plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from overlord._src.config.strategy_models import (
    BalanceConfig,
    DistributeConfig,
    EncoderBalanceConfig,
    EncoderConfig,
    EncoderDistributeConfig,
    FunctionConfig,
    HybridConfig,
    OrderConfig,
    StrategyConfig,
)

if TYPE_CHECKING:
    from overlord._src.functions.callouts import Function, Seats, StepView
    from overlord._src.plan_view.duties import (
        ConstructorRows,
        LoaderQueue,
        constructor_do_plan,
        loader_do_plan,
    )

__all__ = [
    "ConstructorRows",
    "Function",
    "Graph",
    "LoaderQueue",
    "Seats",
    "StepView",
    "StrategyConfig",
    "Tree",
    "constructor_do_plan",
    "declare",
    "loader_do_plan",
    "plan_raw",
    "to_yaml",
    "trace",
]

# Loaded when they are first used: they bring NumPy or the engine.
_HOMES = {
    **dict.fromkeys(("Function", "Seats", "StepView"), "overlord._src.functions.callouts"),
    **dict.fromkeys(
        ("ConstructorRows", "LoaderQueue", "constructor_do_plan", "loader_do_plan"),
        "overlord._src.plan_view.duties",
    ),
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'overlord.strategy' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


Strategy = Callable[["Graph", "Tree"], Any]
BACKBONE = "backbone"


class _Untraceable:
    """A stand-in refuses what would need the samples themselves."""

    def _refuse(self, what: str) -> NoReturn:
        raise TypeError(
            f"a strategy is traced once, before there are samples: {what} cannot be written down; "
            "use the primitives (distribute, cost, balance, order, broadcast_at), or a function of "
            "your own that the planner asks: cost(fn, version=...), balance(fn, version=...), "
            "plan_raw(fn, version=...)"
        )

    def __bool__(self) -> bool:
        self._refuse("a condition on the graph")

    def __len__(self) -> int:
        self._refuse("the number of samples")

    def __iter__(self) -> Any:
        self._refuse("a loop over samples")

    def __getitem__(self, key: Any) -> Any:
        self._refuse("access to single samples")


class Tree(_Untraceable):
    """The axes of the clients by name: `tree.dp`, `tree.world`, `tree["my_axis"]`."""

    pp, dp, cp, tp, world = "pp", "dp", "cp", "tp", "world"

    def __getitem__(self, key: Any) -> str:
        if not isinstance(key, str):
            self._refuse("access to single clients")
        return key


class Layer(_Untraceable):
    """One module's samples. Every primitive returns the layer, so calls may be chained."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.planned = False
        self.calls: dict[str, Any] = {}
        self.functions: dict[str, Callable[..., Any]] = {}

    def _note(self, name: str, value: Any) -> Layer:
        if self.planned:
            raise ValueError(f"{name} after plan(): the {self.module} layer is already planned")
        if name in self.calls:
            raise ValueError(f"{name} is declared twice for the {self.module} layer")
        self.calls[name] = value
        return self

    def distribute(self, axis: str = "dp", group_size: int = 0) -> Layer:
        """The nodes of an axis are the consumers; `group_size` of them balance together."""
        return self._note("distribute", DistributeConfig(axis=axis, group_size=group_size))

    def _own(self, function: Any, version: int | str | None, name: str | None) -> FunctionConfig:
        """Keep a function of the user's; what stands for it in the data."""
        from overlord._src.functions.callouts import named

        own = named(function, version, name)
        if self.functions.setdefault(own.name, own.function) is not own.function:
            raise ValueError(f"two functions are called {own.name!r}: give one of them name=...")
        return FunctionConfig(name=own.name, version=own.version)

    def cost(
        self,
        model: Any,
        also: Sequence[Any] = (),
        *,
        version: int | str | None = None,
        name: str | None = None,
        scale: int = 1,
    ) -> Layer:
        """What a sample costs its consumer: a model of `ol.cost`, or the name of a preset.

        `also`: costs of other modules with the same owner, which `balance("vector")` evens out too.

        A function of your own, with its `version`, takes a dict of NumPy columns (`tokens`,
        `source`, the job's metadata columns) with one value per sample, and gives one number per
        sample: nanoseconds, or other units times `scale`.
        """
        from overlord._src.cost.python_cost import PythonCost

        if also:
            self._note("further_costs", [_cost_data(one) for one in also])
        if isinstance(model, PythonCost):
            model, version, name, scale = model.function, model.version, model.name, model.scale
        if callable(model):
            own = self._own(model, version, name)
            made = PythonCost(model, own.version, own.name, scale)
            return self._note("cost", made.to_dict())
        return self._note("cost", _cost_data(model))

    def balance(
        self,
        method: str | Callable[..., Any] = "lpt_search",
        level: str = "interleaved",
        atoms: str = "sequences",
        microbatch_tokens: int = 0,
        memory_limit: int | str | None = None,
        *,
        version: int | str | None = None,
        name: str | None = None,
    ) -> Layer:
        """Even out the consumers' work, by whole sequences or sample by sample.

        `memory_limit`: most bytes of a microbatch of sequences, by the cost model, like `"40GB"`.

        A function of your own, with its `version`, takes the costs of the bins and `Seats`, and
        gives the consumer and the microbatch of every bin: two sequences of integers.
        """
        if not isinstance(method, str):
            given = (level, atoms, microbatch_tokens, memory_limit)
            if given != ("interleaved", "sequences", 0, None):
                raise ValueError(
                    "balance: a function of your own takes no level, atoms, tokens or limit"
                )
            own = self._own(method, version, name)
            return self._note("balance", BalanceConfig(python=own))
        values: dict[str, Any] = {"method": method, "level": level, "atoms": atoms}
        values["microbatch_tokens"] = microbatch_tokens
        values["memory_limit"] = memory_limit
        return self._note("balance", BalanceConfig.model_validate(values))

    def plan_raw(
        self, function: Any, *, version: int | str | None = None, name: str | None = None
    ) -> Layer:
        """A function of your own that places: see `overlord.strategy.plan_raw`. Ends the layer."""
        self._note("plan_raw", self._own(function, version, name))
        return self.plan()

    def order(
        self, method: str = "search", virtual_stages: int = 1, backward: float = 2.0
    ) -> Layer:
        """Order the microbatches of every pipeline."""
        values = {"method": method, "virtual_stages": virtual_stages, "backward": backward}
        return self._note("order", OrderConfig.model_validate(values))

    def hybrid(self, model: Any, **options: Any) -> Layer:
        """Cut long samples over as many consumers of the cp axis as they need, pack short ones.

        `model` is one of `ol.hdp`, or the name of a measured one; `options` are the keys of
        `strategy.hybrid`: capacity, method, balance, offload, powers_of_two, max_microbatches.
        """
        values = {"model": model if isinstance(model, str) else model.to_dict(), **options}
        return self._note("hybrid", HybridConfig.model_validate(values))

    def broadcast_at(self, axis: str) -> Layer:
        """The trainer broadcasts along this axis: only its coordinate 0 fetches. Composes."""
        self.calls.setdefault("broadcast", []).append(axis)
        return self

    def parity(self) -> Layer:
        """In a microbatch every encoder has a sample, or a declared dummy, or none has."""
        return self._of_encoder("parity", True)

    def output(self, bytes_per_unit: int) -> Layer:
        """What an encoder's output takes for each unit, so that the exchange can be sized."""
        return self._of_encoder("bytes_per_unit", bytes_per_unit)

    def _of_encoder(self, name: str, value: Any) -> Layer:
        if self.module == BACKBONE:
            raise ValueError(f"{name} is for an encoder layer, not for graph.tokens()")
        return self._note(name, value)

    def plan(self) -> Layer:
        """The layer is complete."""
        self.planned = True
        return self


class Graph(_Untraceable):
    """The step's metadata graph: `tokens()` is the backbone's view, `images()` an encoder's."""

    def __init__(self) -> None:
        self.layers: dict[str, Layer] = {}

    def tokens(self) -> Layer:
        """Samples by their tokens: the backbone."""
        return self.layers.setdefault(BACKBONE, Layer(BACKBONE))

    def images(self, column: str = "image_patches") -> Layer:
        """Samples by their image patches: an encoder with owners of its own."""
        return self.module("encoder", column)

    def module(self, name: str, column: str) -> Layer:
        """Samples by what a metadata column says of them: a module with owners of its own."""
        layer = self.layers.setdefault(name, Layer(name))
        layer.calls.setdefault("module", name)
        if layer.calls.setdefault("column", column) != column:
            raise ValueError(f"the {name} layer has the column {layer.calls['column']} already")
        return layer


def declare(function: Strategy) -> Strategy:
    """Mark a function as a strategy, and check now that it can be traced."""
    trace(function)
    return function


def plan_raw(
    function: Callable[[StepView], Any], *, version: int | str, name: str | None = None
) -> Strategy:
    """A strategy that leaves the placement to a function of your own, without the primitives.

    The function takes a `StepView`, all that is known of the step, and gives the consumer and the
    microbatch of every bin: two sequences of integers. It is checked like any plan: every bin has a
    place, in its own substep, and no microbatch more bins than its size.
    """

    def strategy(graph: Graph, tree: Tree) -> Layer:
        return graph.tokens().plan_raw(function, version=version, name=name)

    strategy.__name__ = name or _name_of(function)
    return strategy


def trace(function: Strategy) -> StrategyConfig:
    """The strategy that a function declares, as data."""
    return trace_functions(function)[0]


def trace_functions(function: Strategy) -> tuple[StrategyConfig, dict[str, Callable[..., Any]]]:
    """The strategy as data, and the user's own functions that it names."""
    graph = Graph()
    function(graph, Tree())
    for layer in graph.layers.values():
        if not layer.planned:
            raise ValueError(
                f"{_name_of(function)}: the {layer.module} layer has no plan(); end it with .plan()"
            )
    if BACKBONE not in graph.layers:
        raise ValueError(f"{_name_of(function)}: declares nothing for graph.tokens()")
    backbone = graph.layers.pop(BACKBONE)
    values: dict[str, Any] = {"name": _name_of(function), **backbone.calls}
    if len(graph.layers) > 1:
        names = ", ".join(graph.layers)
        raise ValueError(f"{_name_of(function)}: one encoder layer is planned, got {names}")
    for layer in graph.layers.values():
        values["encoder"] = _encoder_config(_name_of(function), layer)
    return StrategyConfig.model_validate(values), dict(backbone.functions)


def _encoder_config(function: str, layer: Layer) -> EncoderConfig:
    calls = dict(layer.calls)
    if layer.functions:
        raise ValueError(
            f"{function}: {next(iter(layer.functions))} is a function of your own, and those are "
            f"not for the {layer.module} layer"
        )
    unknown = sorted({*calls} - {*EncoderConfig.model_fields})
    if unknown:
        raise ValueError(f"{function}: {unknown[0]} is not for the {layer.module} layer")
    if "distribute" in calls:
        calls["distribute"] = EncoderDistributeConfig.model_validate(
            calls["distribute"].model_dump()
        )
    if "balance" in calls:
        declared = calls["balance"].model_dump(exclude_defaults=True)
        calls["balance"] = EncoderBalanceConfig.model_validate(declared)
    return EncoderConfig.model_validate(calls)


def _cost_data(model: Any) -> Any:
    if not isinstance(model, str) and not hasattr(model, "to_dict"):
        raise TypeError(f"not a cost model: {model!r}; give one of ol.cost, or a preset's name")
    return model if isinstance(model, str) else model.to_dict()


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", "strategy"))


def to_yaml(strategy: StrategyConfig | Strategy) -> str:
    """The `strategy:` section of a config file that declares the same."""
    import yaml

    config = strategy if isinstance(strategy, StrategyConfig) else trace(strategy)
    data = {"strategy": config.model_dump(exclude_defaults=True)}
    return str(yaml.safe_dump(data, sort_keys=False))
