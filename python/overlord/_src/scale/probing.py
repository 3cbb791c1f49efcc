"""Profiles before any run: some rows of each source are read and transformed at the start.

A probe is an engine of its own over one source alone, for a moment: whatever a source goes through,
it goes through it here, and leaves the profile that every run leaves. Nothing of the job's stream
depends on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

from overlord._src.config.job_models import WindowConfig
from overlord._src.config.mixture_models import MixtureConfig
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.streams import ResolvedStream
from overlord._src.index.source_profile import (
    FORMAT,
    PROBE,
    SourceProfile,
    profile_path,
    read_profile,
)
from overlord._src.job.open_stream import OpenStream
from overlord._src.loader.embedded_engine import EmbeddedEngine
from overlord._src.loader.shared_engine import EngineSettings
from overlord._src.lowering import job_spec as lowering
from overlord._src.mesh import Mesh
from overlord._src.native import core
from overlord._src.state.keys import keys_of

_DOCUMENTS = 512  # of one source, at most about so many
_TOKEN_BYTES = 4


def probe(
    loaded: LoadedConfig, opened: OpenStream, names: Iterable[str], seconds: float
) -> dict[str, SourceProfile]:
    """Profiles of these sources, as far as the time goes; they lie beside the indexes then."""
    wanted = sorted(names)
    ends = time.monotonic() + seconds
    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(min(cores, len(wanted)), "ol-probe") as pool:
        found = pool.map(lambda name: _probe_one(loaded, opened.resolved, name, ends), wanted)
        return {profile.source: profile for profile in found if profile is not None}


def _probe_one(
    loaded: LoadedConfig, stream: ResolvedStream, name: str, ends: float
) -> SourceProfile | None:
    """A profile of one source; None where nothing of it was read in time."""
    if time.monotonic() >= ends:
        return None
    # What is wrong with a source is told by the run itself.
    with contextlib.suppress(core.OverlordError, OSError):
        alone, mesh = _alone(loaded, stream, name), Mesh.from_axes([("dp", 1)])
        narrow = _narrowed(loaded)
        opened = OpenStream.open(narrow, mesh, alone, {})
        [source] = opened.sources
        _run(narrow, opened, mesh, ends)
        return _taken(narrow, source)
    return None


def _alone(loaded: LoadedConfig, stream: ResolvedStream, name: str) -> ResolvedStream:
    """Steps of one sequence, of one source."""
    return replace(
        stream,
        mixture=MixtureConfig(weights={name: 1.0}),
        bins=1,
        substeps=1,
        steps=None,
        microbatch_size=1,
        at_end=dict.fromkeys(stream.at_end, "repeat"),
    )


def _narrowed(loaded: LoadedConfig) -> LoadedConfig:
    """The job without whatever looks at several sources, ranks or steps."""
    runtime = loaded.config.runtime.model_copy(update={"journal": None, "prefetch": 1, "runway": 1})
    config = loaded.config.model_copy(
        update={
            "strategy": None,
            "window": WindowConfig(),
            "batch_transform": None,
            "runtime": runtime,
        }
    )
    return replace(loaded, config=config)


def _run(loaded: LoadedConfig, opened: OpenStream, mesh: Mesh, ends: float) -> None:
    """Steps as fast as they come, until there are enough documents or the time is over."""
    settings = EngineSettings(
        job=loaded.config.job,
        stream=opened.resolved.name,
        mesh=mesh,
        ranks=[0],
        options=lowering.lower_runtime(loaded.config.runtime, threads=1),
        dealing="",
        keys=keys_of(loaded.config, opened.resolved),
        slicing=loaded.config.delivery.cp_slicing,
        most_loaders={},
        hybrid=False,
        readers="all",
        rule=None,
        functions={},
        writable=False,
        microbatches=lambda _: 0,  # nobody asks
        pinning=None,
    )
    engine = EmbeddedEngine(settings, opened, "")
    try:
        running = engine.running()
        client = running.client(0)
        while (left := ends - time.monotonic()) > 0:
            client.next(left)
            if sum(one["documents"] for one in running.status()["loaders"]) >= _DOCUMENTS:
                break
    finally:
        engine.close()  # leaves the profile


def _taken(loaded: LoadedConfig, source: core.Source) -> SourceProfile | None:
    """What the engine has left, as that of a probe.

    Text is tokenised a window at a time, before its rows are served: the rows count that were
    worked on.
    """
    profile = read_profile(loaded, source)
    if profile is None:
        return None
    tokenised = profile.stages["tokenise"]
    if tokenised.in_bytes and profile.rows_posted:
        tokens = tokenised.out_bytes // _TOKEN_BYTES
        profile = replace(profile, documents=profile.rows_posted, tokens=tokens)
    profile = replace(profile, engine=PROBE)
    path = profile_path(loaded, source)
    beside = path.with_name(f"{path.name}.new.{os.getpid()}")
    beside.write_text(json.dumps({"format": FORMAT, "config": PROBE, **asdict(profile)}) + "\n")
    beside.replace(path)
    return profile if profile.documents else None
