"""Answers of a user's function, as a transform worker frames them: shared by rows, items, batches.

A row is text (kind 0), tokens (1), dropped (2) or bad (3, its text is the reason). What a function
raises, or answers in the wrong shape, is traced to single rows here; what kills or hangs the
process is traced by whoever started it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any

TEXT, TOKENS, DROPPED, BAD = range(4)
Row = tuple[int, Any]  # kind, and bytes of text or an array of tokens
_MAX_REASON = 2000


class Wrong(Exception):
    """What is wrong with an answer."""


def packed_answer(rows: Sequence[Row]) -> bytes:
    """Rows as an answer has them, from the byte after their count on."""
    kinds = bytes(kind for kind, _ in rows)
    sizes = array("I", [len(value) for _, value in rows])
    text = b"".join(value for kind, value in rows if kind in (TEXT, BAD))
    tokens = array("i")
    for kind, value in rows:
        if kind == TOKENS:
            tokens.extend(value)
    if sys.byteorder == "big":
        sizes.byteswap()
        tokens.byteswap()
    head = struct.pack("<QQ", len(text), len(tokens))
    return b"".join((head, kinds, sizes.tobytes(), text, tokens.tobytes()))


def solve(
    call: Callable[[Sequence[Any]], Any],
    name: str,
    noun: str,
    given: Sequence[Any],
    taken: Callable[[Any, Any], Row],
    out: list[Row],
) -> None:
    """Answers of all that is given; a list that fails is cut in halves until the one is found."""
    try:
        answer = call(given)
        if not isinstance(answer, list | tuple):
            raise Wrong(f"answered {type(answer).__name__}, not a list")
        if len(answer) != len(given):
            raise Wrong(
                f"answered {len(answer)} {noun}s for {len(given)}; give None for one to drop"
            )
    except MemoryError:
        raise  # nothing the one can be blamed for alone: the process ends, and is looked into
    except BaseException as error:
        if len(given) == 1:
            out.append((BAD, reason(name, error)))
            return
        middle = len(given) // 2
        solve(call, name, noun, given[:middle], taken, out)
        solve(call, name, noun, given[middle:], taken, out)
        return
    out += [taken(one, value) for one, value in zip(given, answer, strict=True)]


def reason(name: str, error: BaseException) -> bytes:
    """What a bad row is told with: the error, and where it was raised."""
    if isinstance(error, Wrong):
        return f"transform {name} {error}".encode(errors="replace")[:_MAX_REASON]
    trace, where = error.__traceback__, ""
    while trace is not None:
        where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    told = f"transform {name} raised {type(error).__name__}: {error}"
    return told.encode(errors="replace")[:_MAX_REASON] + where.encode(errors="replace")
