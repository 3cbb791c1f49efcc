"""`overlord trace DIRECTORY|CONFIG`: a window of a running node as a Chrome trace."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from overlord._src.errors import refused
from overlord.cli import arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    arguments.add_node(parser, "the only node there is")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long (default 2)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("trace.json"), help="file (default trace.json)"
    )


def run(options: argparse.Namespace) -> int:
    """Record, write, and say what is there."""
    from overlord._src.node.trace import chrome_trace, record
    from overlord.cli.terminal import make_console
    from overlord.cli.top_command import node_directory

    if not 0 < options.seconds <= 600:
        raise refused(("--seconds",), "out of range", options.seconds, "more than 0, at most 600")
    console = make_console()
    events, silent = record(node_directory(options.where), options.seconds)
    options.output.write_text(json.dumps(chrome_trace(events)) + "\n")
    steps = {item.step for item in events} - {-1}
    console.print(
        f"{len(events)} events of {len(steps)} steps in {options.output}: open it in "
        "https://ui.perfetto.dev or chrome://tracing"
    )
    if silent:
        console.print(f"without a word of {', '.join(silent)}")
    return 0
