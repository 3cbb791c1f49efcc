"""`overlord state FILE`: what a saved state says, and whether it is whole."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from overlord._src.errors import refused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="a state_dict() saved as JSON; - for stdin")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def read_state(file: str) -> Any:
    """The state in a JSON file; a checkpoint that holds it under one key is accepted."""
    try:
        data = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text())
    except ValueError as error:
        raise refused(
            (file,), f"not JSON: {error}", advice="save loader.state_dict() with json"
        ) from None
    if isinstance(data, dict) and "format" not in data:
        inner = [value for value in data.values() if isinstance(value, dict) and "format" in value]
        return inner[0] if len(inner) == 1 else data
    return data


def run(options: argparse.Namespace) -> int:
    """Describe the state; fails where it is damaged or was edited."""
    from overlord._src.native import core
    from overlord._src.state import saved_state as states
    from overlord.cli.terminal import make_console, print_rows, right, show_count

    state = read_state(options.file)
    described: dict[str, Any] = core.describe_state(states.open_state(state))
    edited = states.edited_fields(state, described)
    if edited:
        raise states.StateError("the state was edited: " + "; ".join(edited))
    if options.json:
        print(
            json.dumps(
                {key: value for key, value in state.items() if key != "blob"}
                | {"described": described},
                indent=1,
            )
        )
        return 0
    console = make_console()
    size = len(json.dumps(state))
    where = f"step {state['step']}" + (
        f", microbatch {state['microbatch']} on {described['layout']}"
        if state["microbatch"]
        else ""
    )
    console.print(f"state of job {state['job']!r}, stream {state['stream']!r}: next is {where}")
    console.print(
        f"config {state['config']}  manifest {state['manifest']}  {size} bytes, "
        f"{described['carried']} documents carried over"
    )
    rows = [
        (
            name,
            source["pass"],
            source["position"],
            show_count(source["samples"]),
            show_count(source["tokens"]),
            source["digest"],
        )
        for name, source in described["sources"].items()
    ]
    numbers = right("pass", "position", "samples", "tokens")
    print_rows(console, rows, "source", *numbers, "digest")
    return 0
