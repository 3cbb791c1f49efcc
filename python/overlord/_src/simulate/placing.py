"""Placements: which group and microbatch gets a sample, module by module; named strategies.

Baselines are written as their users would: `arrival` is the paper's vanilla, `backbone` and
`hybrid` are its two strategies. None of those balances microbatches within a group or orders them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from overlord._src.simulate import partition, pipeline, planner_seam
from overlord._src.simulate.clients import Clients
from overlord._src.simulate.columns import Integers
from overlord._src.simulate.costs import BACKBONE, ENCODER


@dataclass(frozen=True)
class Work:
    """What is to be placed: nanoseconds of each atom by module, and its length in tokens."""

    costs: dict[str, Integers]
    tokens: Integers

    @property
    def backbone(self) -> Integers:
        """Costs in the backbone."""
        return self.costs[BACKBONE]

    @property
    def encoder(self) -> Integers | None:
        """Costs in the encoder, where the model has one and the step has media."""
        found = self.costs.get(ENCODER)
        return found if found is not None and found.any() else None


@dataclass(frozen=True)
class ModulePlacement:
    """Owners of the atoms of one module: a bucket (axis dp) or a rank (axis world); -1: no work."""

    axis: str
    owner: Integers
    microbatch: Integers


Placement = dict[str, ModulePlacement]
# Places every atom once in every module that it has work for, over so many microbatches.
Placer = Callable[[Work, Clients, int], Placement]


def fill_in_order(bucket: Integers, buckets: int, microbatches: int) -> Integers:
    """Microbatches of a bucket filled one after another with equal numbers of atoms."""
    place, counts = partition.places_within(bucket, buckets)
    return place * microbatches // np.maximum(counts[bucket], 1)


def encode_at_home(work: Work, clients: Clients, backbone: ModulePlacement) -> Placement:
    """The encoder follows its sample: dealt in turn to the ranks of the sample's own group."""
    placed = {BACKBONE: backbone}
    costs = work.encoder
    if costs is not None:
        has_media = np.flatnonzero(costs)
        place, _ = partition.places_within(backbone.owner[has_media], clients.groups)
        owner = np.full(len(costs), -1, dtype=np.int64)
        owner[has_media] = clients.bucket_ranks[
            backbone.owner[has_media], place % clients.group_ranks
        ]
        placed[ENCODER] = ModulePlacement("world", owner, backbone.microbatch)
    return placed


def encode_anywhere(
    work: Work,
    clients: Clients,
    backbone: ModulePlacement,
    split: Callable[[Integers, int], Integers],
) -> Placement:
    """The encoder is balanced over all ranks of the world, with owners of its own."""
    placed = {BACKBONE: backbone}
    costs = work.encoder
    if costs is not None:
        has_media = np.flatnonzero(costs)
        owner = np.full(len(costs), -1, dtype=np.int64)
        owner[has_media] = split(costs[has_media], clients.world)
        placed[ENCODER] = ModulePlacement("world", owner, backbone.microbatch)
    return placed


def arrival(work: Work, clients: Clients, microbatches: int) -> Placement:
    """As samples come: dealt in turn to the groups, microbatches filled in order."""
    bucket = np.arange(len(work.tokens), dtype=np.int64) % clients.groups
    filled = fill_in_order(bucket, clients.groups, microbatches)
    return encode_at_home(work, clients, ModulePlacement("dp", bucket, filled))


def sorted_by_length(work: Work, clients: Clients, microbatches: int) -> Placement:
    """Sorted by length, then dealt in turn: each microbatch has samples of like length."""
    rank = np.empty(len(work.tokens), dtype=np.int64)
    rank[np.argsort(-work.tokens, kind="stable")] = np.arange(len(work.tokens))
    bucket = rank % clients.groups
    filled = np.empty_like(bucket)
    order = np.argsort(rank)
    filled[order] = fill_in_order(bucket[order], clients.groups, microbatches)
    return encode_at_home(work, clients, ModulePlacement("dp", bucket, filled))


def equal_count(work: Work, clients: Clients, microbatches: int) -> Placement:
    """Balanced by cost, with equal numbers of samples per group and per microbatch."""
    bucket = partition.longest_first_equal_count(work.backbone, clients.groups)
    filled = _split_buckets(
        work.backbone, bucket, clients.groups, microbatches, partition.longest_first_equal_count
    )
    return encode_at_home(work, clients, ModulePlacement("dp", bucket, filled))


def _backbone_of_the_paper(work: Work, clients: Clients, microbatches: int) -> ModulePlacement:
    bucket = partition.longest_first(work.backbone, clients.groups)
    return ModulePlacement("dp", bucket, fill_in_order(bucket, clients.groups, microbatches))


def backbone_balance(work: Work, clients: Clients, microbatches: int) -> Placement:
    """The paper's backbone balance: groups even in backbone work, the encoder follows."""
    return encode_at_home(work, clients, _backbone_of_the_paper(work, clients, microbatches))


