"""The config's models of a strategy: who consumes, what it costs, how it is evened out."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from overlord._src.config.field_types import Bytes, ConfigModel, Count32, Text


class DistributeConfig(ConfigModel):
    """Who consumes: the nodes of an axis of the mesh."""

    axis: Text = Field(default="dp", description="dp, cp, world, or an axis of the mesh")
    group_size: int = Field(
        default=0, ge=0, le=2**32 - 1, description="consumers that balance among themselves; 0: all"
    )


class FunctionConfig(ConfigModel):
    """A Python function of your own, by what stands for it in the digest of the config."""

    name: Text = Field(description="under which `ol.job(callouts={...})` gives the function")
    version: int | Text = Field(description="changed whenever the function changes")


class BalanceConfig(ConfigModel):
    """How consumers' work is evened out."""

    method: Literal[
        "arrival", "greedy", "lpt", "lpt_search", "karmarkar_karp", "zigzag", "vector"
    ] = Field(
        default="lpt_search",
        description="arrival: as it came; lpt_search: heaviest first, then swaps; vector: evens "
        "out further_costs too",
    )
    level: Literal["bucket", "bin", "interleaved"] = Field(
        default="interleaved",
        description="bucket: totals of consumers; bin: microbatches within each consumer; "
        "interleaved: all microbatches of all consumers as one pool",
    )
    atoms: Literal["sequences", "samples"] = Field(
        default="sequences",
        description="sequences: dealt whole; samples: dealt one by one, microbatches of one row as "
        "long as what they got",
    )
    microbatch_tokens: int = Field(
        default=0,
        ge=0,
        lt=2**31,
        description="most tokens of a microbatch of samples; 0: microbatch_size x context",
    )
    memory_limit: Bytes | None = Field(
        default=None,
        description="most bytes of a microbatch of sequences, by the cost model; where no balance "
        "keeps it, arrival order is tried",
    )
    python: FunctionConfig | None = Field(
        default=None, description="a balancer of your own, instead of method and level"
    )


class OrderConfig(ConfigModel):
    """In which order a pipeline runs its microbatches."""

    method: Literal["keep", "ascending", "descending", "small_ends", "search"] = Field(
        default="search", description="small_ends: light ones first and last; search: from there on"
    )
    virtual_stages: Count32 = Field(default=1, description="model chunks of a pipeline rank")
    backward: float = Field(
        default=2.0, ge=0, le=100, description="time of a backward pass over its forward pass"
    )


class HybridConfig(ConfigModel):
    """Hybrid data parallelism: every sequence on as many ranks as it needs, cut or whole."""

    model: str | dict[str, int] = Field(
        description="name of a measured model, or the coefficients of one (`overlord.hdp.Model`)"
    )
    capacity: int | None = Field(
        default=None,
        ge=4,
        le=2**31 - 1,
        description="tokens a rank holds with nothing offloaded; absent: the model's",
    )
    method: Literal["search", "buckets", "naive"] = Field(
        default="search", description="how groups are made; the others are for comparison"
    )
    balance: Literal["dp", "pp"] | None = Field(
        default=None,
        description="dp: similar lengths at the same time; pp: similar microbatches on every rank; "
        "absent: pp where there are several stages",
    )
    offload: bool = Field(default=True, description="activations may wait in host memory")
    powers_of_two: bool = Field(default=False, description="only such numbers of ranks")
    max_microbatches: int = Field(
        default=0, ge=0, le=2**32 - 1, description="of a rank and substep; 0: no limit"
    )


class EncoderDistributeConfig(ConfigModel):
    """Who encodes: the nodes of an axis of the mesh."""

    axis: Text = Field(default="world", description="world, dp, cp, or an axis of the mesh")
    group_size: int = Field(
        default=0, ge=0, le=2**32 - 1, description="encoders that balance among themselves; 0: all"
    )


class EncoderBalanceConfig(ConfigModel):
    """How encoders' work is evened out, microbatch by microbatch."""

    method: Literal["arrival", "greedy", "lpt", "lpt_search", "karmarkar_karp", "zigzag"] = Field(
        default="lpt_search",
        description="arrival: as it came; lpt_search: heaviest first, then swaps",
    )


class EncoderConfig(ConfigModel):
    """A second module with owners of its own, planned over another column."""

    module: Text = Field(default="encoder", description="name of the layer in plans and batches")
    column: Text = Field(
        default="image_patches",
        description="metadata column: units a sample has to encode; 0: it has none",
    )
    distribute: EncoderDistributeConfig = Field(
        default=EncoderDistributeConfig(), description="who encodes"
    )
    cost: str | dict[str, Any] | None = Field(
        default=None, description="of a sample's units; absent: each counts the same"
    )
    balance: EncoderBalanceConfig = Field(
        default=EncoderBalanceConfig(), description="between encoders"
    )
    parity: bool = Field(
        default=False,
        description="in a microbatch every encoder has a sample or a declared dummy, or none has",
    )
    bytes_per_unit: int = Field(
        default=0, ge=0, le=2**32 - 1, description="of the output, to size the exchange"
    )


class StrategyConfig(ConfigModel):
    """How the sequences of a step are dealt to ranks; changes places, never contents."""

    name: str = Field(default="", description="of the function it was traced from; for people")
    distribute: DistributeConfig = Field(default=DistributeConfig(), description="who consumes")
    cost: str | dict[str, Any] | None = Field(
        default=None, description="name of a preset, or a cost model; what balance and order count"
    )
    further_costs: list[str | dict[str, Any]] = Field(
        default=[], description="of other modules with the same owner; for balance method vector"
    )
    balance: BalanceConfig | None = Field(default=None, description="absent: arrival order")
    order: OrderConfig | None = Field(default=None, description="absent: as balanced")
    hybrid: HybridConfig | None = Field(
        default=None, description="slices over the cp axis, instead of cost, balance and order"
    )
    broadcast: list[Text] = Field(default=[], description="added to delivery.broadcast")
    plan_raw: FunctionConfig | None = Field(
        default=None, description="a function of your own that places, instead of balance and order"
    )
    encoder: EncoderConfig | None = Field(
        default=None, description="a module with owners of its own; text jobs have none"
    )
