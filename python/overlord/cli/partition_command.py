"""`overlord partition CONFIG`: how many loaders and workers each source should have, and why."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from overlord._src.errors import refused
from overlord.cli import arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    arguments.add_config(parser)
    arguments.add_mesh(parser)
    number: dict[str, Any] = {"type": int, "metavar": "N"}
    cores = os.cpu_count() or 1
    parser.add_argument(
        "--cores", **number, default=cores, help=f"of all hosts together (default {cores}: these)"
    )
    parser.add_argument(
        "--taken-cores",
        **number,
        default=None,
        help="of them: constructors and planner (default 1, and 1 for 8 data-parallel groups)",
    )
    size: dict[str, Any] = {"metavar": "SIZE", "default": "0"}
    parser.add_argument("--memory", **size, help="of all loaders, like 64GB (default: unlimited)")
    parser.add_argument("--loader-memory", **size, help="of one loader (default: unlimited)")
    parser.add_argument(
        "--source-workers", **number, default=64, help="the most of one source (default 64)"
    )
    parser.add_argument(
        "--loader-workers", **number, default=4, help="the most of one loader (default 4)"
    )
    parser.add_argument(
        "--cluster",
        **number,
        default=None,
        help="sources that are sized as one (default: every one by itself; rule ratio: 4)",
    )
    parser.add_argument(
        "--rule",
        default="fill",
        choices=("fill", "ratio"),
        help="fill: cores go to whoever would be slowest (default); ratio: the paper's",
    )
    parser.add_argument(
        "--steps", **number, default=16, help="to plan, for the rows of a step (default 16)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--write", metavar="FILE", type=Path, help="the sizes as YAML of a config")


def run(options: argparse.Namespace) -> int:
    """Reckon the sizes, leave them for `auto`, show them with their reasons."""
    from overlord._src.scale.partitioning import partition
    from overlord._src.scale.sizes_file import write_sizes
    from overlord.cli.terminal import make_console

    job = arguments.load_job(options)
    told = partition(job, options.stream, _room(options, job), options.steps)
    write_sizes(job.loaded, told["sizes"])
    if options.write is not None:
        options.write.write_text(_yaml(told))
    if options.json:
        print(json.dumps(told, indent=1))
        return 0
    _print(make_console(), told)
    return 0


def _room(options: argparse.Namespace, job: Any) -> Any:
    from overlord._src.scale.loads import Room, taken_cores

    if options.cluster is None:
        options.cluster = 4 if options.rule == "ratio" else 1
    for name in ("cores", "source_workers", "loader_workers", "cluster", "steps"):
        if getattr(options, name) < 1:
            key = "--" + name.replace("_", "-")
            raise refused((key,), "too small", getattr(options, name), "1 or more")
    taken = options.taken_cores
    if taken is None:
        taken = taken_cores(options.cores, job.mesh.size("dp"))
    return Room(
        cores=options.cores,
        taken_cores=min(taken, options.cores - 1),
        memory_bytes=_bytes("--memory", options.memory),
        loader_bytes=_bytes("--loader-memory", options.loader_memory),
        cluster=options.cluster,
        source_workers=options.source_workers,
        loader_workers=options.loader_workers,
        processes=job.config.runtime.processes.loaders,
        rule=options.rule,
    )


def _bytes(key: str, text: str) -> int:
    from pydantic_core import PydanticCustomError

    from overlord._src.config.field_types import SIZE_FORM, parse_bytes

    try:
        return int(parse_bytes(int(text) if text.isdigit() else text))
    except PydanticCustomError:
        raise refused((key,), "not a size", text, SIZE_FORM) from None


def _yaml(told: dict[str, Any]) -> str:
    lines = ["# Written by `overlord partition`; the reason of each behind it.", "sources:"]
    for size in told["sizes"]:
        sized = f"loaders: {size['loaders']}, workers: {size['workers']}"
        lines.append(f"  {json.dumps(size['name'])}: {{{sized}}}  # {_reason(size)}")
    return "\n".join(lines) + "\n"


def _reason(size: dict[str, Any]) -> str:
    from overlord._src.scale.partitioning import REASONS

    return REASONS[size["reason"]]


def _print(console: Any, told: dict[str, Any]) -> None:
    from overlord.cli.terminal import print_rows, right, show_size

    rows = [
        (
            size["name"],
            size["loaders"],
            size["workers"],
            size["cluster"],
            f"{size['work_ns'] / 1e3:.3g}",
            f"{size['wait_ns'] / 1e3:.3g}",
            size["rows_per_step"],
            f"{size['work_ns'] * size['rows_per_step'] / 1e6:.3g}",
            show_size(size["loader_bytes"]),
            _reason(size),
        )
        for size in told["sizes"]
    ]
    numbers = right("loaders", "workers each", "cluster", "work us", "wait us", "rows a step")
    print_rows(console, rows, "source", *numbers, *right("work ms", "of a loader"), "because of")
    room = told["room"]
    console.print(
        f"{told['free_cores']} of {room['cores']} cores are the loaders', "
        f"{show_size(told['memory_bytes'])} of memory; the slowest source makes a step's rows in "
        f"{told['step_ns'] / 1e6:.3g} ms",
        highlight=False,
    )
