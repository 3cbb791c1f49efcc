"""Hybrid data parallelism: every sequence on as many ranks as it needs, every rank equally busy.

    from overlord import hdp
    plan = hdp.plan(lengths, ranks=1024, model=hdp.model("llama12b"))
    for group in plan.groups_of(rank):          # in the one order that all ranks keep
        for sequence in group.sequences:
            low, high = group.slice_of(sequence, rank)

As the strategy of a job it is delivered: `distribute(tree.cp).hybrid(hdp.model("llama12b"))`. Then
`batch.hdp` is the `Share` of a microbatch.

A sequence up to the model's `capacity` stays whole on one rank, packed with others. A longer one is
cut over a group of ranks, any number of them: 2N chunks, of which member i holds i and 2N-1-i, so
that tokens and causal attention are both even. Ranks may run different numbers of microbatches. The
loss stays that of plain data parallelism: sum token losses, divide once by `plan.targets`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["Chunk", "Group", "Model", "Plan", "Share", "model", "plan"]

Method = Literal["search", "buckets", "naive"]
Lengths = npt.NDArray[np.uint32] | Sequence[int]


@dataclass(frozen=True)
class Model:
    """What a rank can hold and how long it takes, in integers.

    One layer, forward and backward, takes `square_fs * sum(s^2) + token_fs * sum(s) + fixed_fs`
    femtoseconds; a group of N ranks takes the N-th part, or as long as keys and values need to go
    around the ring. One layer keeps `activation_token_bytes * s + activation_fixed_bytes`.
    """

    square_fs: int
    token_fs: int
    capacity: int
    layers: int
    fixed_fs: int = 0
    forward_permille: int = 333
    activation_token_bytes: int = 1
    activation_fixed_bytes: int = 0
    to_host_per_s: int = 0
    from_host_per_s: int = 0
    host_bytes: int = 0
    ring_token_bytes: int = 0
    ring_per_s: int = 0
    ring_hop_ns: int = 0

    def to_dict(self) -> dict[str, int]:
        """The coefficients as plain data, without those that have their default."""
        values = {item.name: (getattr(self, item.name), item.default) for item in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


@dataclass(frozen=True)
class Chunk:
    """Tokens [first, first + count) of a sequence."""

    first: int
    count: int


def _both(length: int, ranks: int, align: int, member: int) -> tuple[Chunk, Chunk]:
    """The chunks of a sequence of this length that a member of so many ranks holds."""
    from overlord._src.native import core

    rows: Any = core.hdp_slices(length, ranks, align)
    low_first, low_count, high_first, high_count = (int(x) for x in rows[member])
    return Chunk(low_first, low_count), Chunk(high_first, high_count)


@dataclass(frozen=True)
class Group:
    """Ranks that work on the same sequences at the same time, in ring order."""

    index: int
    microbatch: int
    ranks: tuple[int, ...]
    sequences: tuple[int, ...]
    offload_permille: int
    tokens: int
    targets: int
    cost_ns: int
    start_ns: int
    _lengths: npt.NDArray[np.uint32] = field(repr=False, compare=False)
    _align: int = field(repr=False, compare=False)

    def slice_of(self, sequence: int, rank: int) -> tuple[Chunk, Chunk]:
        """The two chunks of a sequence that a member holds."""
        if sequence not in self.sequences:
            raise ValueError(f"sequence {sequence} is not in group {self.index}")
        member = self.ranks.index(rank)
        return _both(int(self._lengths[sequence]), len(self.ranks), self._align, member)


@dataclass(frozen=True)
class Plan:
    """Who works with whom on what, in which order, and how long it should take."""

    rank_microbatches: npt.NDArray[np.uint32]
    rank_ns: npt.NDArray[np.int64]
    microbatch_targets: npt.NDArray[np.uint64]
    targets: int
    makespan_ns: int
    lower_bound_ns: int
    gap_percent: float
    limiting_sequence: int | None
    _arrays: dict[str, Any] = field(repr=False, compare=False)
    _lengths: npt.NDArray[np.uint32] = field(repr=False, compare=False)
    _align: int = field(repr=False, compare=False)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in the order that every rank keeps for those it is in."""
        arrays, same = self._arrays, ("offload_permille", "tokens", "cost_ns", "start_ns")
        ranks = np.split(arrays["ranks"], arrays["rank_ends"][:-1])
        sequences = np.split(arrays["sequences"], arrays["sequence_ends"][:-1])
        return tuple(
            Group(
                index=at,
                microbatch=int(arrays["microbatches"][at]),
                ranks=tuple(ranks[at].tolist()),
                sequences=tuple(sequences[at].tolist()),
                targets=int(arrays["group_targets"][at]),
                **{name: int(arrays[name][at]) for name in same},
                _lengths=self._lengths,
                _align=self._align,
            )
            for at in range(len(arrays["microbatches"]))
        )

    def groups_of(self, rank: int) -> tuple[Group, ...]:
        """The groups of one rank, in order."""
        return tuple(group for group in self.groups if rank in group.ranks)


