"""What is known of sources when a run starts, and is in no config: sizes, shadows, costs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from overlord._src.config.mixture_models import MixtureConfig, rows_of
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.schedule import normalise
from overlord._src.index.source_profile import SourceProfile, read_profiles
from overlord._src.job.open_stream import OpenStream
from overlord._src.native import core
from overlord._src.node.shadow_rule import shadows_by_rule
from overlord._src.scale.loads import Room, load_of, taken_cores
from overlord._src.scale.probing import probe
from overlord._src.scale.sizes_file import WITHOUT, found_size, is_told, most_slots

KEYS = ("loaders", "workers")


def told_sources(
    loaded: LoadedConfig, opened: OpenStream, *, hosts: int = 1, groups: int = 1
) -> dict[str, dict[str, Any]]:
    """By source, as an engine or a node is told it; `hosts` like this one share the job.

    Sources whose sizes are `auto` and that nobody has sized are, by their profiles; those that
    have none are looked at first. It changes who reads, never what is read.
    """
    profiles = read_profiles(loaded, opened.sources)
    sizes: dict[str, dict[str, int]] = {}
    asked = {name: [*_told(loaded, name)] for name in opened.source_names}
    if any(found_size(loaded, name, key) is None for name in asked for key in asked[name]):
        profiles |= _probed(loaded, opened, profiles)
        room = _room(hosts, groups, loaded.config.runtime.processes.loaders)
        sizes = sizes_by_profile(opened, profiles, room)
    shadows = shadows_by_rule(loaded, opened.sources)
    return {
        name: {
            "shadows": shadows.get(name),
            **dict.fromkeys(KEYS),
            **{key: _size(loaded, sizes, name, key) for key in asked[name]},
            "measured": profiles[name].cost if name in profiles else None,
        }
        for name in opened.source_names
    }


def _told(loaded: LoadedConfig, name: str) -> Iterator[str]:
    """Which sizes of a source an engine is told at the start."""
    for key in KEYS:
        if key == "loaders" and loaded.config.runtime.ablation.uniform_loaders:
            continue
        if is_told(loaded, name, key):
            yield key


def _size(
    loaded: LoadedConfig, sizes: Mapping[str, Mapping[str, int]], name: str, key: str
) -> int | None:
    """As `overlord partition` has left it, or as it was reckoned now; None: neither."""
    found = found_size(loaded, name, key) or sizes.get(name, {}).get(key)
    most = most_slots(loaded, name)
    return min(found, most) if found and key == "loaders" and most else found


def _probed(
    loaded: LoadedConfig, opened: OpenStream, profiles: Mapping[str, SourceProfile]
) -> dict[str, SourceProfile]:
    """Of the sources without a profile; one that nobody could look at is named."""
    without = [name for name in opened.source_names if name not in profiles]
    seconds = loaded.config.runtime.probe_seconds
    found = probe(loaded, opened, without, seconds) if without and seconds > 0 else {}
    left = [name for name in without if name not in found]
    if left:
        sizes = ", ".join(f"{key} {value}" for key, value in WITHOUT.items())
        why = f"{seconds:g} s (runtime.probe_seconds) were too short" if seconds else "none is made"
        warnings.warn(
            f"overlord: sizes are auto, and there is no profile of {', '.join(left)}: {why}; all "
            f"sources begin with {sizes}. A run leaves profiles; `overlord partition CONFIG` sizes "
            "by them",
            stacklevel=2,
        )
    return found


def _room(hosts: int, groups: int, processes: int) -> Room:
    cores = hosts * len(os.sched_getaffinity(0))
    taken = taken_cores(cores, groups)
    return Room(cores=cores, taken_cores=taken, cluster=1, processes=processes)


def sizes_by_profile(
    opened: OpenStream, profiles: Mapping[str, SourceProfile], room: Room
) -> dict[str, dict[str, int]]:
    """Loaders and workers of every source; empty where one has no profile, or they do not fit."""
    if any(name not in profiles for name in opened.source_names):
        return {}
    rows = most_rows(opened, profiles)
    loads = [
        load_of(profiles[source.name], rows[source.name], source.loaders * source.workers)
        for source in opened.sources
    ]
    try:
        sizes = core.partition(loads, dict(vars(room)))["sizes"]
    except core.OverlordError:  # of memory, which nobody has limited here
        return {}
    return {
        name: {key: size[key] for key in KEYS}
        for name, size in zip(opened.source_names, sizes, strict=True)
    }


def most_rows(opened: OpenStream, profiles: Mapping[str, SourceProfile]) -> dict[str, float]:
    """Documents of each source in the step that asks most of it, by weights and mean lengths."""
    stream = opened.resolved
    tokens = stream.bins * stream.context
    lengths = {
        name: max(1.0, profile.tokens / max(1, profile.documents))
        for name, profile in profiles.items()
    }
    most = dict.fromkeys(opened.source_names, 0.0)
    for weights in _all_weights(stream.mixture):
        shares = normalise(weights, stream.mixture.temperature)
        if stream.mixture.unit == "samples":
            mean = sum(float(share) * lengths[name] for name, share in shares.items())
            found = {name: float(share) * tokens / mean for name, share in shares.items()}
        else:
            found = {name: float(share) * tokens / lengths[name] for name, share in shares.items()}
        most = {name: max(rows, found.get(name, 0.0)) for name, rows in most.items()}
    return most


def _all_weights(mixture: MixtureConfig) -> Iterator[Mapping[str, float]]:
    for stage in mixture.stage_list():
        yield from rows_of(stage)
