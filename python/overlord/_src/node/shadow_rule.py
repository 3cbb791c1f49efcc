"""Shadows by rule: for the sources whose loaders have most to do again when they start empty."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from overlord._src.config.reading import LoadedConfig
from overlord._src.index.source_profile import SourceProfile, read_profiles
from overlord._src.native import core

LOADER_STAGES = ("read", "decode", "python", "tokenise", "media")


def cold_start_cost(profile: SourceProfile) -> float:
    """Seconds of work in a second of the run: of every step that was ready, so much is lost."""
    work_ns = sum(profile.stages[stage].ns for stage in LOADER_STAGES)
    return work_ns / profile.elapsed_ns if profile.elapsed_ns else 0.0


def costliest(profiles: Mapping[str, SourceProfile], count: int) -> list[str]:
    """So many sources, the costliest first; those that cost the same by name."""
    return sorted(profiles, key=lambda name: (-cold_start_cost(profiles[name]), name))[:count]


def shadows_by_rule(loaded: LoadedConfig, sources: Iterable[core.Source]) -> dict[str, int]:
    """Shadows of a slot, for sources that have them by rule. Those of the config are not asked."""
    count = loaded.config.runtime.processes.shadow_costliest
    if not count:
        return {}
    profiles = read_profiles(loaded, sources)
    if not profiles:
        warnings.warn(
            "overlord: runtime.processes.shadow_costliest: no source has a profile, so none has a "
            "shadow by rule; a run writes them when it ends",
            stacklevel=2,
        )
    return dict.fromkeys(costliest(profiles, count), 1)
