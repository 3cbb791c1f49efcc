"""Loaders and workers of every source, from the profiles that runs have left beside the indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from overlord._src.errors import refused
from overlord._src.index.source_profile import SourceProfile, read_profiles
from overlord._src.job.job import Job
from overlord._src.job.open_stream import OpenStream
from overlord._src.native import core
from overlord._src.scale.loads import Room, load_of

REASONS = {
    "cost": "what a step's rows cost, beside those of the others",
    "least": "nobody has fewer",
    "rows_of_a_step": "a step draws no more rows of it",
    "source_workers": "--source-workers",
    "cores": "there are no more cores",
    "memory": "memory",
}


def rows_per_step(opened: OpenStream, steps: int) -> dict[str, float]:
    """Documents that a step draws of each source, on average over the first steps."""
    cursor, found = opened.cursor(), np.zeros(len(opened.source_names))
    planned = 0
    while planned < steps and (plan := cursor.next()) is not None:
        columns = plan.columns()
        ids = np.stack([columns[key] for key in ("source", "pass", "position")])
        documents = np.unique(ids, axis=1)
        found += np.bincount(documents[0], minlength=len(found))
        planned += 1
    return dict(zip(opened.source_names, found / max(planned, 1), strict=True))


def partition(job: Job, stream: str, room: Room, steps: int) -> dict[str, Any]:
    """Sizes of all sources of a stream, with what they were reckoned from."""
    opened = job.open_stream(stream)
    profiles = read_profiles(job.loaded, opened.sources)
    _check_profiled(opened, profiles)
    rows = rows_per_step(opened, steps)
    loads = [
        load_of(profiles[source.name], rows[source.name], source.loaders * source.workers)
        for source in opened.sources
    ]
    found = core.partition(loads, dict(vars(room)))
    sizes = [{**load, **size} for load, size in zip(loads, found["sizes"], strict=True)]
    return {**found, "sizes": sizes, "room": dict(vars(room)), "steps": steps}


def _check_profiled(opened: OpenStream, profiles: Mapping[str, SourceProfile]) -> None:
    without = [name for name in opened.source_names if name not in profiles]
    if without:
        raise refused(
            ("partition",),
            "no run has left a profile of these sources",
            ", ".join(without),
            advice="a run that reads a source leaves one beside its index when it ends: "
            "`overlord run CONFIG --steps 20`",
        )
