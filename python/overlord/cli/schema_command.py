"""`overlord schema`: the config's JSON Schema, for editors; or its reference as Markdown."""

from __future__ import annotations

import argparse
import json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "--markdown", action="store_true", help="print the reference of all keys instead"
    )


def run(options: argparse.Namespace) -> int:
    """Print it."""
    from overlord.config import json_schema

    if options.markdown:
        from overlord._src.config.reference import reference_tables

        print(reference_tables(), end="")
    else:
        print(json.dumps(json_schema(), indent=2))
    return 0
