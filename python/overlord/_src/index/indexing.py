"""Indexes of a job's sources: where they lie, how they are built, whether they still fit."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overlord._src.config.columns import base_name
from overlord._src.config.reading import LoadedConfig
from overlord._src.index.folder import told_by_key
from overlord._src.index.progress import LineProgress
from overlord._src.lowering.job_spec import file_pattern
from overlord._src.native import core
from overlord._workers.tokenizer_worker import worker_command

_POLL_SECONDS = 0.05
_MOST_OTHERS = 8  # indexes of one source that are looked into when a new one is built
_LOG = logging.getLogger("overlord")


@dataclass
class SourceProgress:
    """How far one source's index is."""

    name: str
    shards_total: int = 0
    shards_done: int = 0
    bytes_total: int = 0
    bytes_done: int = 0
    rows: int = 0
    finished: bool = False

    def update(self, counters: dict[str, Any]) -> None:
        """Take over the counters of a running task."""
        for key, value in counters.items():
            if hasattr(self, key):
                setattr(self, key, int(value))


Watcher = Callable[[Sequence[SourceProgress]], None]


def index_path(loaded: LoadedConfig, source: core.Source) -> Path:
    """The index file of a source; its sub-sources share it.

    Named by what decides it, so that whoever reads the same finds it, and whoever reads something
    else under the same name has his own. The patterns of its files count, not what they match
    today: files that come and go are a change of the source, and are told (check_indexed_files).
    """
    name = base_name(source.name)
    config = loaded.config.sources[name]
    part = f"#{config.split_part}" if config.split_part is not None else ""
    patterns = sorted(file_pattern(loaded.base, pattern) + part for pattern in config.files)
    return loaded.index_dir / f"{name}-{core.index_key(source, patterns)}.index"


def _others(path: Path, source: core.Source) -> list[str]:
    """Other indexes under the source's name, newest first, whose shards may be taken over."""
    name = base_name(source.name)
    named = re.compile(re.escape(name) + r"-[0-9a-f]{16}\.index")
    found = list[Path]()
    with contextlib.suppress(OSError):  # a folder that cannot be listed has none to give
        found = [other for other in path.parent.iterdir() if named.fullmatch(other.name)]
    if not source.metadata_columns:  # their values of bad rows were kept in another way
        found.append(path.with_name(f"{name}.index"))  # as indexes were named once
    ages = {}
    for other in found:
        with contextlib.suppress(OSError):
            ages[other] = other.stat().st_mtime_ns
    ages.pop(path, None)
    newest = sorted(ages, key=lambda other: (-ages[other], other))
    return [str(other) for other in newest[:_MOST_OTHERS]]


@dataclass
class _Build:
    source: core.Source
    path: Path
    progress: SourceProgress
    task: core.IndexTask | None = field(default=None)


def build_indexes(
    loaded: LoadedConfig,
    sources: Sequence[core.Source],
    *,
    lengths: bool = False,
    threads: int = 2,
    watch: Watcher | None = None,
) -> list[SourceProgress]:
    """Build or refresh indexes, several sources at a time; unchanged shards are taken over.

    Lengths that are known are kept, whether they are asked for or not.
    """
    with told_by_key(loaded):
        make_folder(loaded.index_dir)
    builds = [
        _Build(source, index_path(loaded, source), SourceProgress(source.name))
        for source in sources
    ]
    waiting, running = list(builds), list[_Build]()
    at_once = max(1, min(threads, len(builds)))
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_start(waiting.pop(0), lengths, max(1, threads // at_once)))
            running = [build for build in running if not _finish(build)]
            if watch is not None:
                watch([build.progress for build in builds])
    finally:
        for build in running:
            if build.task is not None:
                build.task.cancel()
    return [build.progress for build in builds]


def _start(build: _Build, lengths: bool, threads: int) -> _Build:
    build.task = core.IndexTask(
        build.source,
        str(build.path),
        lengths,
        threads,
        worker_command(),
        _others(build.path, build.source),
    )
    return build


def _finish(build: _Build) -> bool:
    """Wait a moment for a task; True when it is done. Raises what it failed with."""
    assert build.task is not None
    done = build.task.wait(_POLL_SECONDS)
    build.progress.update(build.task.progress())
    build.progress.finished = done
    return bool(done)


def make_folder(folder: Path) -> None:
    """The folder of the indexes; it keeps itself out of version control."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".lock").touch()  # what cannot be written to is found out before anything is read
    ignore = folder / ".gitignore"
    if not ignore.exists():
        with contextlib.suppress(OSError):
            ignore.write_text("*\n")


@contextlib.contextmanager
def _building(loaded: LoadedConfig) -> Iterator[None]:
    """One process at a time builds indexes in a folder, where its file system can tell."""
    with told_by_key(loaded):
        make_folder(loaded.index_dir)
        file = (loaded.index_dir / ".lock").open("a")
    with file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def missing_indexes(loaded: LoadedConfig, sources: Sequence[core.Source]) -> list[core.Source]:
    """Those of the sources that have no index yet."""
    return [source for source in sources if not index_path(loaded, source).exists()]


def ensure_indexes(loaded: LoadedConfig, sources: Sequence[core.Source], threads: int) -> None:
    """Build the indexes that are missing. Those that are there are never changed here."""
    missing = missing_indexes(loaded, sources)
    if not missing:
        return
    with _building(loaded):
        missing = missing_indexes(loaded, missing)
        if missing:
            lines = LineProgress(_LOG.info)
            build_indexes(loaded, missing, threads=threads, watch=lines.update)


def indexed_files(loaded: LoadedConfig, source: core.Source) -> list[str]:
    """The files of a source as its index has them; none where there is no index."""
    path = index_path(loaded, source)
    if not path.exists():
        return []
    return [shard["uri"] for shard in core.index_info(str(path), source)["shards"]]


def check_indexed_files(loaded: LoadedConfig, source: core.Source) -> dict[str, Any]:
    """What the index says of a source; refuses one whose list of files is not today's."""
    info: dict[str, Any] = core.index_info(str(index_path(loaded, source)), source)
    # What a directory lists is compared where it is read (SourceIndex::verify).
    folders = tuple(uri for uri in source.files if uri.endswith("/"))
    indexed = {shard["uri"] for shard in info["shards"] if not shard["uri"].startswith(folders)}
    listed = set(source.files) - set(folders)
    appeared, vanished = sorted(listed - indexed), sorted(indexed - listed)
    if appeared or vanished:
        changes = [f"{uri} appeared" for uri in appeared] + [f"{uri} vanished" for uri in vanished]
        more = f" and {len(changes) - 4} more" if len(changes) > 4 else ""
        raise core.SourceChangedError(
            f"source {source.name} changed since it was indexed: {', '.join(changes[:4])}{more}; "
            "bring the files back, or run `overlord index` to take the change in"
        )
    if info["rows"] == 0:
        raise core.InvalidArgumentError(
            f"source {source.name} has no rows: {len(indexed)} files, like {sorted(indexed)[0]}; "
            "remove it, or set its weight to 0 and leave it out of the mixture"
        )
    return info
