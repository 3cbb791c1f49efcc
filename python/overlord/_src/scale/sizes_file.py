"""The sizes that `overlord partition` left beside the indexes: what `auto` takes."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from overlord._src.config.columns import base_name
from overlord._src.config.reading import LoadedConfig

FORMAT = 1
AUTO = "auto"
WITHOUT = {"loaders": 1, "workers": 2}  # a source that nobody has sized
# Slots that a source of several hosts has where its loaders are `auto`. All hosts must have them,
# and each may size it otherwise: how many read is what the planner's host has found.
SLOTS_OF_HOSTS = 8


def sizes_path(loaded: LoadedConfig) -> Path:
    """Where the sizes of a job lie."""
    return loaded.index_dir / f"{loaded.config.job}.sizes.json"


def write_sizes(loaded: LoadedConfig, sizes: Sequence[Mapping[str, Any]]) -> Path:
    """Leave them; sub-sources, which share an entry of the config, have the largest of theirs."""
    found: dict[str, dict[str, int]] = {}
    for size in sizes:
        own = found.setdefault(base_name(size["name"]), {"loaders": 1, "workers": 1})
        for key in own:
            own[key] = max(own[key], size[key])
    path = sizes_path(loaded)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps({"format": FORMAT, "sources": found}, indent=1) + "\n")
    beside.replace(path)
    return path


@functools.lru_cache(maxsize=1)  # asked for every source
def _read(path: Path, changed_ns: int) -> Any:
    return json.loads(path.read_text())


def most_slots(loaded: LoadedConfig, source: str) -> int:
    """To how many slots a source may grow; 0: it has as many as it begins with."""
    declared = loaded.config.sources[base_name(source)].most_loaders
    hosts = loaded.config.runtime.wire.planner is not None
    if hosts and is_auto(loaded, source, "loaders"):
        return max(declared, SLOTS_OF_HOSTS)
    return declared


def is_auto(loaded: LoadedConfig, source: str, key: str) -> bool:
    """Whether `loaders` or `workers` of a source are to be found out.

    As the config says; where it says nothing, where one node plans for several hosts.
    """
    declared = getattr(loaded.config.sources[base_name(source)], key)
    if declared is None:
        return loaded.config.runtime.wire.planner is not None
    return bool(declared == AUTO)


def found_size(loaded: LoadedConfig, source: str, key: str) -> int | None:
    """What `overlord partition` has left for a source; None: nothing."""
    path = sizes_path(loaded)
    try:
        told = _read(path, path.stat().st_mtime_ns)
        found = told["sources"][base_name(source)][key] if told["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) and 1 <= found <= 1024 else None


def is_told(loaded: LoadedConfig, source: str, key: str) -> bool:
    """Whether a size is found out for each start, and is not known before."""
    if not is_auto(loaded, source, key):
        return False
    hosts = loaded.config.runtime.wire.planner is not None
    return hosts or found_size(loaded, source, key) is None


def sized(loaded: LoadedConfig, source: str, key: str) -> int:
    """`loaders` or `workers` of a source as far as it is known before the start."""
    declared = getattr(loaded.config.sources[base_name(source)], key)
    if is_auto(loaded, source, key):
        known = None if is_told(loaded, source, key) else found_size(loaded, source, key)
        return known or WITHOUT[key]
    return WITHOUT[key] if declared is None else int(declared)
