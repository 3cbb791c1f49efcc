"""Transform worker: a user's function over rows, media items or microbatches, in its own process.

Run as a script, `python transform_worker.py JSON`, with the function's module:name, the column its
rows come from (none: it is over media items, see `media_items.py`), whether it is over microbatches
(`microbatches.py`) or a reader of rows (`reader.py`), and the search path of the process that
starts it. Requests, the hello and
errors are framed as in `tokenizer_worker.py`; an answer is

  answer  'OVTR' u32 rows, then: u64 bytes, u64 tokens, u8 kinds[rows], u32 sizes[rows],
          UTF-8 text[bytes], i32 tokens[tokens]
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any


def worker_command(
    function: str,
    column: str | None,
    path: Sequence[str],
    *,
    microbatches: bool = False,
    reader: dict[str, Any] | None = None,
) -> list[str]:
    """The command that starts a worker for a function of a module; no column: over media."""
    told = {"function": function, "column": column, "path": [*path], "microbatches": microbatches}
    if reader is not None:
        told["reader"] = reader
    return [sys.executable, os.path.abspath(__file__), json.dumps(told)]


def _load(
    told: dict[str, Any],
) -> tuple[Callable[[Any], Any], Callable[[Sequence[Any]], bytes], str]:
    """How a request is read, a function from it to an answer, and the hello."""
    from overlord._workers import rows
    from overlord._workers.tokenizer_worker import read_request

    name = told["function"]
    if "reader" in told:
        from overlord._workers import reader

        return read_request, *reader.load(name, told["reader"])
    function = rows.find_function(name)
    version = getattr(function, "version", None)
    if version is None:
        raise TypeError(f"{name} has no version; decorate it with @ol.transform(version=...)")
    hello = f"{version}\n{name}@{version}\n0"
    if told["microbatches"]:
        from overlord._workers import microbatches

        return microbatches.read_frame, partial(microbatches.answer_body, function, name), hello
    if told["column"] is None:
        from overlord._workers.media_items import ItemCalls

        return read_request, ItemCalls(function, name).answer, hello
    column = told["column"] if getattr(function, "rows", "text") == "dict" else None
    return read_request, partial(rows.answer_body, function, name, column=column), hello


def main(arguments: list[str]) -> int:
    """Run a worker over stdin and stdout; the exit status."""
    from overlord._workers import tokenizer_worker as framing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    framing.die_with_parent()
    source = os.fdopen(os.dup(0), "rb", buffering=1 << 20)
    sink = framing.private_stdout()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # a function that reads stdin must not read requests
    try:
        read, answer, hello = _load(json.loads(arguments[0]))
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
    sys.path[:] = [*json.loads(sys.argv[1])["path"], os.path.dirname(os.path.dirname(here))]
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # threads that a function has started must not keep the process
