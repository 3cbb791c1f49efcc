"""What layouts of files ask of a source's keys: checked before any file is touched."""

from __future__ import annotations

import re
from collections.abc import Iterator

from overlord._src.config.energon import ENERGON
from overlord._src.config.source_models import SourceConfig
from overlord._src.errors import Problem

BARE_TOKENS = ("megatron", "tokens")  # formats without columns
MDS_INDEX = "index.json"  # of a folder of MosaicML's shards
_GLOB_END = re.compile(r"[*?\]]$")


def bare_token_problems(source: SourceConfig, kind: str) -> Iterator[Problem]:
    """Keys about columns, which files of bare tokens do not have."""
    yield from (
        Problem((key,), f"{kind} files have tokens only and no columns", value, advice="remove it")
        for key, value in (
            ("text", source.text),
            ("tokens", source.tokens),
            ("mask", source.mask),
            ("tokenizer", source.tokenizer),
            ("transform", source.transform and source.transform.function),
        )
        if value is not None
    )
    if kind != "megatron":
        return
    for index, file in enumerate(source.files):
        if not file.endswith(".bin") and not _GLOB_END.search(file):
            yield Problem(
                ("files", index),
                "names no .bin file",
                file,
                "PREFIX.bin or *.bin",
                "the .idx file is found beside it",
            )


def layout_problems(source: SourceConfig, kind: str | None) -> Iterator[Problem]:
    """Keys of one layout beside another, and those that it lacks."""
    if source.split_part is not None and source.format != ENERGON:
        yield Problem(
            ("split_part",),
            f"belongs to folders of Energon, and these are {kind}",
            source.split_part,
            advice="add `format: energon`, or divide the rows with `split`",
        )
    if kind == "tokens":
        yield from _document_problems(source)
        return
    if source.document is not None:
        yield Problem(
            ("document",),
            f"belongs to files of tokens and nothing else, and these are {kind}",
            source.document.model_dump(exclude_none=True),
            advice="add `format: tokens`, or remove it",
        )
    if source.dtype is not None and (kind != "mds" or source.tokens is None):
        yield Problem(
            ("dtype",),
            "belongs to tokens that lie as bare numbers, in files of format tokens or in a column "
            f"of bytes of format mds, and these are {kind}",
            source.dtype,
            advice="remove it",
        )


def _document_problems(source: SourceConfig) -> Iterator[Problem]:
    told = {} if source.document is None else source.document.model_dump(exclude_none=True)
    if len(told) != 1:
        yield Problem(
            ("document",),
            "files of tokens do not say where a document ends",
            told or None,
            "{eod: ID}, {bos: ID} or {length: N}",
            "name the token that ends or begins every document, or how long each is",
        )
        return
    for key in ("eod", "bos"):
        if told.get(key) is not None and told[key] == getattr(source, key):
            yield Problem(
                (key,),
                f"would be put to documents that have it already (`document.{key}`)",
                told[key],
                advice="remove it",
            )
