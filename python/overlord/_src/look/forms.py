"""What rows are: text, tokens, conversations, lists in step; and the config keys that say so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from overlord._src.look.found import Column, Found, Sample
from overlord._src.look.media_bytes import is_path

_TEXTS = ("text", "content", "document", "caption", "raw_content", "body", "code", "article")
_TOKENS = ("input_ids", "tokens", "token_ids", "ids")
_MASKS = ("loss_mask", "assistant_masks", "assistant_mask")
_MESSAGE = {"role", "content"}
_WITH_ROLES = (("messages", _MESSAGE), ("sharegpt", {"from", "value"}))
_USUAL = {"messages": "messages", "sharegpt": "conversations"}

Columns = Mapping[str, Column]
Form = Callable[[Found, Columns], dict[str, Any] | None]


def conversations(found: Found, sample: Sample) -> dict[str, Any] | None:
    """The keys of a source whose rows are conversations or lists in step."""
    columns = {column.name: column for column in sample.columns()}
    tried = (form(found, columns) for form in _FORMS[:_CONVERSATIONS])
    return next((keys for keys in tried if keys is not None), None)


def find_form(found: Found) -> None:
    """Fill in the keys of the source and the column of its text, or say why there are none."""
    columns = {column.name: column for column in found.sample.columns()}
    for form in _FORMS:
        keys = form(found, columns)
        if keys is not None:
            found.source = {**found.source, **keys}
            return
    if found.sample.rows:
        found.notes.append(
            "no column of text, of tokens or of conversations was found; "
            "if there is one, name it by `text:`, `tokens:` or `chat:`"
        )


def _preference(found: Found, columns: Columns) -> dict[str, Any] | None:
    return _prompted(found, columns, "preference", ("chosen", "rejected"))


def _completion(found: Found, columns: Columns) -> dict[str, Any] | None:
    return _prompted(found, columns, "completion", ("prompt", "completion"))


def _prompt(found: Found, columns: Columns) -> dict[str, Any] | None:
    """A prompt beside texts is a part of something else."""
    others = [column for name, column in columns.items() if name != "prompt"]
    if any(_is_text(one) or _is_conversation(one, _MESSAGE) for one in others):
        return None
    return _prompted(found, columns, "prompt", ("prompt",))


def _prompted(
    found: Found, columns: Columns, form: str, names: Sequence[str]
) -> dict[str, Any] | None:
    """Columns of messages, which a template renders, or of plain text, which needs none."""
    wanted = [columns.get(name) for name in names]
    if all(column is not None and _is_conversation(column, _MESSAGE) for column in wanted):
        found.text = names[-1]
        return {"chat": form}
    if all(_is_text(column) for column in wanted):
        found.text = names[-1]
        return {"chat": {"format": form, "template": "none"}}
    return None


def _chat(found: Found, columns: Columns) -> dict[str, Any] | None:
    for form, fields in _WITH_ROLES:
        named = [column for column in columns.values() if _is_conversation(column, fields)]
        if not named:
            continue
        column = next((one for one in named if one.name == _USUAL[form]), named[0])
        found.text = column.name
        if column.name == _USUAL[form]:
            return {"chat": form}
        return {"chat": {"format": form, "column": column.name}}
    if all(_is_text(columns.get(name)) for name in ("instruction", "output")):
        found.text = "output"
        return {"chat": "alpaca"}
    return None


def _is_conversation(column: Column, fields: set[str]) -> bool:
    parsed = [_parsed(value) for value in column.values[:16]]
    return bool(parsed) and all(
        isinstance(value, list)
        and value
        and all(isinstance(item, Mapping) and fields <= set(item) for item in value)
        for value in parsed
    )


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _interleaved(found: Found, columns: Columns) -> dict[str, Any] | None:
    texts, images = columns.get("texts"), columns.get("images")
    if texts is None or images is None or not texts.rows == texts.filled == images.filled > 0:
        return None
    for words, pictures in zip(texts.values, images.values, strict=True):
        if not isinstance(words, list) or not isinstance(pictures, list):
            return None
        if len(words) != len(pictures):
            return None
        if any((a is None) == (b is None) for a, b in zip(words, pictures, strict=True)):
            return None
    found.text = "texts"
    return {"interleaved": {"texts": "texts", "images": "images", "marker": "<image>"}}


def _tokens(found: Found, columns: Columns) -> dict[str, Any] | None:
    lists = [column for column in columns.values() if _are_tokens(column)]
    masks = [column.name for column in lists if column.name in _MASKS]
    lists = [column for column in lists if column.name not in (*_MASKS, "labels", "attention_mask")]
    if not lists:
        return None
    by_name = {column.name: column for column in lists}
    column = next((by_name[name] for name in _TOKENS if name in by_name), None)
    if column is None:
        if any(name in columns for name in _TEXTS):
            return None
        column = lists[0]
    found.text = column.name
    most = max((max(value) for value in column.values if value), default=0)
    found.notes.append(f"the greatest token id of those seen is {most:,}")
    keys: dict[str, Any] = {"tokens": column.name}
    return {**keys, "mask": masks[0]} if masks else keys


def _are_tokens(column: Column) -> bool:
    return bool(column.values) and all(
        isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
        for value in column.values
    )


def _is_text(column: Column | None) -> bool:
    return (
        column is not None
        and bool(column.values)
        and all(isinstance(value, str) for value in column.values)
        and not all(is_path(value) for value in column.values)
    )


def _text(found: Found, columns: Columns) -> dict[str, Any] | None:
    texts = {name: column for name, column in columns.items() if _is_text(column)}
    if not texts:
        return None
    usual = next((name for name in _TEXTS if name in texts), None)
    name = usual or max(texts, key=lambda one: _size(texts[one].values))
    others = [other for other in texts if other != name]
    if usual is None and others:
        found.notes.append(f"{name} is the longest text; others are {', '.join(others[:8])}")
    found.text = name
    return {"text": name}


def _size(values: Sequence[str]) -> float:
    return sum(map(len, values)) / len(values)


# The first that fits says what rows are.
_FORMS: list[Form] = [
    *(_preference, _completion, _prompt, _chat),
    *(_interleaved, _tokens, _text),
]
_CONVERSATIONS = 5  # the first so many
