"""Sources and tokenizers as typed models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from overlord._src.config.chat_models import Chat, InterleavedConfig
from overlord._src.config.field_types import (
    MIB,
    Bytes,
    ConfigModel,
    Count32,
    FilePath,
    Files,
    Name,
    SlotsOrAuto,
    Text,
    Token,
)
from overlord._src.config.function_models import TransformField
from overlord._src.config.media_models import MediaField

AtEnd = Literal["repeat", "drop", "stop"]
OverLength = Literal["split", "truncate", "drop"]
DecodeAt = Literal["auto", "loader", "constructor"]
Shadow = Literal["warm", "lean"]


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
    loaders: SlotsOrAuto | None = Field(
        default=None,
        description="loader slots; auto: as `overlord partition` sized them, else by the profiles "
        "of the run before, else by a look at some rows (`runtime.probe_seconds`); absent: auto "
        "where one node plans for several hosts (`runtime.wire.planner`), 1 elsewhere; never "
        "changes the stream",
    )
    most_loaders: Annotated[int, Field(ge=0, le=1024)] = Field(
        default=0,
        description="to how many slots the source may grow while the stream runs; 0: as many as "
        "`loaders`; never changes the stream",
    )
    workers: SlotsOrAuto | None = Field(
        default=None,
        description="blocks in work at once per slot; auto: as `loaders`; absent: auto where one "
        "node plans for several hosts, 2 elsewhere; never changes the stream",
    )
    shadows: Annotated[int, Field(ge=0, le=3)] = Field(
        default=0,
        description="further homes of every loader slot, each in another process, one of which "
        "takes over when the slot's own process dies (engine processes); never changes the stream",
    )
    shadow: Shadow = Field(
        default="warm",
        description="what a shadow does meanwhile; warm: reads and decodes what plans name, within "
        "the payload budget; lean: remembers plans only",
    )
    decode_at: DecodeAt = Field(
        default="auto",
        description="who decodes media; constructor: blobs travel to it as they are stored; auto: "
        "there, where a job has several hosts, the bytes on the way are halved at least and its "
        "hosts have the cores; never changes the stream",
    )
    limits: LimitsConfig = Field(
        default=LimitsConfig(), description="bounds on one bad file or row"
    )
