"""Transform worker: a user's function over batches of rows or media items, in its own process.

Run as a script, `python _transform_worker.py JSON`, with the function's module:name, the column its
rows come from and the search path of the process that starts it. Without a column it is over media
items, whose texts are those of `_media_items.py`. Requests, the hello and errors are
framed as in `_tokenizer_worker.py`; an answer is

  answer  'OVTR' u32 rows, then: u64 bytes, u64 tokens, u8 kinds[rows], u32 sizes[rows],
          UTF-8 text[bytes], i32 tokens[tokens]

A row is text (kind 0), tokens (1), dropped (2) or bad (3, its text is the reason). What a function
raises, or answers in the wrong shape, is traced to single rows here; what kills or hangs the
process is traced by whoever started it. A function over microbatches is told by `microbatches` in
the JSON; what differs is in `_batch_transform_worker.py`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any

TEXT, TOKENS, DROPPED, BAD = range(4)
Row = tuple[int, Any]  # kind, and bytes of text or an array of tokens
_MAX_REASON = 2000
_LEAST_TOKEN, _MOST_TOKEN = -(1 << 31), (1 << 31) - 1


def worker_command(function: str, column: str | None, path: Sequence[str]) -> list[str]:
    """The command that starts a worker for a function of a module; no column: over media."""
    told = {"function": function, "column": column, "path": list(path)}
    return [sys.executable, os.path.abspath(__file__), json.dumps(told)]


def find_function(name: str) -> Any:
    """The object that module:name stands for."""
    module_name, _, attributes = name.partition(":")
    found: Any = importlib.import_module(module_name)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    return found


class _Wrong(Exception):
    """What is wrong with an answer."""


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
            raise _Wrong(f"answered {type(answer).__name__}, not a list")
        if len(answer) != len(given):
            raise _Wrong(
                f"answered {len(answer)} {noun}s for {len(given)}; give None for one to drop"
            )
    except MemoryError:
        raise  # nothing the one can be blamed for alone: the process ends, and is looked into
    except BaseException as error:
        if len(given) == 1:
            out.append((BAD, _reason(name, error)))
            return
        middle = len(given) // 2
        solve(call, name, noun, given[:middle], taken, out)
        solve(call, name, noun, given[middle:], taken, out)
        return
    out += [taken(one, value) for one, value in zip(given, answer, strict=True)]


def _reason(name: str, error: BaseException) -> bytes:
    if isinstance(error, _Wrong):
        return f"transform {name} {error}".encode(errors="replace")[:_MAX_REASON]
    trace, where = error.__traceback__, ""
    while trace is not None:
        where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    told = f"transform {name} raised {type(error).__name__}: {error}"
    return told.encode(errors="replace")[:_MAX_REASON] + where.encode(errors="replace")


def _row(name: str, value: Any) -> Row:
    try:
        if value is None:
            return (DROPPED, b"")
        if isinstance(value, str):
            return (TEXT, value.encode())
        return (TOKENS, _tokens(value))
    except UnicodeEncodeError as error:
        return (BAD, _reason(name, _Wrong(f"answered a text that is not Unicode: {error.reason}")))
    except _Wrong as error:
        return (BAD, _reason(name, error))


def _tokens(value: Any) -> array[int]:
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is not None:
        if kind not in "iu" or value.ndim != 1:
            raise _Wrong(f"answered an array of {value.dtype}, shape {value.shape}; token ids are "
                         "integers in one row")  # fmt: skip
        if value.size and (value.min() < _LEAST_TOKEN or value.max() > _MOST_TOKEN):
            raise _Wrong(f"answered a token id outside 32 bits: {value.min()} to {value.max()}")
        tokens = array("i")
        tokens.frombytes(value.astype("=i4").tobytes())
        return tokens
    if not isinstance(value, list | tuple | array):
        raise _Wrong(f"answered {type(value).__name__} for a row; allowed: str, token ids, None")
    try:
        return array("i", value)
    except (TypeError, OverflowError) as error:
        raise _Wrong(f"answered a list that holds no token ids: {error}") from None


def _load(told: dict[str, Any]) -> tuple[Callable[[Sequence[str]], bytes], str]:
    """A function from texts to an answer, and the hello's JSON."""
    name = told["function"]
    function = find_function(name)
    version = getattr(function, "version", None)
    if version is None:
        raise TypeError(f"{name} has no version; decorate it with @ol.transform(version=...)")
    hello = json.dumps({"version": str(version), "digest": f"{name}@{version}"}, ensure_ascii=False)
    if told["column"] is None:
        from overlord._media_items import ItemCalls

        return ItemCalls(function, name).answer, hello
    column = told["column"] if getattr(function, "rows", "text") == "dict" else None

    def answer(texts: Sequence[str]) -> bytes:
        return answer_body(function, name, texts, column)

    return answer, hello


def main(arguments: list[str]) -> int:
    """Run a worker over stdin and stdout; the exit status."""
    from overlord import _tokenizer_worker as framing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    framing.die_with_parent()
    source = os.fdopen(os.dup(0), "rb", buffering=1 << 20)
    sink = framing.private_stdout()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # a function that reads stdin must not read requests
    told = json.loads(arguments[0])
    read: Callable[[Any], Any] = framing.read_request
    try:
        if told.get("microbatches"):
            from overlord import _batch_transform_worker as microbatches

            read = microbatches.read_frame
            answer, hello = microbatches.load(told)
        else:
            answer, hello = _load(told)
    except BaseException as error:
        framing.write_text(sink, framing.ERROR, f"{type(error).__name__}: {error}")
        return 1
    try:
        framing.write_text(sink, framing.HELLO, hello)
        while (texts := read(source)) is not None:
            body = answer(texts)
            sink.write(framing.ANSWER + struct.pack("<I", len(texts)))
            sink.write(body)
            sink.flush()
    except BrokenPipeError:
        return 0  # the parent is gone
    except framing.FramingError as error:
        print(f"transform worker: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    # One thread per worker where a library would take all cores: there are several workers.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [*json.loads(sys.argv[1])["path"], os.path.dirname(here)]
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # threads that a function has started must not keep the process
