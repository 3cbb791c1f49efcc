"""`overlord top [DIRECTORY|CONFIG]`: looks at a running node, for people and for machines."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from overlord._src.errors import refused
from overlord.cli import arguments

if TYPE_CHECKING:
    from overlord._src.node.watch import NodeWatch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    arguments.add_node(parser, "list the nodes there are")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two looks")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="print one snapshot and end")
    how.add_argument("--json", action="store_true", help="the same as JSON")
    how.add_argument("--metrics", action="store_true", help="print Prometheus text and end")
    how.add_argument(
        "--serve-metrics",
        metavar="ADDRESS",
        default=None,
        help="serve it on 127.0.0.1:PORT, [::1]:PORT or unix:PATH until interrupted",
    )


def run(options: argparse.Namespace) -> int:
    """Look, once or until the node ends."""
    if not 0.05 <= options.interval <= 3600:
        raise refused(("--interval",), "out of range", options.interval, "0.05 to 3600 seconds")
    if options.where is None and not options.metrics and options.serve_metrics is None:
        return _list(options.json)
    directory = node_directory(options.where)
    if options.metrics or options.serve_metrics is not None:
        return _metrics(directory, options.serve_metrics)
    from overlord._src.node.watch import NodeWatch

    watch = NodeWatch.of(directory)
    if options.json or options.once or not sys.stdout.isatty():
        return _once(watch, directory, options)
    return _live(watch, directory, options.interval)


def node_directory(where: str | None) -> str:
    """The directory of the node that is meant: by its path, by its config, or the only one."""
    from overlord._src.native import core
    from overlord._src.node.watch import find_nodes

    if where is not None and os.path.isdir(where):
        return os.path.realpath(where)
    base, job, whose = None, None, "of this user"
    if where is not None:
        from overlord._src.config.reading import read_config

        config = read_config(where).config
        base, job, whose = config.runtime.processes.directory, config.job, f"of job {config.job!r}"
    found = [path for path, status in find_nodes(base) if job in (None, status["job"])]
    if not found:
        raise core.NotFoundError(
            f"no node {whose} runs on this host; an embedded engine has none: its figures are in "
            "loader.status()"
        )
    if len(found) > 1:
        raise core.InvalidArgumentError(
            f"{len(found)} nodes {whose} run here: name one of {', '.join(found)}"
        )
    return found[0]


def _list(as_json: bool) -> int:
    from overlord._src.node.watch import find_nodes
    from overlord.cli.terminal import make_console, print_rows

    rows = [
        {
            "directory": path,
            **{key: status[key] for key in ("job", "stream", "pid", "attempt", "serving")},
            "processes": len(status["processes"]),
            "ranks": len(status["clients"]),
        }
        for path, status in find_nodes()
    ]
    if as_json:
        print(json.dumps(rows, indent=1))
        return 0
    console = make_console()
    if not rows:
        console.print("no node of this user runs on this host")
        return 0
    names = ("job", "stream", "pid", "attempt", "serving", "processes", "ranks", "directory")
    print_rows(console, [[row[name] for name in names] for row in rows], *names)
    console.print("look at one with: overlord top DIRECTORY")
    return 0


def _once(watch: NodeWatch, directory: str, options: argparse.Namespace) -> int:
    from overlord.cli.terminal import make_console
    from overlord.cli.top_view import render

    watch.look()
    time.sleep(options.interval)  # rates need two looks
    snapshot: dict[str, Any] = {"directory": directory, **watch.look()}
    if options.json:
        print(json.dumps(snapshot, indent=1))
    else:
        make_console().print(render(snapshot, directory))
    return 0


def _live(watch: NodeWatch, directory: str, interval: float) -> int:
    from rich.live import Live

    from overlord._src.native import core
    from overlord.cli.terminal import make_console
    from overlord.cli.top_view import render

    console = make_console()
    screen = render(watch.look(), directory)  # where there is no node, that is the error
    with (
        contextlib.suppress(KeyboardInterrupt),
        Live(screen, console=console, auto_refresh=False) as live,
    ):
        try:
            while True:
                live.update(render(watch.look(), directory), refresh=True)
                time.sleep(interval)
        except core.UnavailableError:
            live.console.print("the node has ended")
    return 0


def _metrics(directory: str, address: str | None) -> int:
    from overlord._src.node.metrics import MetricsServer, node_metrics
    from overlord._src.node.watch import asked_metrics
    from overlord.cli.terminal import make_console

    if address is None:
        print(asked_metrics(directory), end="")
        return 0
    with MetricsServer(address, lambda: node_metrics(directory)) as server:
        console = make_console()
        console.print(f"figures of {directory} at {server.address}; Ctrl-C ends it")
        sys.stdout.flush()
        server.serve()
    return 0
