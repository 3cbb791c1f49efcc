"""`overlord doctor [CONFIG]`: is this machine, this installation and this config fit to run?"""

from __future__ import annotations

import argparse
from typing import Any

from overlord.cli import arguments

_MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "config", metavar="CONFIG", nargs="?", help="also check what this config needs"
    )
    arguments.add_settings(parser)
    parser.add_argument(
        "--mesh",
        metavar=arguments.MESH_FORM,
        default="dp=1",
        help="ranks of this host, for the processes they would get (default dp=1)",
    )
    parser.add_argument("--seed", type=int, default=None, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Run all checks; 1 where one failed."""
    from rich.text import Text

    from overlord._src.checkup import host as checkup
    from overlord._src.mesh import Mesh
    from overlord.cli.terminal import make_console, print_rows

    loaded: Any = arguments.load_config(options) if options.config else None
    findings = checkup.check_all(loaded, Mesh.parse(options.mesh))
    rows = [(Text(*_MARKS[item.verdict]), item.what, item.detail) for item in findings]
    console = make_console()
    print_rows(console, rows, "", "check", "found")
    failed = sum(item.verdict == "fail" for item in findings)
    console.print("all fine" if not failed else f"{failed} of {len(findings)} checks failed")
    return 1 if failed else 0
