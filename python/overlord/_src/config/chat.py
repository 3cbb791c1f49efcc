"""Chat and interleaved rows: what a config says of them, checked before any file is touched."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from overlord._src.config.job_models import JobFields
from overlord._src.config.source_models import SourceConfig
from overlord._src.errors import Problem

# The columns of formats that have several: the first ones are in every row.
COLUMNS = {
    "alpaca": ("instruction", "output", "input", "system"),
    "prompt": ("prompt",),
    "completion": ("prompt", "completion"),
    "preference": ("chosen", "rejected", "prompt"),
}
NEEDED = {"alpaca": 2, "prompt": 1, "completion": 2, "preference": 2}
PLAIN = ("prompt", "completion", "preference")  # formats whose rows may be plain text
_FORMATS = ("parquet", "jsonl", "csv", "arrow", "webdataset", "mds")


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


def branches_of(source: SourceConfig) -> int:
    """How many documents a row is; those of one row stay together."""
    return 2 if source.chat is not None and source.chat.format == "preference" else 1


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
    of_list = chat.format not in COLUMNS
    if chat.column is not None and not of_list:
        yield Problem(
            ("chat", "column"), f"format {chat.format} has none", advice="use `columns:` instead"
        )
    if chat.columns is not None:
        known = COLUMNS.get(chat.format, ())
        yield from (
            Problem(
                ("chat", "columns", name),
                f"format {chat.format} has none",
                column,
                ", ".join(known) or "`column:`",
                "remove it" if known else "use `column:` instead",
            )
            for name, column in chat.columns.model_dump(exclude_none=True).items()
            if name not in known
        )
    if chat.tools is not None and chat.format == "alpaca":
        yield Problem(("chat", "tools"), "format alpaca has none", advice="remove it")
    if chat.template == "none" and chat.format not in PLAIN:
        yield Problem(
            ("chat", "template"),
            f"rows of format {chat.format} are conversations",
            chat.template,
            "a template",
            f"`none` is for rows of plain text: {', '.join(PLAIN)}",
        )
    texts = list(chat.parts.values())
    yield from (
        Problem(
            ("chat", "parts", kind),
            "stands for another part already",
            text,
            advice="give each kind a text of its own",
        )
        for at, (kind, text) in enumerate(chat.parts.items())
        if text in texts[:at]
    )
    if chat.date is not None:
        try:
            datetime.date.fromisoformat(chat.date)
        except ValueError as error:
            yield Problem(("chat", "date"), str(error), chat.date, "YYYY-MM-DD")
