"""Chat and interleaved rows: what a config says of them, checked before any file is touched."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from overlord._src.config.job_models import JobFields
from overlord._src.config.source_models import SourceConfig
from overlord._src.errors import Problem

_FORMATS = ("parquet", "jsonl", "arrow", "webdataset", "mds")


def text_field(source: SourceConfig) -> str:
    """What a row's text is called where it needs a name; "" for sources of tokens."""
    if source.interleaved is not None:
        return source.interleaved.texts
    return source.text or ""


def row_form(source: SourceConfig) -> str:
    """What a row is, in a word or two for people."""
    if source.chat is not None:
        return f"chat: {source.chat.format}"
    if source.interleaved is not None:
        return f"{source.interleaved.texts} with {source.interleaved.images}"
    return source.text or source.tokens or "-"


def schema_problems(config: JobFields, source: SourceConfig, kind: str) -> Iterator[Problem]:
    """What is wrong with a source that has `chat` or `interleaved`."""
    key = "chat" if source.chat is not None else "interleaved"
    yield from (
        Problem((other,), f"{key} says already what a row is", advice=f"remove it, or `{key}`")
        for other in ("text", "tokens", "mask", "interleaved")
        if other != key and getattr(source, other) is not None
    )
    if kind not in _FORMATS:
        yield Problem((key,), f"{kind} files have no such rows", allowed=", ".join(_FORMATS))
    if source.tokenizer is None:
        yield Problem(
            ("tokenizer",),
            f"required where `{key}` is given",
            allowed="a name under `tokenizers`",
            advice="add `tokenizer:`",
        )
    if source.chat is not None:
        yield from _chat_problems(config, source)


def _chat_problems(config: JobFields, source: SourceConfig) -> Iterator[Problem]:
    chat = source.chat
    assert chat is not None
    yield from (
        Problem(
            (key,),
            "the chat template decides where a document begins and ends",
            value,
            advice="remove it: the template writes its own tokens",
        )
        for key, value in (("bos", source.bos), ("eod", source.eod))
        if value is not None
    )
    if source.transform is not None:
        yield Problem(
            ("transform",),
            "a transform is given text, and these rows are conversations",
            source.transform.function,
            advice="remove it",
        )
    tokenizer = config.tokenizers.get(source.tokenizer or "")
    if source.tokenizer is not None and (tokenizer is None or tokenizer.kind != "huggingface"):
        if source.tokenizer in ("bytes", *config.tokenizers):
            yield Problem(
                ("tokenizer",),
                "conversations need a tokenizer that knows a template's tokens",
                source.tokenizer,
                "one of kind huggingface",
            )
    elif tokenizer is not None and tokenizer.add_special_tokens:
        yield Problem(
            ("tokenizer",),
            "its add_special_tokens would put special tokens around those of the template",
            source.tokenizer,
            advice="declare the tokenizer once more, under another name, without it",
        )
    yield from _shape_problems(source)


def _shape_problems(source: SourceConfig) -> Iterator[Problem]:
    chat = source.chat
    assert chat is not None
    alpaca = chat.format == "alpaca"
    for key, value, wanted in (
        ("column", chat.column, not alpaca),
        ("tools", chat.tools, not alpaca),
        ("columns", chat.columns, alpaca),
    ):
        if value is not None and not wanted:
            instead = "`columns:`" if alpaca else "`column:`"
            yield Problem(
                ("chat", key), f"format {chat.format} has none", advice=f"use {instead} instead"
            )
    if chat.date is not None:
        try:
            datetime.date.fromisoformat(chat.date)
        except ValueError as error:
            yield Problem(("chat", "date"), str(error), chat.date, "YYYY-MM-DD")
