"""Readers of users' own as a config names them: found, counted, and in the engine's own values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from overlord._src.config.columns import base_name
from overlord._src.functions.source_function import SourceReader
from overlord._src.functions.transforms import imported, search_path
from overlord._workers import reader as worker
from overlord._workers.transform_worker import worker_command

if TYPE_CHECKING:
    from overlord._src.config.function_models import ReaderConfig
    from overlord._src.config.reading import LoadedConfig

SCHEME = "rows://"
# By version and command: all streams of a job ask, and other rows would have another version.
_COUNTED: dict[str, int] = {}


def _refuse(loaded: LoadedConfig, name: str, wrong: str, advice: str = "") -> Exception:
    config = loaded.config.sources[name].reader
    assert config is not None
    return loaded.refused(("sources", name, "reader"), wrong, config.function, advice=advice)


def _found(loaded: LoadedConfig, name: str, config: ReaderConfig) -> tuple[str, str]:
    """Where workers find it, and its version with its options."""
    passed = loaded.transforms.get(config.function)
    if passed is None and ":" not in config.function:
        raise _refuse(loaded, name, "names no module", "write module:Class")
    found = passed
    if found is None:
        found = imported(
            loaded, config.function, lambda wrong, advice: _refuse(loaded, name, wrong, advice)
        )
    if not isinstance(found, SourceReader):
        raise _refuse(loaded, name, "is no reader", 'decorate it with @ol.source(version="1")')
    place = found.place if passed is not None else config.function
    if passed is not None and (found.module == "__main__" or "<" in found.name):
        raise _refuse(
            loaded,
            name,
            f"is {place}, which no worker process can import",
            "put it into a module of its own",
        )
    try:
        return place, worker.versioned(found.version, config.options)
    except (TypeError, ValueError) as error:
        raise _refuse(loaded, name, f"has options that have no JSON: {error}") from None


def lower_reader(loaded: LoadedConfig, source: str) -> dict[str, Any] | None:
    """A source's reader as the engine runs it; None where it has none."""
    name = base_name(source)
    declared = loaded.config.sources[name]
    config = declared.reader
    if config is None:
        return None
    place, version = _found(loaded, name, config)
    told = {
        "options": config.options,
        "key": declared.text or declared.tokens or "",
        "text": declared.text is not None,
    }
    return {
        "function": place,
        "version": version,
        "lane": "process",
        "command": worker_command(place, None, search_path(loaded), reader=told),
        "workers": config.workers,
        "batch_rows": config.batch,
        "deadline_ms": max(1, round(config.deadline_seconds * 1000)),
        "memory_bytes": config.memory,
        "check_every": config.check_every,
    }


def reader_uri(loaded: LoadedConfig, name: str) -> str:
    """What stands for the rows of a reader among files: which it is, and how many it has."""
    config = loaded.config.sources[name].reader
    assert config is not None
    place, version = _found(loaded, name, config)
    return f"{SCHEME}{place}@{version}/{_count(loaded, name, config, place, version)}"


def _count(
    loaded: LoadedConfig, name: str, config: ReaderConfig, place: str, version: str
) -> int:
    """How many rows there are, asked in a process of its own, which may crash or hang."""
    told = {"function": place, "options": config.options, "path": search_path(loaded)}
    command = [sys.executable, os.path.abspath(worker.__file__), json.dumps(told)]
    key = f"{version} of {command[-1]}"
    if key in _COUNTED:
        return _COUNTED[key]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=config.deadline_seconds,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise _refuse(
            loaded,
            name,
            f"did not say within {config.deadline_seconds:g} seconds how many rows it has",
            "raise reader.deadline_seconds",
        ) from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last = " ".join(done.stderr.split())[-200:]
        answer = {"wrong": f"ended with status {done.returncode} instead of a count: {last}"}
    if "wrong" in answer:
        raise _refuse(loaded, name, answer["wrong"])
    _COUNTED[key] = int(answer["rows"])
    return _COUNTED[key]
