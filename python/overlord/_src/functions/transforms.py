"""Users' transforms as a config names them: found, checked, and in the engine's own values."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from overlord._batch_transform_worker import worker_command as batch_worker_command
from overlord._src.config.chat import text_field
from overlord._src.config.columns import base_name
from overlord._src.errors import Problem
from overlord._src.transform_function import Transform
from overlord._transform_worker import answer_body, find_function, worker_command

if TYPE_CHECKING:
    from overlord._src.config.reading import LoadedConfig
    from overlord.config import BatchTransformConfig, SourceConfig, TransformConfig

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
            from overlord._media_items import ItemCalls

            return ItemCalls(self.transform, self.name).answer(rows)
        if self.microbatches:
            from overlord._batch_transform_worker import answer_body as batch_answer_body

            return batch_answer_body(self.transform, self.name, rows[0])
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
        return loaded.refuse(Problem(path, wrong, config.function, allowed, advice))

    passed = loaded.transforms.get(config.function)
    if passed is None and ":" not in config.function:
        raise refuse(
            "names no module, and no such function was passed",
            "write module:function, or pass ol.job(transforms={...})",
            ", ".join(sorted(loaded.transforms)),
        )
    found = passed if passed is not None else _imported(loaded, config.function, refuse)
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


def _imported(loaded: LoadedConfig, name: str, refuse: Callable[[str, str], Exception]) -> Any:
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


def _lowered(loaded: LoadedConfig, found: _Found, config: TransformConfig, column: Any) -> Any:
    from overlord._src.native import core

    lowered = core.Transform()
    lowered.function = found.name
    lowered.version = found.transform.version
    lowered.lane = getattr(core.Lane, found.transform.lane)
    if found.importable:
        lowered.command = worker_command(found.name, column, search_path(loaded))
    lowered.workers = config.workers
    lowered.batch_rows = config.batch
    lowered.deadline_ms = max(1, round(config.deadline_seconds * 1000))
    lowered.memory_bytes = config.memory
    lowered.check_every = config.check_every
    return lowered


def lower_transform(loaded: LoadedConfig, name: str) -> Any:
    """A source's transform in the engine's own values; one without a function where it has none."""
    from overlord._src.native import core

    source = base_name(name)
    config = loaded.config.sources[source].transform
    if config is None:
        return core.Transform()
    found = _find(loaded, _path(source), config)
    return _lowered(loaded, found, config, text_field(loaded.config.sources[source]))


def lower_media_function(loaded: LoadedConfig, source: str, field: str) -> Any | None:
    """The function over a media field in the engine's own values; None where it has none."""
    config = loaded.config.sources[source].media[field].function
    if config is None:
        return None
    return _lowered(loaded, _find(loaded, _path(source, field), config), config, None)


def lower_batch_transform(loaded: LoadedConfig) -> Any:
    """The job's batch transform in the engine's own values; none without a function."""
    from overlord._src.native import core

    config, lowered = loaded.config.batch_transform, core.Transform()
    if config is None:
        return lowered
    found = _find(loaded, _BATCH_PATH, config)
    lowered.function = found.name
    lowered.version = found.transform.version
    lowered.lane = getattr(core.Lane, found.transform.lane)
    if found.importable:
        lowered.command = batch_worker_command(found.name, search_path(loaded))
    lowered.workers = config.workers
    lowered.batch_rows = 1
    lowered.deadline_ms = max(1, round(config.deadline_seconds * 1000))
    lowered.memory_bytes = config.memory
    lowered.check_every = config.check_every
    return lowered


def _thread_batch_transform(loaded: LoadedConfig, lowered: Any) -> dict[str, ThreadTransform]:
    config = loaded.config.batch_transform
    if config is None:
        return {}
    found = _find(loaded, _BATCH_PATH, config)
    if found.transform.lane != "thread":
        return {}
    own = ThreadTransform(found.transform, found.name, None, config.workers, microbatches=True)
    return {lowered.key: own}


def thread_transforms(
    loaded: LoadedConfig, sources: Sequence[Any], batch_transform: Any
) -> dict[str, ThreadTransform]:
    """Those of lane thread, by what the engine calls them."""
    out = _thread_batch_transform(loaded, batch_transform)
    for name in dict.fromkeys(base_name(source.name) for source in sources):
        source = loaded.config.sources[name]
        for path, config in _functions(name, source):
            found = _find(loaded, path, config)
            if found.transform.lane != "thread":
                continue
            media = path != _path(name)
            by_dict = found.transform.rows == "dict" and not media
            key = f"{found.name}@{found.transform.version}"
            out[f"media {key}" if media else key] = ThreadTransform(
                found.transform,
                found.name,
                text_field(source) if by_dict else None,
                config.workers,
                media,
            )
    return out


def _functions(
    name: str, source: SourceConfig
) -> list[tuple[tuple[str | int, ...], TransformConfig]]:
    """Where a source names functions, and how they are run."""
    named = [(_path(name), source.transform)]
    named += [(_path(name, field), declared.function) for field, declared in source.media.items()]
    return [(path, config) for path, config in named if config is not None]


def thread_problem(loaded: LoadedConfig, sources: Sequence[str]) -> Problem | None:
    """Why a node, which has no Python, cannot run the functions of these sources or of the job."""
    declared: list[tuple[tuple[str | int, ...], TransformConfig | BatchTransformConfig]] = []
    for source in sources:
        declared += _functions(source, loaded.config.sources[source])
    if loaded.config.batch_transform is not None:
        declared.append((_BATCH_PATH, loaded.config.batch_transform))
    for path, config in declared:
        if _find(loaded, path, config).transform.lane == "thread":
            return Problem(
                path,
                "lane thread runs in the process that reads, and a node has no Python",
                config.function,
                advice='use lane="process", or engine="embedded"',
            )
    return None
