"""Users' transforms as a config names them: found, checked, and in the engine's own values."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from overlord._src.config.chat import text_field
from overlord._src.config.columns import base_name
from overlord._src.config.function_models import BatchTransformConfig, TransformConfig
from overlord._src.errors import Problem
from overlord._src.functions.transform_function import Transform
from overlord._workers.rows import answer_body, find_function
from overlord._workers.transform_worker import worker_command

if TYPE_CHECKING:
    from overlord._src.config.reading import LoadedConfig

_Declared = tuple[tuple[str | int, ...], TransformConfig | BatchTransformConfig]
_BATCH_PATH: tuple[str | int, ...] = ("batch_transform",)


@dataclass(frozen=True)
class ThreadTransform:
    """A transform of lane thread, as the threads of an embedded engine call it."""

    transform: Transform
    name: str
    column: str | None  # rows are dicts with it
    workers: int
    media: bool = False  # over items instead of rows
    microbatches: bool = False  # over these instead of rows

    def answer(self, rows: Sequence[Any]) -> bytes:
        """What a worker process would answer to a batch, less its head."""
        if self.media:
            from overlord._workers.media_items import ItemCalls

            return ItemCalls(self.transform, self.name).answer(rows)
        if self.microbatches:
            from overlord._workers import microbatches

            return microbatches.answer_body(self.transform, self.name, rows)
        return answer_body(self.transform, self.name, rows, self.column)


@dataclass(frozen=True)
class _Found:
    transform: Transform
    name: str  # in the digest
    importable: bool


def search_path(loaded: LoadedConfig) -> list[str]:
    """Where modules of transforms are found: where Python looks here, then beside the config.

    The config's folder comes last even where Python has it in front, as the folder of a script or
    the current one: a file like `random.py` in it must not replace what everybody imports.
    """
    base = os.path.abspath(loaded.base)
    places = dict.fromkeys(os.path.abspath(entry or os.getcwd()) for entry in sys.path)
    return [*(place for place in places if place != base), base]


def _hidden_by(loaded: LoadedConfig, module: str) -> str | None:
    """What is imported instead of a module that lies beside the config under the same name."""
    top = module.partition(".")[0]
    beside = PathFinder.find_spec(top, [os.path.abspath(loaded.base)])
    if beside is None or beside.origin is None:
        return None
    if top in sys.builtin_module_names:
        return f"Python's own {top}"
    found = PathFinder.find_spec(top, search_path(loaded))
    return None if found is None or found.origin == beside.origin else str(found.origin)


def _find(
    loaded: LoadedConfig,
    path: tuple[str | int, ...],
    config: TransformConfig | BatchTransformConfig,
) -> _Found:
    def refuse(wrong: str, advice: str, allowed: str = "") -> Exception:
        return loaded.refused(path, wrong, config.function, allowed, advice)

    passed = loaded.transforms.get(config.function)
    if passed is None and ":" not in config.function:
        raise refuse(
            "names no module, and no such function was passed",
            "write module:function, or pass ol.job(transforms={...})",
            ", ".join(sorted(loaded.transforms)),
        )
    found = passed if passed is not None else imported(loaded, config.function, refuse)
    if not isinstance(found, Transform):
        raise refuse("is no transform", 'decorate it with @ol.transform(version="1")')
    if passed is None:
        return _Found(found, config.function, True)
    module, _, name = found.place.partition(":")
    importable = module != "__main__" and "<" not in name
    if found.lane == "process" and not importable:
        raise refuse(
            f"is {found.place}, which no worker process can import",
            'put it into a module of its own, or use lane="thread" with the embedded engine',
        )
    return _Found(found, found.place, importable)


def imported(loaded: LoadedConfig, name: str, refuse: Callable[[str, str], Exception]) -> Any:
    """What module:name stands for, found as workers find it."""
    module = name.partition(":")[0]
    hidden_by = _hidden_by(loaded, module)
    if hidden_by is not None:
        raise refuse(
            f"lies beside the config, where {hidden_by} hides it", f"give {module}.py another name"
        )
    before = list(sys.path)
    sys.path[:] = search_path(loaded)
    try:
        return find_function(name)
    except Exception as error:
        raise refuse(
            f"cannot be imported: {type(error).__name__}: {error}",
            f"modules are looked for in {loaded.base} and on Python's path",
        ) from error
    finally:
        sys.path[:] = before


def _path(source: str, field: str | None = None) -> tuple[str | int, ...]:
    where = ("transform",) if field is None else ("media", field, "function")
    return ("sources", source, *where)


def _lowered(
    loaded: LoadedConfig,
    path: tuple[str | int, ...],
    config: TransformConfig | BatchTransformConfig | None,
    column: str | None = None,
) -> dict[str, Any] | None:
    if config is None:
        return None
    found = _find(loaded, path, config)
    microbatches = isinstance(config, BatchTransformConfig)
    command = worker_command(found.name, column, search_path(loaded), microbatches=microbatches)
    return {
        "function": found.name,
        "version": found.transform.version,
        "lane": found.transform.lane,
        "command": command if found.importable else [],
        "workers": config.workers,
        "batch_rows": config.batch if isinstance(config, TransformConfig) else 1,
        "deadline_ms": max(1, round(config.deadline_seconds * 1000)),
        "memory_bytes": config.memory,
        "check_every": config.check_every,
    }


def lower_transform(loaded: LoadedConfig, name: str) -> dict[str, Any] | None:
    """A source's transform in the engine's own values; None where it has none."""
    source = loaded.config.sources[base_name(name)]
    return _lowered(loaded, _path(base_name(name)), source.transform, text_field(source))


def lower_media_function(loaded: LoadedConfig, source: str, field: str) -> dict[str, Any] | None:
    """The function over a media field in the engine's own values; None where it has none."""
    config = loaded.config.sources[source].media[field].function
    return _lowered(loaded, _path(source, field), config)


