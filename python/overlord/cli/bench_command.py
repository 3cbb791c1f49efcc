"""`overlord bench NAME`: runs one benchmark and keeps its report.

The benchmarks are no part of the package: they lie in the folder benchmarks/ of a checkout.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

from overlord._src.errors import refused

PACKAGE = "overlord_bench"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="which benchmark")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the report there")
    parser.set_defaults(arguments=[])  # further words are the benchmark's own


def bench_folder() -> Path:
    """The folder of the benchmarks in the checkout from which this package is used."""
    folder = Path(__file__).resolve().parents[3] / "benchmarks"
    if not (folder / PACKAGE / "__init__.py").is_file():
        raise refused(
            ("bench",),
            "the benchmarks are not in the installed package",
            advice="they are in the repository, folder benchmarks/: "
            "run `make build` and `.venv/bin/overlord bench` in a checkout",
        )
    return folder


def bench_names() -> list[str]:
    """The benchmarks there are."""
    found = pkgutil.iter_modules([str(bench_folder() / PACKAGE)])
    return sorted(item.name for item in found if not item.name.startswith("_"))


def _load(name: str) -> Any:
    if (folder := str(bench_folder())) not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"{PACKAGE}.{name}")


def run(options: argparse.Namespace) -> int:
    """Run the benchmark, print its figures, write its report."""
    from overlord._src.config.refusals import unknown_name
    from overlord.cli.terminal import make_console, print_rows, right

    console, names = make_console(), bench_names()
    modules = {name: _load(name) for name in names if options.list}
    if options.list or options.name is None:
        rows = [
            (name, ((module.__doc__ or "").splitlines() or [""])[0])
            for name, module in modules.items()
        ]
        print_rows(console, rows or [(n, "") for n in names], "bench", "what it measures")
        return 0
    if options.name not in names:
        raise unknown_name(("bench",), "no such benchmark", options.name, names)
    report: dict[str, Any] = _load(options.name).run(list(options.arguments))
    rows = [
        (key, f"{value:.4g}" if isinstance(value, float) else value)
        for key, value in report.get("figures", {}).items()
    ]
    print_rows(console, rows, "figure", *right("value"), title=f"bench {options.name}")
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
        console.print(f"report in {options.json}")
    return 0
