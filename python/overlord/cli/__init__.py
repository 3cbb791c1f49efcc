"""The command line: `overlord COMMAND ...`. One file per command, loaded when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Sequence

from overlord._version import __version__

# Command -> what `overlord --help` says of it. Each is a module NAME_command of this package with
# `add_arguments` and `run`.
COMMANDS = {
    "init": "make a folder with a working config and data to start from",
    "look": "tell what files are, and print the config that reads them",
    "index": "index the sources of a config",
    "inspect": "look at sources, a sample, a step or a rank's batch",
    "plan": "show what a step holds, for whom and why",
    "diff": "show what differs between two plans",
    "calibrate": "fit a cost model to measured times",
    "simulate": "predict step times of strategies on any mesh, from lengths alone",
    "partition": "size the loaders of every source by what it costs",
    "serve": "serve the ranks of this host from a process of its own",
    "top": "look at a running node: processes, sources, ranks, who waits",
    "trace": "record what a running node does, as a Chrome trace",
    "run": "read a stream on all ranks of a mesh and measure it",
    "demo": "make a corpus under ./demo and run it on 16 ranks",
    "doctor": "check this machine, this installation and a config",
    "bench": "measure against other loaders",
    "schema": "print the config's JSON Schema",
    "state": "describe a saved state",
    "journal": "describe a planner's journal, and what a restart would do",
}
EXIT_ERROR, EXIT_CONFIG, EXIT_INTERRUPT = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status. Ctrl-C ends it with 130 and one line, never a traceback."""
    if arguments is None:  # a command, not a call: no line of our code belongs on its screen
        warnings.formatwarning = _format_warning
    words = list(sys.argv[1:] if arguments is None else arguments)
    show_traceback = "--traceback" in words
    words = [word for word in words if word != "--traceback"]
    try:
        return _run(words)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the rest is short and must not be cut
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPT
    except BrokenPipeError:
        # Whoever read our output is gone; leave quietly, as other commands do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:
        if show_traceback:
            raise
        return _report(error)


def _format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    return f"warning: {str(message).removeprefix('overlord: ')}\n"


def _run(words: list[str]) -> int:
    parser = _parser(words)
    try:
        options, rest = parser.parse_known_args(words)
        if rest:
            _take_rest(parser, options, rest)
    except SystemExit as stop:
        return int(stop.code or 0)
    if options.command is None:
        parser.print_help()
        return EXIT_CONFIG
    return int(_module(options.command).run(options))


def _take_rest(
    parser: argparse.ArgumentParser, options: argparse.Namespace, rest: list[str]
) -> None:
    """Words that argparse leaves: KEY=VALUE after an option, or a benchmark's own arguments."""
    if hasattr(options, "arguments"):
        options.arguments = rest
        return
    strange = [word for word in rest if word.startswith("-") or "=" not in word]
    if strange or not hasattr(options, "overrides"):
        parser.error(f"unknown argument: {(strange or rest)[0]}")
    options.overrides = [*options.overrides, *rest]


def _module(command: str):  # type: ignore[no-untyped-def]
    return importlib.import_module(f"overlord.cli.{command}_command")


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that knows all commands, and the arguments of the one that is called."""
    parser = argparse.ArgumentParser(
        prog="overlord", description="The data plane for training large models."
    )
    parser.add_argument("--version", action="version", version=f"overlord {__version__}")
    parser.add_argument(  # taken out of the words before they are parsed, wherever it stands
        "--traceback", action="store_true", help="show the whole traceback of an error"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name in words:
            _module(name).add_arguments(command)
    return parser


def _report(error: Exception) -> int:
    """One readable message on stderr; the exit status."""
    from overlord._src.errors import ConfigError, redact

    text = redact(str(error)) or type(error).__name__
    is_config = isinstance(error, ConfigError) or type(error).__name__ == "InvalidArgumentError"
    ours = (
        is_config
        or type(error).__module__.startswith("overlord")
        or isinstance(error, OSError | ImportError)
    )
    label = "config error" if is_config else "error" if ours else f"error ({type(error).__name__})"
    print(f"overlord: {label}: {text}", file=sys.stderr)
    if not ours:
        print("overlord: --traceback shows where it happened", file=sys.stderr)
    return EXIT_CONFIG if is_config else EXIT_ERROR
