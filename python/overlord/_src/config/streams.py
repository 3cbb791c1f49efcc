"""Named streams of a job: the top level is `train`, entries of `streams` replace some fields."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from overlord._src.config.bins import BinsStageConfig, bins_by_step
from overlord._src.config.columns import mixable_sources
from overlord._src.config.job_models import JobFields, Leftover, PackingConfig
from overlord._src.config.mixture_models import MixtureConfig
from overlord._src.config.refusals import did_you_mean
from overlord._src.config.source_models import AtEnd, OverLength
from overlord._src.errors import KeyPath, refused

TRAIN = "train"


@dataclass(frozen=True)
class ResolvedStream:
    """One stream with every field decided."""

    name: str
    seed: int
    context: int
    bins: int  # of the steps that have most
    bins_by_step: dict[int, int]  # by the first step that has so many
    declared_bins: int | list[BinsStageConfig]
    part: str
    substeps: int
    align: int
    steps: int | None
    leftover: Leftover
    packing: PackingConfig
    mixture: MixtureConfig
    at_end: dict[str, AtEnd | None]
    over_length: dict[str, OverLength]
    microbatch_size: int
    fill_empty: bool
    own_keys: frozenset[str]

    def path_of(self, key: str) -> KeyPath:
        """Where the config says this key of the stream."""
        return ("streams", self.name, key) if key in self.own_keys else (key,)


def derive_seed(seed: int, name: str) -> int:
    """The seed of a stream that gives none: of the job's seed and the stream's name."""
    digest = hashlib.sha256(f"overlord-stream/1\0{seed}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def stream_names(config: JobFields) -> list[str]:
    """All streams of a job, `train` first."""
    return [TRAIN, *config.streams]


def resolve_stream(config: JobFields, name: str) -> ResolvedStream:
    """The stream of this name with every field decided."""
    if name == TRAIN:
        own = None
    elif name in config.streams:
        own = config.streams[name]
    else:
        known = stream_names(config)
        raise refused(
            ("streams", name),
            "no such stream",
            allowed=", ".join(known),
            advice=did_you_mean(name, known) or f"declare it under `streams: {{{name}: ...}}`",
        )
    given = own.model_dump(exclude_none=True) if own is not None else {}
    mixture = own.mixture if own is not None and own.mixture is not None else config.mixture
    packing = own.packing if own is not None and own.packing is not None else config.packing
    declared = own.bins if own is not None and own.bins is not None else config.bins
    stages = bins_by_step(declared)
    at_end: dict[str, AtEnd | None] = {}
    over_length: dict[str, OverLength] = {}
    for source_name, source in {**config.sources, **mixable_sources(config.sources)}.items():
        at_end[source_name] = given.get("at_end") or source.at_end or config.at_end
        over_length[source_name] = (
            given.get("over_length") or source.over_length or config.over_length
        )
    return ResolvedStream(
        name=name,
        seed=given.get("seed", config.seed if own is None else derive_seed(config.seed, name)),
        context=given.get("context", config.context),
        bins=max(stages.values()),
        bins_by_step=stages,
        declared_bins=declared,
        part=given.get("part", name),
        substeps=given.get("substeps", config.substeps),
        align=given.get("align", config.align),
        steps=given.get("steps", config.steps if own is None else None),
        leftover=given.get("leftover", config.leftover),
        packing=packing,
        mixture=mixture,
        at_end=at_end,
        over_length=over_length,
        microbatch_size=given.get("microbatch_size", config.delivery.microbatch_size),
        fill_empty=given.get("fill_empty", config.delivery.fill_empty),
        own_keys=frozenset(given),
    )
