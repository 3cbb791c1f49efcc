"""The config of a job as typed models; YAML files mirror them, `overlord schema` exports them.

`load` reads a file, fills in `${ENV}` and dotted overrides, and refuses what cannot run with a
`ConfigError` that names key path, value, allowed values and what to do.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from overlord._src.config.chat_models import (
    AlpacaColumnsConfig,
    Chat,
    ChatConfig,
    InterleavedConfig,
)
from overlord._src.config.field_types import (
    MIB,
    BoundReasons,
    Bytes,
    ConfigModel,
    Count32,
    FilePath,
    Files,
    Name,
    Slots,
    StepRange,
    Text,
    Token,
)
from overlord._src.config.function_models import (
    BatchTransform,
    BatchTransformConfig,
    TransformConfig,
    TransformField,
)
from overlord._src.config.media_models import MediaConfig, MediaField, MediaTokensConfig
from overlord._src.config.runtime_models import (
    AblationConfig,
    MetricsConfig,
    ProcessesConfig,
    RuntimeConfig,
    WireConfig,
)
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
from overlord._src.errors import ConfigError, Problem

__all__ = [
    "AblationConfig",
    "AlpacaColumnsConfig",
    "BalanceConfig",
    "BatchTransformConfig",
    "ChatConfig",
    "ConfigError",
    "DeliveryConfig",
    "DistributeConfig",
    "EncoderBalanceConfig",
    "EncoderConfig",
    "EncoderDistributeConfig",
    "EpochConfig",
    "FeedbackConfig",
    "FunctionConfig",
    "HybridConfig",
    "InterleavedConfig",
    "JobConfig",
    "LimitsConfig",
    "MediaConfig",
    "MediaTokensConfig",
    "MetricsConfig",
    "MixtureConfig",
    "OrderConfig",
    "PackingConfig",
    "Problem",
    "ProcessesConfig",
    "RuntimeConfig",
    "ScheduleConfig",
    "SourceConfig",
    "SplitConfig",
    "StageConfig",
    "StrategyConfig",
    "StreamConfig",
    "TokenizerConfig",
    "TransformConfig",
    "WindowConfig",
    "WireConfig",
    "json_schema",
    "load",
]

AtEnd = Literal["repeat", "drop", "stop"]
OverLength = Literal["split", "truncate", "drop"]
DecodeAt = Literal["auto", "loader", "constructor"]
Leftover = Literal["drain", "drop"]
Transition = Literal["linear", "cosine"]
Share = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[
    float,
    Field(ge=0.01, le=1000),
    BoundReasons(
        "below it the largest weight takes everything: give that source alone",
        "above it all weights are equal: write them so",
    ),
]


class TokenizerConfig(ConfigModel):
    """How text becomes tokens. `bytes` (a token per UTF-8 byte) is there without being declared."""

    kind: Literal["huggingface", "bytes"] = Field(
        default="huggingface", description="`huggingface` reads a tokenizer.json"
    )
    path: FilePath | None = Field(default=None, description="tokenizer.json of kind huggingface")
    add_special_tokens: bool = Field(
        default=False, description="let the tokenizer add its own special tokens to every document"
    )


class LimitsConfig(ConfigModel):
    """What one bad file or row may cost, checked before memory is allocated."""

    max_document: Bytes = Field(default=64 * MIB, description="one JSON line, text or token list")
    max_block: Bytes = Field(default=1024 * MIB, description="one decoded row group or JSONL block")
    max_expansion: Count32 = Field(default=1000, description="decompressed over compressed bytes")
    max_media: Bytes = Field(
        default=256 * MIB, description="one image, clip or video as it is stored; below 4 GiB"
    )


class SplitConfig(ConfigModel):
    """Cuts a source into sub-sources with own cursors, by the value of a metadata column."""

    by: Text = Field(description="one of the source's `metadata` columns")
    edges: list[Count32] = Field(
        min_length=1,
        max_length=255,
        description="ascending: `NAME/0` has the rows below the first edge, `NAME/1` those from it "
        "to below the second, and so on; the mixture weighs them like sources",
    )


class SourceConfig(ConfigModel):
    """One dataset: its files, the column with text or tokens, and how it is read."""

    files: Files = Field(
        description="a path, glob pattern or URI, or a list of them; relative to the config file. "
        "Megatron: the .bin files"
    )
    format: Literal["parquet", "jsonl", "megatron", "webdataset", "arrow"] | None = Field(
        default=None,
        description="taken from the files' suffix when absent; jsonl and webdataset (tar) also "
        "read .gz and .zst; arrow: IPC files and streams, or a directory that save_to_disk wrote "
        "(its name ends with `/`)",
    )
    text: Text | None = Field(
        default=None,
        description="column or JSON field with text; needs `tokenizer`. webdataset: the extension "
        "of a member (`txt`), or a field of a JSON member (`json:caption`)",
    )
    tokens: Text | None = Field(
        default=None, description="column or JSON field with lists of token ids"
    )
    mask: Text | None = Field(
        default=None,
        description="column of per-token loss masks beside `tokens`: 0 carries no loss",
    )
    chat: Chat | None = Field(
        default=None, description="rows are conversations: a format, or a mapping"
    )
    interleaved: InterleavedConfig | None = Field(
        default=None, description="rows are lists of texts and images in step"
    )
    metadata: list[Text] = Field(
        default=[],
        description="columns or JSON fields of integers (0 to 2^32 - 1) or booleans that costs may "
        "name, like `image_patches`; null or missing counts as 0",
    )
    media: dict[Name, MediaField] = Field(
        default={},
        max_length=16,
        description="bytes that rows have beside their text: a name for each, and where it lies, "
        "or a mapping that also says what becomes of it",
    )
    split: SplitConfig | None = Field(
        default=None, description="cut into sub-sources by one of the `metadata` columns"
    )
    tokenizer: Text | None = Field(
        default=None, description="a name under `tokenizers`, or `bytes`"
    )
    transform: TransformField | None = Field(
        default=None, description="a Python function of your own over the text, before `tokenizer`"
    )
    bos: Token | None = Field(default=None, description="token put before each document")
    eod: Token | None = Field(default=None, description="token put after each document")
    shuffle: Literal["none", "window", "full"] = Field(
        default="window",
        description="none: file order; window: blocks permuted, rows permuted inside a window; "
        "full: all rows permuted (one read per row)",
    )
    window_rows: Count32 = Field(
        default=2048, description="about so many rows make a shuffle window"
    )
    window_bytes: Bytes = Field(
        default=4 * MIB,
        ge=1,
        description="where rows are large, about so many bytes make a shuffle window",
    )
    at_end: AtEnd | None = Field(
        default=None,
        description="when all rows are used: read again, drop the source and renormalise, or stop "
        "the stream; needed here or at the top level, never guessed",
    )
    over_length: OverLength | None = Field(
        default=None, description="documents longer than the context; absent: the top-level value"
    )
    empty: Literal["bad", "skip"] = Field(
        default="bad",
        description="rows without text or tokens; skip: they use up their position like bad rows, "
        "and count in no budget",
    )
    bad_rows_allowed: int = Field(
        default=0,
        ge=0,
        le=2**32 - 1,
        description="quarantine budget of a pass; 0: the first bad row stops the run",
    )
    allow_duplicates: bool = Field(
        default=False, description="accept a file that this or another source already lists"
    )
    loaders: Slots = Field(default=1, description="loader slots; never changes the stream")
    workers: Slots = Field(
        default=2, description="blocks in work at once per slot; never changes the stream"
    )
    decode_at: DecodeAt = Field(
        default="auto",
        description="who decodes media; constructor: blobs travel to it as they are stored; auto: "
        "there, where a job has several hosts and the bytes on the way are halved at least; never "
        "changes the stream",
    )
    limits: LimitsConfig = Field(
        default=LimitsConfig(), description="bounds on one bad file or row"
    )


class StageConfig(ConfigModel):
    """Weights that hold for a range of steps."""

    steps: StepRange = Field(description="[first, end], end not included; null: no end")
    weights: dict[str, float] | None = Field(
        default=None, description="ratio of each source; they are normalised"
    )
    substep_weights: list[dict[str, float]] | None = Field(
        default=None, description="instead of `weights`: those of each substep of a step"
    )
    transition: Transition | None = Field(
        default=None, description="how the weights before go over into these; absent: at once"
    )
    transition_steps: Count32 | None = Field(
        default=None, description="steps of the transition, from the stage's first on"
    )
    start: dict[str, float] | None = Field(
        default=None,
        description="weights that the transition begins with; absent: those of the stage before",
    )


class ScheduleConfig(ConfigModel):
    """How the weights move: a warm-up, a curriculum, or after reported losses."""

    kind: Literal["linear", "cosine", "curriculum", "odm", "ado", "rule"] = Field(
        description="linear, cosine: from `start` to the weights over `steps`; curriculum: sources "
        "join in `order`; odm, ado, rule: the weights are a prior that reported losses move"
    )
    start: dict[str, float] | None = Field(
        default=None, description="linear, cosine: the weights before"
    )
    steps: StepRange | None = Field(
        default=None, description="linear, cosine, curriculum: [first, end] of the change"
    )
    order: list[str] | None = Field(
        default=None, description="curriculum: sources that join one after another; others are in"
    )
    transition: Transition | None = Field(
        default=None, description="curriculum: how a source joins; absent: at once"
    )
    transition_steps: Count32 | None = Field(
        default=None, description="curriculum: steps of each transition"
    )
    smoothing: Share = Field(default=0.9, description="odm: how much of the old reward stays")
    history_rate: Share = Field(
        default=0.1, description="ado: how fast the memory of shares follows"
    )
    follow_rate: Share = Field(default=0.1, description="ado: how far shares follow the preference")
    history_exponent: Share = Field(
        default=0.5, description="ado: how much having been served counts"
    )
    floor: Share = Field(default=0.01, description="ado: least share, at most half an equal one")
    fit_every: Count32 = Field(default=1000, description="ado: steps between fits of a loss curve")
    fit_after: int = Field(
        default=500, ge=0, le=2**32 - 1, description="ado: first steps, which are not fitted"
    )
    version: Count32 | None = Field(
        default=None, description="rule: of the function that `ol.job(..., rule=...)` is given"
    )

    @property
    def metric_driven(self) -> bool:
        """Whether reported losses move the weights."""
        return self.kind in ("odm", "ado", "rule")


class FeedbackConfig(ConfigModel):
    """Reports that a metric-driven mixture waits for."""

    delay: int = Field(
        default=8,
        ge=1,
        le=4096,
        description="what is reported of step k counts from step k + delay on; more than "
        "`runtime.prefetch`, or batches wait for reports",
    )
    reporters: Literal["rank0", "last_stage", "all"] | list[int] = Field(
        default="rank0",
        description="who reports: rank 0 with the sums of the whole job, the last pipeline stage's "
        "ranks with tp 0 each with its own part, all ranks, or a list of ranks",
    )


class EpochConfig(ConfigModel):
    """What an epoch of the mixture is, with `grain: epoch`."""

    steps: Count32 | None = Field(default=None, description="so many steps make one")
    source: Text | None = Field(
        default=None,
        description="one pass over this source makes one; the step in which it ends belongs to it",
    )


class MixtureConfig(ConfigModel):
    """How much of each source a step asks for: `weights`, or `stages` of weights over steps."""

    unit: Literal["tokens", "samples", "bytes"] = Field(
        default="tokens",
        description="what the weights count; bytes: of the text, ready tokens count four each",
    )
    quota: Literal["exact", "multinomial"] = Field(
        default="exact",
        description="exact: rounding errors are carried over; multinomial: drawn by the seed",
    )
    weights: dict[str, float] | None = Field(
        default=None, description="ratio of each source, the same at every step"
    )
    stages: list[StageConfig] | None = Field(
        default=None, description="ranges of steps, without gap or overlap, each with its weights"
    )
    schedule: ScheduleConfig | None = Field(
        default=None, description="beside `weights`: how they move; absent: they do not"
    )
    temperature: Temperature | None = Field(
        default=None,
        description="every weight p counts as p ** (1 / temperature): above 1 evens them out",
    )
    max_passes: dict[str, Count32] = Field(
        default={}, description="a source that repeats is dropped after so many passes"
    )
    grain: Literal["step", "substep", "epoch"] = Field(
        default="step",
        description="how often weights may change; substep: also inside a step; epoch: only "
        "between epochs, and `steps` of stages and schedules count epochs",
    )
    epoch: EpochConfig | None = Field(
        default=None, description="with `grain: epoch`: what an epoch is"
    )
    feedback: FeedbackConfig | None = Field(
        default=None, description="who reports losses, and from when on they count"
    )

    def stage_list(self) -> list[StageConfig]:
        """The stages, sorted; constant weights are one stage without end."""
        from overlord._src.config.schedule import expand

        return expand(self)

    def source_names(self) -> list[str]:
        """Every source that some stage names, sorted."""
        from overlord._src.config.schedule import weight_sets

        return sorted(
            {name for stage in self.stage_list() for row in weight_sets(stage) for name in row}
        )

    @property
    def metric_driven(self) -> bool:
        """Whether reported losses move the weights."""
        return self.schedule is not None and self.schedule.metric_driven

    @property
    def follows_rule(self) -> bool:
        """Whether a function of the user's moves the weights."""
        return self.schedule is not None and self.schedule.kind == "rule"


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
    bins: Count32 | None = Field(default=None, description="sequences of a step")
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


class JobConfig(ConfigModel):
    """Everything a job is: sources, mixture, shape of a step, delivery, limits of the engine."""

    job: Text = Field(description="name of the job; part of its state")
    seed: int = Field(ge=0, le=2**64 - 1, description="decides every random choice; no default")
    context: Count32 = Field(description="tokens of a sequence")
    bins: Count32 = Field(description="sequences of a step, over the whole job")
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
        description="what was drawn when sources are spent: placed in further steps, or dropped",
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

    @model_validator(mode="after")
    def _check_meaning(self) -> JobConfig:
        from overlord._src.config.checks import find_problems

        problems = find_problems(self)
        if problems:
            raise ConfigError(problems)
        return self


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a job file, for editors."""
    schema = JobConfig.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Overlord job"
    return schema


def load(path: Any, overrides: Any = (), seed: int | None = None) -> JobConfig:
    """Read a job's config from a YAML file (or a dict), with overrides, and check it.

    `overrides` is a mapping of dotted keys, or strings like `"mixture.weights.web=0.5"`.
    """
    from overlord._src.config.reading import read_config

    return read_config(path, overrides=overrides, seed=seed).config
