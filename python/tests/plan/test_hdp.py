"""Hybrid data parallelism: the Python face, and what a trainer may rely on, with a small model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from overlord_bench import hdp as bench

from overlord import hdp

SMALL = hdp.Model(
    square_fs=90_000,
    token_fs=2_000_000_000,
    capacity=32,
    layers=4,
    activation_token_bytes=1000,
    to_host_per_s=10**9,
    from_host_per_s=10**9,
    ring_token_bytes=100,
    ring_per_s=10**9,
)
METHODS: tuple[hdp.Method, ...] = ("search", "buckets", "naive")


def make_lengths(seed: int) -> Any:
    generator = np.random.default_rng(seed)
    short = generator.integers(1, 33, 20)
    return generator.permutation(np.concatenate([short, [50, 97, 180]])).astype(np.uint32)


def test_plan_says_who_does_what() -> None:
    lengths = make_lengths(1)
    plan = hdp.plan(lengths, ranks=8, model=SMALL, align=4, check=True)
    assert sorted(s for group in plan.groups for s in group.sequences) == list(range(len(lengths)))
    assert plan.targets == int(lengths.sum()) - len(lengths) == int(plan.microbatch_targets.sum())
    assert plan.makespan_ns == int(plan.rank_ns.max()) >= plan.lower_bound_ns
    for rank in range(8):
        groups = plan.groups_of(rank)
        assert len(groups) == plan.rank_microbatches[rank]
        numbers = [group.microbatch for group in groups]
        assert numbers == sorted(set(numbers))
    degrees = {len(group.ranks) for group in plan.groups}
    assert 1 in degrees and max(degrees) > 1
    with pytest.raises(ValueError, match="not in group"):
        plan.groups[0].slice_of(len(lengths), plan.groups[0].ranks[0])


def test_refusals() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        hdp.plan([10_000], ranks=4, model=SMALL, offload=False)
    with pytest.raises(ValueError, match="max_microbatches"):
        hdp.plan([32, 32, 32], ranks=1, model=SMALL, max_microbatches=2)
    with pytest.raises(ValueError, match="no such model"):
        hdp.model("nobody")
    assert hdp.model("llama12b", capacity=4096).capacity == 4096


def test_plan_of_nothing() -> None:
    plan = hdp.plan([], ranks=4, model=SMALL, check=True)
    assert plan.groups == () and plan.makespan_ns == 0


class Decoder:
    """Two layers of one attention head each, over tokens that may lie on several ranks."""

    def __init__(self, torch: Any, seed: int) -> None:
        self.torch = torch
        generator = torch.Generator().manual_seed(seed)

        def matrix(*shape: int) -> Any:
            values = torch.randn(*shape, generator=generator, dtype=torch.float64) / 3
            return values.requires_grad_()

        width, vocabulary = 8, 19
        self.embedding = matrix(vocabulary, width)
        self.layers = [tuple(matrix(width, width) for _ in range(4)) for _ in range(2)]
        self.head = matrix(width, vocabulary)
        self.parameters = [self.embedding, *(w for layer in self.layers for w in layer), self.head]

    def losses(self, shares: list[tuple[Any, Any, Any]]) -> list[Any]:
        """Summed loss of each member's share (tokens, positions, targets; -1: none)."""
        torch = self.torch
        hidden = [
            self.embedding[tokens] + torch.sin(places.double())[:, None]
            for tokens, places, _ in shares
        ]
        everywhere = torch.cat([places for _, places, _ in shares])
        for query, key, value, out in self.layers:
            keys = torch.cat([h @ key for h in hidden])  # what the ring brings to each member
            values = torch.cat([h @ value for h in hidden])
            mixed = []
            for h, (_, places, _) in zip(hidden, shares, strict=True):
                scores = (h @ query) @ keys.T / 8**0.5
                scores = scores.masked_fill(everywhere[None, :] > places[:, None], float("-inf"))
                mixed.append(h + torch.tanh((scores.softmax(-1) @ values) @ out))
            hidden = mixed
        return [
            torch.nn.functional.cross_entropy(
                h @ self.head, targets, ignore_index=-1, reduction="sum"
            )
            for h, (_, _, targets) in zip(hidden, shares, strict=True)
        ]