CHUNKS = [(name, "<i8") for name in ("sequence", "chunk", "first", "count", "length")]


@dataclass(frozen=True)
class Share:
    """Whom a delivered microbatch is worked on with, and which part of it lies on this rank.

    `chunks` has a row for every segment of the microbatch, in the order of its boundaries and its
    lineage: which sequence of the step, which of its 2N chunks (0 of one where the group has one
    member), where it begins in that sequence, its tokens, and the length of the whole sequence.
    """

    group: int  # its number in the order that all ranks keep
    substep: int
    round: int  # groups of one round share no rank
    ranks: tuple[int, ...]  # in ring order: this rank's peers, at its own stage and tp coordinate
    consumers: tuple[int, ...]  # the same as numbers of the dp x cp ranks
    member: int  # this rank's place in the ring
    sequences: tuple[int, ...]  # all of the group, numbered within the step
    lengths: tuple[int, ...]  # of those
    chunks: npt.NDArray[Any]
    tokens: int  # real tokens of the group
    targets: int  # of those, the ones that carry loss
    step_targets: int  # of the whole step: divide the summed loss by it, once
    offload_permille: int
    cost_ns: int
    start_ns: int
    align: int

    def chunks_of(self, sequence: int, member: int) -> tuple[Chunk, ...]:
        """What a member holds of a sequence of the group, in order; empty chunks are left out."""
        length = self.lengths[self.sequences.index(sequence)]
        if len(self.ranks) == 1:
            return (Chunk(0, length),)
        both = _both(length, len(self.ranks), self.align, member)
        return tuple(chunk for chunk in both if chunk.count)


def share_of(data: dict[str, Any], peers: Sequence[int], step_targets: int) -> Share:
    """A share out of what the engine says of a microbatch; `peers`: a rank for each consumer."""
    arrays = {name: data.pop(name) for name in ("consumers", "sequences", "lengths", "chunks")}
    consumers, sequences, lengths = (
        tuple(arrays[name].tolist()) for name in ("consumers", "sequences", "lengths")
    )
    return Share(
        ranks=tuple(peers[consumer] for consumer in consumers),
        consumers=consumers,
        sequences=sequences,
        lengths=lengths,
        chunks=arrays["chunks"].view(CHUNKS).reshape(-1),
        step_targets=step_targets,
        **data,
    )


def model(name: str, capacity: int | None = None) -> Model:
    """A measured model: `llama12b` and `mixtral8x7b` (H200), `bytescale7b` (as published)."""
    from overlord._src.native import core

    values: dict[str, int] = core.hdp_model(name)
    return Model(**(values if capacity is None else {**values, "capacity": capacity}))


def plan(
    lengths: Lengths,
    ranks: int,
    model: Model,
    *,
    targets: Lengths | None = None,
    stages: int = 1,
    offload: bool = True,
    balance: Literal["dp", "pp"] | None = None,
    method: Method = "search",
    powers_of_two: bool = False,
    align: int = 1,
    max_microbatches: int = 0,
    check: bool = False,
) -> Plan:
    """Plan one step of sequences of these lengths over `ranks`.

    `targets` are the tokens of each sequence that carry loss (all but the last by default);
    `stages` the pipeline stages behind every rank; `balance` what is evened out, data-parallel
    ranks or pipelines (by default as `stages` says); `max_microbatches` a limit for each rank (0:
    none). `check` validates the plan.
    """
    from overlord._src.native import core

    tokens = np.ascontiguousarray(lengths, dtype=np.uint32)
    arrays = core.hdp_plan(
        tokens,
        ranks,
        asdict(model),
        np.ascontiguousarray([] if targets is None else targets, dtype=np.uint32),
        stages,
        offload,
        balance or ("pp" if stages > 1 else "dp"),
        method,
        powers_of_two,
        align,
        max_microbatches,
        check,
    )
    return Plan(
        **{item.name: arrays[item.name] for item in fields(Plan) if item.name in arrays},
        gap_percent=arrays["gap_ppm"] / 1e4,
        _arrays=arrays,
        _lengths=tokens,
        _align=align,
    )
