"""A user's function over rows: texts, or dicts with one column, to texts, tokens or nothing."""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from overlord._workers.answers import (
    BAD,
    DROPPED,
    TEXT,
    TOKENS,
    Row,
    Wrong,
    packed_answer,
    reason,
    solve,
)

_LEAST_TOKEN, _MOST_TOKEN = -(1 << 31), (1 << 31) - 1


def find_function(name: str) -> Any:
    """The object that module:name stands for."""
    module_name, _, attributes = name.partition(":")
    found: Any = importlib.import_module(module_name)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    return found


def answer_body(
    call: Callable[[list[Any]], Any], name: str, texts: Sequence[str], column: str | None
) -> bytes:
    """The answer to a batch, from the byte after its count of rows on.

    `column`: rows are dicts with this key; None: rows are texts.
    """

    def called(given: Sequence[str]) -> Any:  # with rows of its own each time: it may change them
        return call(list(given) if column is None else [{column: text} for text in given])

    rows: list[Row] = []
    solve(called, name, "row", texts, lambda _, value: _row(name, value), rows)
    return packed_answer(rows)


def _row(name: str, value: Any) -> Row:
    try:
        if isinstance(value, Wrong):
            raise value
        if value is None:
            return (DROPPED, b"")
        if isinstance(value, str):
            return (TEXT, value.encode())
        return (TOKENS, _tokens(value))
    except UnicodeEncodeError as error:
        return (BAD, reason(name, Wrong(f"answered a text that is not Unicode: {error.reason}")))
    except Wrong as error:
        return (BAD, reason(name, error))


def _tokens(value: Any) -> array[int]:
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is not None:
        if kind not in "iu" or value.ndim != 1:
            raise Wrong(f"answered an array of {value.dtype}, shape {value.shape}; token ids are "
                         "integers in one row")  # fmt: skip
        if value.size and (value.min() < _LEAST_TOKEN or value.max() > _MOST_TOKEN):
            raise Wrong(f"answered a token id outside 32 bits: {value.min()} to {value.max()}")
        tokens = array("i")
        tokens.frombytes(value.astype("=i4").tobytes())
        return tokens
    if not isinstance(value, list | tuple | array):
        raise Wrong(f"answered {type(value).__name__} for a row; allowed: str, token ids, None")
    try:
        return array("i", value)
    except (TypeError, OverflowError) as error:
        raise Wrong(f"answered a list that holds no token ids: {error}") from None
