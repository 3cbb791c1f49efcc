"""Sources and tokenizers as typed models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

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
    refused_value,
)
from overlord._src.config.function_models import ReaderField, TransformField
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


Format = Literal[
    "parquet",
    "jsonl",
    "csv",
    "megatron",
    "webdataset",
    "arrow",
    "tokens",
    "mds",
    "energon",
    "folder",
]
Dtype = Literal["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


class DocumentConfig(ConfigModel):
    """How documents are told apart in files of tokens and nothing else: one of the keys."""

    eod: Token | None = Field(
        default=None, description="every document ends with this token, which is part of it"
    )
    bos: Token | None = Field(
        default=None, description="every document begins with this token, which is part of it"
    )
    length: Annotated[int, Field(ge=2, le=2**31 - 1)] | None = Field(
        default=None, description="every document has so many tokens; the last of a file fewer"
    )


class SplitConfig(ConfigModel):
    """Cuts a source: by a metadata column into sub-sources, or by rows into parts for streams.

    `split: {train: 0.99, valid: 0.01}` and `split: 990,9,1` (train, valid, test) are short for
    `shares`.
    """

    by: Text | None = Field(default=None, description="one of the source's `metadata` columns")
    edges: list[Count32] = Field(
        default=[],
        max_length=255,
        description="with `by`, ascending: `NAME/0` has the rows below the first edge, `NAME/1` "
        "those from it to below the second, and so on; the mixture weighs them like sources",
    )
    shares: dict[Name, Annotated[float, Field(ge=0, le=1e9)]] = Field(
        default={},
        description="instead of both: share of the rows that each part has; the stream of a part's "
        "name reads it. Which part a row is in follows from its shard's bytes and its number there",
    )


_MEGATRON_PARTS = ("train", "valid", "test")


def _shares_alone(value: Any) -> Any:
    if isinstance(value, str):
        try:
            shares = [float(share) for share in value.split(",")]
        except ValueError:
            shares = []
        if not 1 <= len(shares) <= len(_MEGATRON_PARTS):
            raise refused_value("not a split", "shares of train, valid and test, like 990,9,1")
        return {"shares": dict(zip(_MEGATRON_PARTS, shares, strict=False))}
    if isinstance(value, Mapping) and not set(value) & set(SplitConfig.model_fields):
        return {"shares": dict(value)}
    return value


Split = Annotated[SplitConfig, BeforeValidator(_shares_alone)]


class SourceConfig(ConfigModel):
    """One dataset: its files, the column with text or tokens, and how it is read."""

    files: Files = Field(
        default=[],
        description="a path, a pattern (`*`, `?`, `**`, `{a,b}`, `{000..127}`) or a URI, or a list "
        "of them; relative to the config file. Megatron: the .bin files. Required, unless there is a "
        "`reader`",
    )
    reader: ReaderField | None = Field(
        default=None,
        description="instead of files, a Python reader of your own over rows by their numbers",
    )
    format: Format | None = Field(
        default=None,
        description="taken from the files' suffix when absent; jsonl, csv and webdataset (tar) "
        "also read .gz and .zst; arrow: IPC files and streams, or a directory that save_to_disk wrote "
        "(its name ends with `/`); tokens: arrays of token ids (.npy, .bin), see `document`; "
        "mds: MosaicML's shards, as a folder with an index.json; energon: tars in a folder with "
        "`.nv-meta`, or the YAML of a metadataset, which becomes a source for each of its folders; "
        "folder: folders of media files, one for each label",
    )
    split_part: Text | None = Field(
        default=None,
        description="format energon: which part of the folder's own division; absent: train",
    )
    text: Text | None = Field(
        default=None,
        description="column or JSON field with text; needs `tokenizer`. webdataset: the extension "
        "of a member (`txt`), or a field of a JSON member (`json:caption`); folder: `label`, the "
        "name of the file's folder",
    )
    tokens: Text | None = Field(
        default=None, description="column or JSON field with lists of token ids"
    )
    dtype: Dtype | None = Field(
        default=None,
        description="what a token is in files of format tokens, where no header of NumPy or llm.c "
        "says it, and in columns of bytes of format mds",
    )
    document: DocumentConfig | None = Field(
        default=None,
        description="format tokens: what a document is, `{eod: ID}`, `{bos: ID}` or `{length: N}`",
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
    split: Split | None = Field(
        default=None,
        description="cut into sub-sources by one of the `metadata` columns, or by rows into parts "
        "for streams: `{train: 0.99, valid: 0.01}`",
    )
    group_by: Text | None = Field(
        default=None,
        description="one of the `metadata` columns: rows of a shard that follow each other with "
        "the same value stay together, in one sequence",
    )
    group_rows: Annotated[int, Field(ge=2, le=4096)] | None = Field(
        default=None, description="instead: so many rows of a shard that follow each other"
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
