"""`overlord bench NAME`: runs one benchmark and keeps its report."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="which benchmark")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the report there")
    parser.set_defaults(arguments=[])  # further words are the benchmark's own


def bench_names() -> list[str]:
    """The benchmarks there are."""
    from overlord._src import bench

    return sorted(
        item.name for item in pkgutil.iter_modules(bench.__path__) if not item.name.startswith("_")
    )


def _load(name: str) -> Any:
    return importlib.import_module(f"overlord._src.bench.{name}")


def run(options: argparse.Namespace) -> int:
    """Run the benchmark, print its figures, write its report."""
    from overlord._src.config.refusals import did_you_mean
    from overlord._src.errors import ConfigError, Problem
    from overlord.cli.terminal import add_rows, make_console, make_table

    console, names = make_console(), bench_names()
    modules = {name: _load(name) for name in names if options.list}
    if options.list or options.name is None:
        rows = [
            (name, ((module.__doc__ or "").splitlines() or [""])[0])
            for name, module in modules.items()
        ]
        console.print(
            add_rows(make_table("bench", "what it measures"), rows or [(n, "") for n in names])
        )
        return 0
    if options.name not in names:
        raise ConfigError(
            Problem(
                ("bench",),
                "no such benchmark",
                options.name,
                ", ".join(names) or "none",
                did_you_mean(options.name, names),
            )
        )
    report: dict[str, Any] = _load(options.name).run(list(options.arguments))
    rows = [
        (key, f"{value:.4g}" if isinstance(value, float) else value)
        for key, value in report.get("figures", {}).items()
    ]
    console.print(
        add_rows(make_table("figure", ("value", "right"), title=f"bench {options.name}"), rows)
    )
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
        console.print(f"report in {options.json}")
    return 0
