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

from collections.abc import Callable
from typing import Any, NoReturn

from overlord.config import (
    BalanceConfig,
    DistributeConfig,
    EncoderConfig,
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

    def cost(self, model: Any) -> Layer:
        """What a sample costs its consumer: a model of `ol.cost`, or the name of a preset."""
        return self._note("cost", model if isinstance(model, str) else model.to_dict())

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

    def broadcast_at(self, axis: str) -> Layer:
        """The trainer broadcasts along this axis: only its coordinate 0 fetches. Composes."""
        self.calls.setdefault("broadcast", []).append(axis)
        return self

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
        return self.layers.setdefault("backbone", Layer("backbone"))

    def images(self) -> Layer:
        """Samples by their image patches: an encoder with owners of its own."""
        return self.layers.setdefault("encoder", Layer("encoder"))


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
    if "backbone" not in graph.layers:
        raise ValueError(f"{_name_of(function)}: declares nothing for graph.tokens()")
    values: dict[str, Any] = {"name": _name_of(function), **graph.layers["backbone"].calls}
    if "encoder" in graph.layers:
        calls = graph.layers["encoder"].calls
        unknown = sorted({*calls} - {"distribute", "cost", "balance"})
        if unknown:
            raise ValueError(f"{_name_of(function)}: {unknown[0]} is not for an encoder layer")
        values["encoder"] = EncoderConfig.model_validate(calls)
    return StrategyConfig.model_validate(values)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", "strategy"))


def to_yaml(strategy: StrategyConfig | Strategy) -> str:
    """The `strategy:` section of a config file that declares the same."""
    import yaml

    config = strategy if isinstance(strategy, StrategyConfig) else trace(strategy)
    data = {"strategy": config.model_dump(exclude_defaults=True)}
    return str(yaml.safe_dump(data, sort_keys=False))
