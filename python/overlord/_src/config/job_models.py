"""A job as typed models: its fields, without the check of what they mean together."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from overlord._src.config.bins import Bins
from overlord._src.config.field_types import ConfigModel, Count32, FilePath, Name, Text, Token
from overlord._src.config.function_models import BatchTransform
from overlord._src.config.mixture_models import MixtureConfig
from overlord._src.config.runtime_models import RuntimeConfig
from overlord._src.config.source_models import AtEnd, OverLength, SourceConfig, TokenizerConfig
from overlord._src.config.strategy_models import StrategyConfig

Leftover = Literal["drain", "drop", "drop_last"]


class PackingConfig(ConfigModel):
    """How documents become sequences of `context` tokens."""

    method: Literal["best_fit", "concat", "pad"] = Field(
        default="best_fit",
        description="best_fit: whole documents, placed where they fit best; concat: cut at "
        "sequence ends; pad: one document per sequence",
    )
    slack: float = Field(
        default=0.05,
        ge=0,
        le=0.4,
        description="share of its bins that best_fit draws beyond them, to choose from",
    )
    max_delay: int = Field(
        default=4, ge=1, le=1024, description="most steps a drawn document may wait to be placed"
    )


class WindowConfig(ConfigModel):
    """Steps whose sequences are dealt anew among each other, so that heavy ones meet."""

    steps: int = Field(default=1, ge=1, le=256, description="of a window; 1: none")
    max_delay: int = Field(
        default=1, ge=0, le=255, description="most steps a sequence moves, later or earlier"
    )
    width: Count32 = Field(default=1, description="consumers that share a step's sequences")
    cost: str | dict[str, Any] | None = Field(
        default=None, description="name of a preset, or a cost model; what makes one heavy"
    )


class DeliveryConfig(ConfigModel):
    """Shapes and places of what ranks receive; never changes what a step holds."""

    microbatch_size: Count32 = Field(default=1, description="sequences of a microbatch")
    fill_empty: bool = Field(
        default=False,
        description="add empty microbatches where dp x microbatch_size does not divide bins",
    )
    cp_slicing: Literal["sequence_zigzag", "document_zigzag", "contiguous", "trainer"] = Field(
        default="sequence_zigzag",
        description="how context-parallel peers share a sequence; trainer: each gets all of it",
    )
    sequence_parallel: bool = Field(
        default=False,
        description="the trainer splits sequences over tp too: alignment is checked for it",
    )
    token_dtype: Literal["uint16", "int32", "int64"] = Field(
        default="int32", description="type of tokens and targets"
    )
    loss_dtype: Literal["float32", "uint8"] = Field(
        default="float32", description="type of loss weights"
    )
    all_stages: bool = Field(default=False, description="every pipeline stage gets every field")
    broadcast: list[Text] = Field(
        default=[], description="axes along which the trainer broadcasts: only coordinate 0 fetches"
    )
    readers: Literal["all", "fields", "payload"] = Field(
        default="all",
        description="ranks with a loader; fields: not those that a broadcast serves; payload: nor "
        "middle pipeline stages",
    )


class StreamConfig(ConfigModel):
    """A further named stream of the job: the fields it gives replace the top-level ones."""

    seed: int | None = Field(
        default=None,
        ge=0,
        le=2**64 - 1,
        description="absent: derived from the job's seed and the name",
    )
    mixture: MixtureConfig | None = Field(default=None, description="replaces the whole mixture")
    steps: int | None = Field(default=None, ge=1, description="steps of the stream")
    context: Count32 | None = Field(default=None, description="tokens of a sequence")
    bins: Bins | None = Field(default=None, description="sequences of a step; a number or stages")
    part: Name | None = Field(
        default=None,
        description="part that it reads of sources with `split: {PART: share}`; absent: the one of "
        "its own name",
    )
    substeps: Count32 | None = Field(default=None, description="equal parts of a step")
    align: Count32 | None = Field(default=None, description="document alignment")
    leftover: Leftover | None = Field(default=None, description="as the job's, of this stream")
    packing: PackingConfig | None = Field(default=None, description="replaces the whole packing")
    at_end: AtEnd | None = Field(default=None, description="of every source of this stream")
    over_length: OverLength | None = Field(
        default=None, description="of every source of this stream"
    )
    microbatch_size: Count32 | None = Field(default=None, description="sequences of a microbatch")
    fill_empty: bool | None = Field(default=None, description="as delivery.fill_empty")


class JobFields(ConfigModel):
    """The fields of a job, each sound by itself; `JobConfig` checks them against each other."""

    job: Text = Field(description="name of the job; part of its state")
    seed: int = Field(ge=0, le=2**64 - 1, description="decides every random choice; no default")
    context: Count32 = Field(description="tokens of a sequence")
    bins: Bins = Field(
        description="sequences of a step, over the whole job: a number, or stages "
        "`[{steps: [first, end], bins: N}, ...]`"
    )
    vocabulary: Count32 = Field(description="token ids at or above it are bad data")
    substeps: Count32 = Field(
        default=1, description="equal parts of a step that packing never crosses"
    )
    align: Count32 = Field(
        default=1, description="documents are packed at their length rounded up to it"
    )
    steps: int | None = Field(
        default=None,
        ge=1,
        le=2**63 - 1,
        description="length of the stream; absent: until sources end it",
    )
    pad_token: Token = Field(
        default=0, description="fills tokens and targets where there is no document"
    )
    leftover: Leftover = Field(
        default="drain",
        description="what was drawn when sources are spent; drain: placed in further steps; drop: "
        "gone once a step cannot be filled; drop_last: and that step is gone, too",
    )
    at_end: AtEnd | None = Field(
        default=None, description="of sources that do not say; never guessed"
    )
    over_length: OverLength = Field(default="split", description="of sources that do not say")
    packing: PackingConfig = Field(default=PackingConfig(), description="documents into sequences")
    window: WindowConfig = Field(
        default=WindowConfig(), description="sequences dealt anew over several steps"
    )
    mixture: MixtureConfig = Field(description="how much of each source")
    tokenizers: dict[Name, TokenizerConfig] = Field(default={}, description="tokenizers by name")
    sources: dict[Name, SourceConfig] = Field(min_length=1, description="datasets by name")
    batch_transform: BatchTransform = Field(
        default=None,
        description="your own Python function over every microbatch, before ranks get their parts",
    )
    delivery: DeliveryConfig = Field(default=DeliveryConfig(), description="what ranks receive")
    strategy: StrategyConfig | None = Field(
        default=None, description="how sequences are dealt to ranks; absent: in arrival order"
    )
    runtime: RuntimeConfig = Field(default=RuntimeConfig(), description="sizes of the engine")
    streams: dict[Name, StreamConfig] = Field(default={}, description="further streams, like valid")
    index_dir: FilePath = Field(default=".overlord", description="folder of the indexes")