def hybrid_balance(work: Work, clients: Clients, microbatches: int) -> Placement:
    """The paper's hybrid balance: the backbone over groups, the encoder over the whole world."""
    backbone = _backbone_of_the_paper(work, clients, microbatches)
    return encode_anywhere(work, clients, backbone, partition.longest_first)


def ours(work: Work, clients: Clients, microbatches: int) -> Placement:
    """Groups even, microbatches of a group even, in an order that suits the pipeline; the encoder
    over the whole world. Of two ways to split groups the one with the shorter step is taken."""
    costs, stages = work.backbone, clients.stages
    splits = [planner_seam.balance(costs, clients.groups)]
    even = costs.sum() / (clients.groups * microbatches)
    if stages > 1 and costs.max(initial=0) > even:  # else both give the same groups
        splits.append(
            partition.longest_first_in_pipeline(costs, clients.groups, microbatches, stages)
        )
    found = [_fill_and_order(costs, bucket, clients, microbatches) for bucket in splits]
    backbone = min(found, key=lambda pair: pair[0])[1]
    return encode_anywhere(work, clients, backbone, planner_seam.balance)


def _fill_and_order(
    costs: Integers, bucket: Integers, clients: Clients, microbatches: int
) -> tuple[float, ModulePlacement]:
    """Even, ordered microbatches within given groups, and how long the slowest group takes."""
    groups, stages = clients.groups, clients.stages
    filled = _split_buckets(costs, bucket, groups, microbatches, planner_seam.balance)
    loads = partition.bin_loads(costs, bucket * microbatches + filled, groups * microbatches)
    loads = loads.reshape(groups, microbatches)
    order = planner_seam.order_microbatches(loads, stages)
    position = np.empty_like(order)
    np.put_along_axis(position, order, np.arange(microbatches)[None, :], axis=1)
    time = pipeline.makespan(np.take_along_axis(loads, order, axis=1), stages).max()
    return float(time), ModulePlacement("dp", bucket, position[bucket, filled])


def _split_buckets(
    costs: Integers,
    bucket: Integers,
    buckets: int,
    microbatches: int,
    split: Callable[[Integers, int], Integers],
) -> Integers:
    """Microbatch of each atom, by splitting each bucket by itself."""
    filled = np.zeros(len(costs), dtype=np.int64)
    order = np.argsort(bucket, kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=buckets))
    for members in np.split(order, ends[:-1]):
        if len(members):
            filled[members] = split(costs[members], microbatches)
    return filled


def one_owner(work: Work, clients: Clients, microbatches: int) -> Placement:
    """Two costs, one owner: groups even in backbone and in encoder work at once, so embeddings
    never leave their group. Within it the encoder is balanced over the group's ranks."""
    encoder = work.encoder
    if encoder is None:
        return ours(work, clients, microbatches)
    bucket = _vector_longest_first(work.backbone, encoder, clients.groups)
    _, backbone = _fill_and_order(work.backbone, bucket, clients, microbatches)
    owner = np.full(len(encoder), -1, dtype=np.int64)
    has_media = np.flatnonzero(encoder)
    slot = _split_buckets(
        encoder[has_media],
        bucket[has_media],
        clients.groups,
        clients.group_ranks,
        planner_seam.balance,
    )
    owner[has_media] = clients.bucket_ranks[bucket[has_media], slot]
    placed = ModulePlacement("world", owner, backbone.microbatch)
    return {BACKBONE: backbone, ENCODER: placed}


def _vector_longest_first(first: Integers, second: Integers, bins: int) -> Integers:
    """Longest first over two costs: where the larger of the two shares stays least."""
    shares = [values * (bins / max(float(values.sum()), 1.0)) for values in (first, second)]
    one, two = np.zeros(bins), np.zeros(bins)
    after, other = np.empty(bins), np.empty(bins)
    chosen = np.empty(len(first), dtype=np.int64)
    order = np.argsort(-np.maximum(*shares), kind="stable")
    for item, more, also in zip(
        order.tolist(), shares[0][order].tolist(), shares[1][order].tolist(), strict=True
    ):
        np.add(one, more, out=after)
        np.add(two, also, out=other)
        np.maximum(after, other, out=after)
        number = int(after.argmin())
        chosen[item] = number
        one[number] += more
        two[number] += also
    return chosen


@dataclass(frozen=True)
class Strategy:
    """A placer with the words for it."""

    name: str
    title: str
    place: Placer
    exchanges: bool = False  # encoder and backbone have different owners

    @property
    def description(self) -> str:
        """What it does, in a sentence or two."""
        return " ".join((self.place.__doc__ or "").split())


BASELINE, DEFAULT = "arrival", "ours"
_STRATEGIES = (
    Strategy("arrival", "arrival order", arrival),
    Strategy("sorted", "sort by length", sorted_by_length),
    Strategy("equal_count", "equal count", equal_count),
    Strategy("backbone", "backbone balance", backbone_balance),
    Strategy("hybrid", "hybrid balance", hybrid_balance, exchanges=True),
    Strategy("one_owner", "ours, one owner", one_owner),
    Strategy("ours", "ours", ours, exchanges=True),
)
STRATEGIES = {strategy.name: strategy for strategy in _STRATEGIES}
