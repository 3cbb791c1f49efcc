"""`overlord journal DIR`: what a planner's journal says, and what a restart would make of it."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_SEGMENT = re.compile(r"term-\d{8}\.\d{8}")
_ROWS = 8  # of what there may be many of; --json has all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "folder", metavar="DIR", help="a journal, or a folder with journals somewhere below it"
    )
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")


def run(options: argparse.Namespace) -> int:
    """Tell of every journal there is; 1 where one is damaged."""
    from overlord._src.native import core

    folders = find_journals(options.folder)
    if not folders:
        raise core.NotFoundError(
            f"no journal at {options.folder!r}: runtime.journal of the config names its folder, "
            "and of a running node `overlord top` says where it lies"
        )
    told = [_look(folder) for folder in folders]
    if options.json:
        print(json.dumps(told, indent=1))
    else:
        _show_all(told)
    return 1 if any("error" in one for one in told) else 0


def find_journals(below: str) -> list[str]:
    """The folder itself and those below it that have segments, in order of their names."""
    found = []
    for folder, inner, files in os.walk(below):
        inner.sort()
        if any(_SEGMENT.fullmatch(file) for file in files):
            found.append(folder)
    return found


def what_a_restart_does(look: dict[str, Any]) -> str:
    """One sentence for people."""
    if not look["counts"]:
        return "nothing was ever durable: a node would begin from the state that its ranks load"
    if not look["run"]:
        return (
            "this is of an embedded engine, whose planner does not come back: a restart begins "
            "from the state that the ranks load"
        )
    first, following, failure = look["remade_from"], look["next_step"], look["failure"]
    again = f"make {_steps(first, following)} again and " if first < following else ""
    if failure is not None:
        then = f"end before step {failure['step']}: {failure['message']}"
    elif look["ended"]:
        then = f"end: the stream has no step {following}"
    else:
        then = f"go on with step {following}"
    return f"a node of this run would {again}{then}"


def _steps(first: int, end: int) -> str:
    return f"step {first}" if end - first == 1 else f"steps {first} to {end - 1}"


def _look(folder: str) -> dict[str, Any]:
    from overlord._src.native import core

    try:
        look: dict[str, Any] = core.look_at_journal(folder)
    except core.OverlordError as error:
        return {"folder": folder, "error": str(error)}
    return look | {"restart": what_a_restart_does(look)}


def _show_all(told: list[dict[str, Any]]) -> None:
    from overlord.cli.terminal import make_console

    console = make_console()
    for number, one in enumerate(told):
        if number > 0:
            console.print()
        if "error" in one:
            console.print(f"journal {one['folder']}: cannot be read", markup=False)
            console.file.flush()
            print(f"overlord: error: {one['error']}", file=sys.stderr)
        else:
            _show(console, one)


def _show(console: Console, look: dict[str, Any]) -> None:
    from overlord.cli.terminal import print_rows, right, show_size

    def say(text: str) -> None:
        console.print(text, markup=False)

    say(f"journal {look['folder']}")
    if look["counts"]:
        run = f"run {look['run']}" if look["run"] else "no run (embedded)"
        say(f"{run}, attempt {look['attempt']}, term {look['term']}")
        say(f"config {look['config']}  manifest {look['manifest']}")
        say(f"{look['records']} records count; {_plans(look)}")
        if look["plans"]:
            last = look["plans"][-1]
            hashes = f"content {last['content_hash']}, plan {last['plan_hash']}"
            say(f"last plan: step {last['step']}, {hashes}")
        for text in _inputs(look):
            say(text)
    rows = [
        (
            segment["name"],
            segment["term"],
            show_size(segment["size_bytes"]),
            "counts" if segment["name"] == look["counts"] else "",
        )
        for segment in look["segments"]
    ]
    print_rows(console, rows, "segment", *right("term", "size"), "")
    if look["cut_bytes"]:
        say(f"torn tail: {look['cut_bytes']} bytes that were never durable count for nothing")
    say(look["restart"])


def _plans(look: dict[str, Any]) -> str:
    began = f"the run began with step {look['first_step']}"
    if not look["plans"]:
        return f"{began}; no plan is kept, next is step {look['next_step']}"
    kept = _steps(look["plans"][0]["step"], look["next_step"])
    count = len(look["plans"])
    many = "1 plan is" if count == 1 else f"{count} plans are"
    return f"{began}; {many} kept ({kept}), next is step {look['next_step']}"


def _inputs(look: dict[str, Any]) -> list[str]:
    """What came from outside and counts on, and how the stream ended."""
    told = []
    if look["feedback"]:
        newest = look["feedback"][-1]
        told.append(
            f"feedback kept of {len(look['feedback'])} steps, the newest of step {newest['step']}, "
            f"counts from step {newest['effective']} on"
        )
    told += [
        f"tree {tree['version']} from step {tree['first_step']} on: {tree['mesh']}"
        + (f" of ranks {', '.join(map(str, tree['ranks']))}" if tree["ranks"] else "")
        for tree in look["trees"][-_ROWS:]
    ]
    told += [
        f"source {one['source']}: {one['slots']} loaders from window {one['first_window']} on"
        + (f", advised {one['advised']}" if one["advised"] else "")
        + f": {one['reason']}"
        for one in look["owners"][-_ROWS:]
    ]
    if look["retired"]:
        told.append(f"retired constructors of earlier trees: {look['retired']}")
    if look["late_bad"]:
        told.append(f"late bad rows: {len(look['late_bad'])}")
    told += [
        f"  step {row['step']}, source {row['source']}, pass {row['pass']}, "
        f"position {row['position']}: {row['reason']}"
        for row in look["late_bad"][:_ROWS]
    ]
    if look["callouts"]:
        names = sorted({f"{one['function']} ({one['kind']})" for one in look["callouts"]})
        told.append(f"answers of functions: {len(look['callouts'])}, of {', '.join(names)}")
    if look["failure"] is not None:
        told.append(f"ended before step {look['failure']['step']}: {look['failure']['message']}")
    return told