def share_of(torch: Any, document: Any, group: hdp.Group, sequence: int, rank: int) -> Any:
    """What one member reads of a document: tokens, positions, and the tokens that follow."""
    places = torch.cat(
        [
            torch.arange(chunk.first, chunk.first + chunk.count)
            for chunk in group.slice_of(sequence, rank)
        ]
    )
    following = torch.cat([document[1:], torch.tensor([-1])])
    return document[places], places, following[places]


@pytest.mark.parametrize("method", METHODS)
def test_scaled_losses_equal_one_rank(method: hdp.Method) -> None:
    torch = pytest.importorskip("torch")
    lengths = make_lengths(3)
    ranks = 8
    plan = hdp.plan(lengths, ranks=ranks, model=SMALL, method=method, check=True)
    generator = torch.Generator().manual_seed(5)
    documents = [torch.randint(0, 19, (int(n),), generator=generator) for n in lengths]

    alone = Decoder(torch, 7)
    whole = []
    for document in documents:
        places = torch.arange(len(document))
        following = torch.cat([document[1:], torch.tensor([-1])])
        whole += alone.losses([(document, places, following)])
    expected = sum(whole) / sum(len(document) - 1 for document in documents)
    expected.backward()

    # Every rank adds up its own share of each of its groups and divides by the plan's total.
    model = Decoder(torch, 7)
    by_rank = [torch.zeros((), dtype=torch.float64) for _ in range(ranks)]
    targets = 0
    for group in plan.groups:
        seen = 0
        for sequence in group.sequences:
            shares = [
                share_of(torch, documents[sequence], group, sequence, rank) for rank in group.ranks
            ]
            seen += sum(int((following >= 0).sum()) for _, _, following in shares)
            for rank, loss in zip(group.ranks, model.losses(shares), strict=True):
                by_rank[rank] = by_rank[rank] + loss / plan.targets
        assert seen == group.targets
        targets += seen
    assert targets == plan.targets
    total = sum(by_rank)
    total.backward()
    assert torch.allclose(total, expected, rtol=1e-12)
    for got, wanted in zip(model.parameters, alone.parameters, strict=True):
        assert torch.allclose(got.grad, wanted.grad, rtol=1e-9, atol=1e-12)


def test_ranks_that_meet_never_wait_for_each_other() -> None:
    plan = hdp.plan(make_lengths(9), ranks=6, model=SMALL, stages=2)
    queues = {rank: list(plan.groups_of(rank)) for rank in range(6)}
    finished = 0
    while any(queues.values()):
        ready = [
            queue[0]
            for rank, queue in queues.items()
            if queue and all(queues[other][:1] == [queue[0]] for other in queue[0].ranks)
        ]
        assert ready, "every rank waits for another"
        for rank in ready[0].ranks:
            queues[rank].pop(0)
        finished += 1
    assert finished == len(plan.groups)


def test_lengths_have_the_published_tail() -> None:
    lengths = np.concatenate([bench.long_tail(2**25, 2**22, seed) for seed in range(20)])
    tokens = lengths.sum()
    assert abs((lengths <= 4096).mean() - 0.8) < 0.01
    assert abs((lengths >= 131_072).mean() - 0.01) < 0.002
    assert abs(lengths[lengths >= 131_072].sum() / tokens - 0.443) < 0.06
    assert abs(lengths[lengths >= 2**21].sum() / tokens - 0.121) < 0.04
    assert lengths[lengths > 0].min() >= 1 and bench.long_tail(10**6, 4096, 1).max() <= 4096


def test_bench() -> None:
    report = bench.run(["--ranks", "256", "--tokens", "8388608", "--seeds", "1", "--rounds", "1"])
    figures = report["figures"]
    assert {"gap_percent", "speedup_vs_static", "speedup_vs_pow2", "plan_ms"} <= set(figures)
    assert figures["gap_percent"] <= 3 and figures["speedup_vs_static"] > 1
    speed = [report["contenders"][f"ablation/{name}"]["speedup"] for name in bench._ABLATION]
    assert speed == sorted(speed) and speed[0] == 1.0
    assert all("version" in contender for contender in report["contenders"].values())
