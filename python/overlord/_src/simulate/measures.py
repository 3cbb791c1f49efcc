"""What a placement is worth: predicted time of its step, imbalance by axis, bytes exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from overlord._src.simulate import partition, pipeline
from overlord._src.simulate.clients import Clients
from overlord._src.simulate.columns import Integers
from overlord._src.simulate.costs import BACKBONE, ENCODER
from overlord._src.simulate.placing import Placement, Work

EncoderTime = Literal["before", "overlapped"]
ENCODER_TIMES: tuple[EncoderTime, ...] = ("before", "overlapped")
LIMITS = ("work", "sample", "media")


@dataclass(frozen=True)
class StepTime:
    """One step under one placement. Times in nanoseconds."""

    step_ns: float
    backbone_ns: float
    encoder_ns: float
    imbalance: dict[str, float]  # max / mean: dp, microbatch, and encoder where there is one
    loads: Integers  # [groups, microbatches]: one rank's backbone work, in running order
    largest_microbatch_tokens: int
    exchange_bytes: int  # embeddings that change their group between encoder and backbone


@dataclass(frozen=True)
class Bound:
    """What no placement of a step can beat, and what sets it."""

    bound_ns: float
    even_ns: float  # with all work cut evenly, bubbles of the pipeline included
    limited_by: str  # work: all ranks are busy; sample, media: the largest takes that long alone
    largest_tokens: int  # of the sample that sets the bound, or of the largest


def max_over_mean(values: npt.NDArray[Any]) -> float:
    """1 is even. Nothing at all is even, too."""
    mean = float(values.mean()) if values.size else 0.0
    return float(values.max()) / mean if mean > 0 else 1.0


def _together(backbone_ns: float, encoder_ns: float, overlapped: bool) -> float:
    return max(backbone_ns, encoder_ns) if overlapped else backbone_ns + encoder_ns


def measure(
    placement: Placement,
    work: Work,
    clients: Clients,
    microbatches: int,
    encoder_time: EncoderTime = "before",
    embedding_bytes: Integers | None = None,
) -> StepTime:
    """The slowest group's pipeline, and the slowest rank's encoder before it or beside it."""
    groups, backbone = clients.groups, placement[BACKBONE]
    place = backbone.owner * microbatches + backbone.microbatch
    bins = groups * microbatches
    loads = partition.bin_loads(work.backbone, place, bins).reshape(groups, microbatches)
    tokens = np.bincount(place, weights=work.tokens, minlength=bins)
    backbone_ns = float(pipeline.makespan(loads / clients.group_ranks, clients.stages).max())
    imbalance = {"dp": max_over_mean(loads.sum(axis=1)), "microbatch": max_over_mean(loads)}
    encoder_ns, exchanged = 0.0, 0
    if ENCODER in placement and work.encoder is not None:
        owner = placement[ENCODER].owner
        ranks = partition.bin_loads(work.encoder, owner, clients.world)
        encoder_ns, imbalance["encoder"] = float(ranks.max()), max_over_mean(ranks)
        if embedding_bytes is not None:
            there = owner >= 0
            away = clients.bucket_of_rank()[owner[there]] != backbone.owner[there]
            exchanged = int(embedding_bytes[there][away].sum())
    return StepTime(
        _together(backbone_ns, encoder_ns, encoder_time == "overlapped"),
        backbone_ns,
        encoder_ns,
        imbalance,
        loads // clients.group_ranks,
        int(tokens.max()),
        exchanged,
    )


def bound_of(
    work: Work, clients: Clients, microbatches: int, encoder_time: EncoderTime = "before"
) -> Bound:
    """Lower bound of a step: work over all ranks, or the largest atom through all its stages."""
    costs, encoder = work.backbone, work.encoder
    shared = float(costs.sum()) / clients.world
    largest = int(costs.argmax())
    alone = float(costs[largest]) / clients.shards
    stages = clients.stages
    even = shared * (microbatches + stages - 1) / microbatches
    encoder_shared = float(encoder.sum()) / clients.world if encoder is not None else 0.0
    encoder_alone = float(encoder.max()) if encoder is not None else 0.0
    overlapped = encoder_time == "overlapped"
    limited = "work"
    if encoder is not None and encoder_alone > encoder_shared:
        limited, largest = "media", int(encoder.argmax())
    if alone > even:
        limited, largest = "sample", int(costs.argmax())
    return Bound(
        _together(max(shared, alone), max(encoder_shared, encoder_alone), overlapped),
        _together(even, encoder_shared, overlapped),
        limited,
        int(work.tokens[largest]),
    )
