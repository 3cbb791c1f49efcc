"""`overlord index CONFIG`: builds or refreshes the indexes of all sources, several at a time."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from overlord.cli import arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    arguments.add_config(parser)
    parser.add_argument(
        "--lengths",
        action="store_true",
        help="also count the tokens of every row, so that plans need no data; an index that has "
        "them keeps them with every later run",
    )
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count() or 2, help="threads (default: all CPUs)"
    )


def run(options: argparse.Namespace) -> int:
    """Index everything the config's streams read."""
    loaded = arguments.load_config(options)
    names = sorted(loaded.config.sources)
    threads = max(1, options.threads)
    index_sources(loaded, names, lengths=options.lengths, threads=threads, findings=True)
    return 0


def index_missing(loaded: Any, names: Sequence[str], threads: int) -> None:
    """Index those of the sources that have no index yet, with progress."""
    from overlord._src.config.columns import base_name
    from overlord._src.index.indexing import missing_indexes

    whole = list(dict.fromkeys(base_name(name) for name in names))
    missing = [source.name for source in missing_indexes(loaded, lower_sources(loaded, whole))]
    if missing:
        index_sources(loaded, missing, lengths=False, threads=threads)


def index_sources(
    loaded: Any, names: Sequence[str], *, lengths: bool, threads: int, findings: bool = False
) -> None:
    """Index sources of a config, with progress, and say what they hold.

    With `findings` also what a run over them would be warned of.
    """
    from overlord._src.checkup.preflight import stream_findings
    from overlord._src.config.streams import TRAIN, resolve_stream
    from overlord._src.index import indexing
    from overlord.cli.terminal import make_console, print_rows, right, show_count, show_size

    console = make_console()
    sources = lower_sources(loaded, names)
    started = time.monotonic()
    with IndexView(console) as view:
        indexing.build_indexes(loaded, sources, lengths=lengths, threads=threads, watch=view.update)
    rows, bad = [], []
    infos = [indexing.check_indexed_files(loaded, source) for source in sources]
    for source, info in zip(sources, infos, strict=True):
        size = sum(shard["size_bytes"] for shard in info["shards"])
        tokens = show_count(info["tokens"]) if info["has_lengths"] else "-"
        rows.append(
            (
                source.name,
                len(info["shards"]),
                show_size(size),
                show_count(info["rows"]),
                info["blocks"],
                tokens,
                len(info["bad_rows"]),
                info["digest"][-16:][:12],  # as a state shows it
            )
        )
        bad += [(source.name, row, reason) for row, reason in info["bad_rows"][:3]]
    numbers = right("files", "size", "rows", "blocks", "tokens", "bad rows")
    print_rows(console, rows, "source", *numbers, "digest")
    for name, row, reason in bad:
        console.print(f"bad: source {name}, row {row}: {reason}")
    stream = resolve_stream(loaded.config, TRAIN)
    for finding in stream_findings(loaded, stream, sources, infos) if findings else ():
        lead = "" if finding.verdict == "ok" else "warning: "
        console.print(f"{lead}{finding.detail}", highlight=False, markup=False)
    console.print(f"indexed in {time.monotonic() - started:.1f} s into {loaded.index_dir}")


def lower_sources(loaded: Any, names: Sequence[str]) -> list[Any]:
    """Sources of a config with their files, whatever stream they belong to."""
    from overlord._src.config.streams import resolve_stream
    from overlord._src.lowering import job_spec as lowering

    stream = resolve_stream(loaded.config, "train")
    files = {name: lowering.list_source_files(loaded, name) for name in names}
    lowering.check_shared_files(loaded, files)
    return [lowering.lower_source(loaded, stream, name, files[name]) for name in names]


class IndexView:
    """A progress bar per source on a terminal; a line now and then elsewhere."""

    def __init__(self, console: Any, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

        from overlord._src.index.progress import LineProgress

        self._lines = None if console.is_terminal else LineProgress(console.print, clock)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),  # all of it in 80 columns
            DownloadColumn(),
            TextColumn("{task.fields[rows]} rows"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> IndexView:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, sources: Sequence[Any]) -> None:
        """Show how far each source is."""
        if self._lines is not None:
            self._lines.update(sources)
            return
        for item in sources:
            if item.name not in self._tasks:
                self._tasks[item.name] = self._progress.add_task(item.name, rows=0, total=None)
            done = item.bytes_total if item.finished else item.bytes_done
            self._progress.update(
                self._tasks[item.name],
                total=item.bytes_total or None,
                completed=done,
                rows=item.rows,
            )
