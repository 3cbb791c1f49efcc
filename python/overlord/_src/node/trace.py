"""A window of a node's life as a Chrome trace: what each process did, and each step's way."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlord._src.native import core
from overlord._src.node.watch import ask

_START_SECONDS = 2.5  # for all processes to notice: trainers look once a second
_END_SECONDS = 10.0  # for all of them to write what they kept
_TOUCH_SECONDS = 1.0  # so often we say that we are still there
_NO_STEP = -1


@dataclass(frozen=True)
class TraceEvent:
    """Something that a process did; times are of the host's monotonic clock."""

    process: str
    pid: int
    begin_ns: int
    duration_ns: int
    step: int  # -1: of no single step
    thread: int
    what: str
    whose: str


def read_events(text: str, process: str, pid: int) -> list[TraceEvent]:
    """Events out of what a process wrote."""
    found = []
    for line in text.splitlines():
        begin, duration, step, thread, what, whose = line.split("\t")
        numbers = (int(begin), int(duration), int(step), int(thread))
        found.append(TraceEvent(process, pid, *numbers, what, whose))
    return found


def record(directory: str, seconds: float) -> tuple[list[TraceEvent], list[str]]:
    """Let all processes of a node remember for so long: events, and processes that said nothing."""
    ask(directory)  # where there is no node, that is the error
    wanted = Path(directory) / "trace-wanted"
    try:
        descriptor = os.open(wanted, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise core.UnavailableError(
            f"{wanted} is there: somebody else traces this node; remove it if nobody does"
        ) from None
    os.close(descriptor)
    try:
        begin = time.monotonic_ns() + round(_START_SECONDS * 1e9)
        end = begin + round(seconds * 1e9)
        while (left := (end - time.monotonic_ns()) / 1e9) > 0:
            time.sleep(min(left, _TOUCH_SECONDS))
            os.utime(wanted)
    finally:
        with contextlib.suppress(FileNotFoundError):
            wanted.unlink()
    status = ask(directory)
    pids = {"node": status["pid"]} | {item["name"]: item["pid"] for item in status["processes"]}
    events, silent = _collect(Path(directory), pids)
    return [item for item in events if begin <= item.begin_ns < end], silent


def _collect(directory: Path, pids: dict[str, int]) -> tuple[list[TraceEvent], list[str]]:
    events: list[TraceEvent] = []
    waiting = dict(pids)
    deadline = time.monotonic() + _END_SECONDS
    while waiting and time.monotonic() < deadline:
        for name, pid in list(waiting.items()):
            path = directory / f"trace-of-{name}"
            with contextlib.suppress(FileNotFoundError):
                events += read_events(path.read_text(errors="replace"), name, pid)
                path.unlink()
                del waiting[name]
        if waiting:
            time.sleep(0.02)
    return events, sorted(waiting)


def chrome_trace(events: Iterable[TraceEvent]) -> dict[str, Any]:
    """The events as chrome://tracing and Perfetto read them; arrows follow each step."""
    known = sorted(events, key=lambda item: item.begin_ns)
    start = known[0].begin_ns if known else 0
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in {item.pid: item.process for item in known}.items()
    ]
    steps: dict[int, list[dict[str, Any]]] = {}
    for number, item in enumerate(known):
        where = {"ts": (item.begin_ns - start) / 1e3, "pid": item.pid, "tid": item.thread}
        told: dict[str, Any] = {"whose": item.whose} if item.whose else {}
        told |= {"step": item.step} if item.step != _NO_STEP else {}
        named = {"name": f"{item.what} {item.whose}".strip(), "cat": item.what, "args": told}
        if item.what == "read":  # many at a time: they belong to no thread
            rows.append({"ph": "b", "id": number, **named, **where})
            finish = where["ts"] + item.duration_ns / 1e3
            rows.append({"ph": "e", "id": number, **named, **where, "ts": finish})
            continue
        rows.append({"ph": "X", "dur": item.duration_ns / 1e3, **named, **where})
        if item.step != _NO_STEP:
            steps.setdefault(item.step, []).append(where)
    for step, places in steps.items():
        for number, where in enumerate(places if len(places) > 1 else []):
            kind = "s" if number == 0 else "f" if number == len(places) - 1 else "t"
            rows.append({"ph": kind, "id": step, "name": "step", "cat": "step", "bp": "e", **where})
    return {"traceEvents": rows, "displayTimeUnit": "ms"}
