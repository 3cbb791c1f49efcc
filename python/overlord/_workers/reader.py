"""A user's own reader: numbers of rows to texts or tokens; and how many rows there are.

`load` is for a transform worker, whose requests are the numbers as text. Run as a script,
`python reader.py JSON`, with the reader's module:name, its options and the search path of the
process that starts it, it prints how many rows there are, as JSON: {"rows": N} or {"wrong": TEXT}.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from overlord._workers.answers import Wrong

MOST_ROWS = 1 << 40


def load(name: str, told: Mapping[str, Any]) -> tuple[Callable[[Sequence[Any]], bytes], str]:
    """A function from numbers of rows to an answer, and the hello."""
    from overlord._workers import rows

    found = rows.find_function(name)
    if getattr(found, "version", None) is None:
        raise TypeError(f"{name} has no version; decorate it with @ol.source(version=...)")
    version = versioned(found.version, told["options"])
    opened = found.open(told["options"])
    key, wants_text = told["key"], told["text"]

    def read(given: Sequence[str]) -> Any:
        answer = opened.read([int(number) for number in given])
        if not isinstance(answer, list | tuple):
            return answer  # which is refused with its type
        return [_taken(value, key, wants_text) for value in answer]

    answer = partial(rows.answer_body, read, name, column=None)
    return answer, f"{version}\n{name}@{version}\n0"


def _taken(value: Any, key: str, wants_text: bool) -> Any:
    """What of a row's answer the source has declared."""
    if isinstance(value, Mapping):
        if key not in value:
            known = ", ".join(repr(name) for name in list(value)[:8])
            return Wrong(f"has no {key!r}; it has {known or 'nothing'}")
        value = value[key]
    if value is not None and isinstance(value, str) != wants_text:
        wanted = "a text" if wants_text else "token ids"
        return Wrong(f"is {type(value).__name__}, and the source has {wanted} in {key!r}")
    return value


def versioned(version: str, options: Mapping[str, Any]) -> str:
    """What stands for a reader with its options."""
    if not options:
        return version
    import hashlib

    told = json.dumps(options, sort_keys=True).encode()
    return f"{version}+{hashlib.sha256(told).hexdigest()[:16]}"


def count(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """How many rows a reader has, or what is wrong with it."""
    from overlord._workers import rows

    try:
        number = rows.find_function(name).open(options).rows()
    except BaseException as error:
        return {"wrong": f"raised {type(error).__name__}: {error}"}
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        return {"wrong": f"says that it has {number!r} rows, which is no whole number"}
    if not 0 < int(number) <= MOST_ROWS:
        return {"wrong": f"says that it has {int(number)} rows"}
    return {"rows": int(number)}


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [*arguments["path"], os.path.dirname(os.path.dirname(here))]
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the reader prints is no answer
    from overlord._workers.reader import count as counted

    channel.write(json.dumps(counted(arguments["function"], arguments["options"])))
    channel.flush()
    os._exit(0)  # threads that it has started must not keep the process