def lower_batch_transform(loaded: LoadedConfig) -> dict[str, Any] | None:
    """The job's batch transform in the engine's own values; None without one."""
    return _lowered(loaded, _BATCH_PATH, loaded.config.batch_transform)


def thread_transforms(loaded: LoadedConfig, sources: Sequence[Any]) -> dict[str, ThreadTransform]:
    """Those of lane thread, by what the engine calls them."""
    out: dict[str, ThreadTransform] = {}
    names = [base_name(source.name) for source in sources]
    for path, config in (*_of_job(loaded), *_of_sources(loaded, names)):
        found = _find(loaded, path, config)
        if found.transform.lane != "thread":
            continue
        media, microbatches = "media" in path, path == _BATCH_PATH
        by_dict = found.transform.rows == "dict" and not media and not microbatches
        key = f"{found.name}@{found.transform.version}"
        out[f"media {key}" if media else key] = ThreadTransform(
            found.transform,
            found.name,
            text_field(loaded.config.sources[str(path[1])]) if by_dict else None,
            config.workers,
            media,
            microbatches,
        )
    return out


def _of_job(loaded: LoadedConfig) -> list[_Declared]:
    """Where the job itself names a function, and how it is run."""
    config = loaded.config.batch_transform
    return [] if config is None else [(_BATCH_PATH, config)]


def _of_sources(loaded: LoadedConfig, sources: Sequence[str]) -> Iterator[_Declared]:
    """The same of its sources."""
    for name in dict.fromkeys(sources):
        source = loaded.config.sources[name]
        if source.transform is not None:
            yield _path(name), source.transform
        for field, declared in source.media.items():
            if declared.function is not None:
                yield _path(name, field), declared.function


def thread_problem(loaded: LoadedConfig, sources: Sequence[str]) -> Problem | None:
    """Why a node, which has no Python, cannot run the functions of these sources or of the job."""
    for path, config in (*_of_sources(loaded, sources), *_of_job(loaded)):
        if _find(loaded, path, config).transform.lane == "thread":
            return Problem(
                path,
                "lane thread runs in the process that reads, and a node has no Python",
                config.function,
                advice='use lane="process", or engine="embedded"',
            )
    return None
