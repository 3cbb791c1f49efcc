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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from overlord.config import (
    BalanceConfig,
    DistributeConfig,
    EncoderBalanceConfig,
    EncoderConfig,
    EncoderDistributeConfig,
    HybridConfig,
    OrderConfig,
    StrategyConfig,
)

__all__ = [
    "Graph",
    "StrategyConfig",
    "Tree",
    "declare",
    "to_yaml",
    "trace",
]

Strategy = Callable[["Graph", "Tree"], Any]
BACKBONE = "backbone"


class _Untraceable:
    """A stand-in refuses what would need the samples themselves."""

    def _refuse(self, what: str) -> NoReturn:
        raise TypeError(
            f"a strategy is traced once, before there are samples: {what} cannot be written down; "
            "use the primitives (distribute, cost, balance, order, broadcast_at), or a cost "
            "function made with ol.cost.python"
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

    def cost(self, model: Any, also: Sequence[Any] = ()) -> Layer:
        """What a sample costs its consumer: a model of `ol.cost`, or the name of a preset.

        `also`: costs of other modules with the same owner, which `balance("vector")` evens out too.
        """
        if also:
            self._note("further_costs", [_cost_data(one) for one in also])
        return self._note("cost", _cost_data(model))

    def balance(
        self,
        method: str = "lpt_search",
        level: str = "interleaved",
        atoms: str = "sequences",
        microbatch_tokens: int = 0,
        memory_limit: int | str | None = None,
    ) -> Layer:
        """Even out the consumers' work, by whole sequences or sample by sample.

        `memory_limit`: most bytes of a microbatch of sequences, by the cost model, like `"40GB"`.
        """
        values: dict[str, Any] = {"method": method, "level": level, "atoms": atoms}
        values["microbatch_tokens"] = microbatch_tokens
        values["memory_limit"] = memory_limit
        return self._note("balance", BalanceConfig.model_validate(values))

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


def trace(function: Strategy) -> StrategyConfig:
    """The strategy that a function declares, as data."""
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
    return StrategyConfig.model_validate(values)


def _encoder_config(function: str, layer: Layer) -> EncoderConfig:
    calls = dict(layer.calls)
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
    return model if isinstance(model, str) else model.to_dict()


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", "strategy"))


def to_yaml(strategy: StrategyConfig | Strategy) -> str:
    """The `strategy:` section of a config file that declares the same."""
    import yaml

    config = strategy if isinstance(strategy, StrategyConfig) else trace(strategy)
    data = {"strategy": config.model_dump(exclude_defaults=True)}
    return str(yaml.safe_dump(data, sort_keys=False))
