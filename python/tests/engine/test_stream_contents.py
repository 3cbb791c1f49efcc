"""What steps hold: mixture, packing, over-long documents and the end of the stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import BOS, EOD, Corpus, Tokens, made_up_documents
from delivered import Piece, check_piece, documents_of, pieces_of, read_pieces, segments_of
from overlord._src.native import core

import overlord as ol

CONTEXT = 64


def three_sources(folder: Path) -> Corpus:
    """Sources a, b, c of different sizes and lengths, special tokens on two of them."""
    corpus = Corpus(folder)
    corpus.add_jsonl("a", made_up_documents(150, seed=1, longest=40), eod=EOD, window_rows=16)
    corpus.add_megatron("b", made_up_documents(90, seed=2, longest=150), eod=EOD, bos=BOS)
    corpus.add_jsonl("c", made_up_documents(40, seed=3, longest=60), window_rows=8)
    return corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return three_sources(tmp_path_factory.mktemp("contents"))


def read_all(config: dict[str, Any], mesh: str = "dp=2") -> tuple[list[Piece], int, dict[str, Any]]:
    """Every piece of a stream that ends, its steps, and the last state; ranks end together."""
    pieces: list[Piece] = []
    steps = 0
    with ol.job(config, mesh=mesh).train(ranks="all") as loaders:
        for step in loaders.steps():
            steps += 1
            for batches in step.values():
                pieces += [piece for batch in batches for piece in pieces_of(batch)]
        assert all(next(loader, None) is None for loader in loaders.values())
        state = core.describe_state(loaders[0]._connected().state())
    assert state["ended"]
    return pieces, steps, state


def check_passes(
    corpus: Corpus, config: dict[str, Any], documents: dict[tuple[int, int, int], Any]
) -> dict[str, list[int]]:
    """Positions come in order from 0, documents are the corpus's; gives how many of each pass."""
    native = ol.job(config).open_stream().native
    counts: dict[str, list[int]] = {}
    for number, name in enumerate(sorted(corpus.sources)):
        whole = corpus.whole(name)
        ids = sorted(item[1:] for item in documents if item[0] == number)
        passes = [list(group) for _, group in itertools.groupby(ids, key=lambda item: item[0])]
        for number_of_pass, listed in enumerate(passes):
            assert listed == [(number_of_pass, position) for position in range(len(listed))]
            for place in listed:
                row = native.locate(number, *place)["row"]
                assert documents[(number, *place)].tolist() == whole[row].tolist()
        counts[name] = [len(listed) for listed in passes]
        assert all(count == len(whole) for count in counts[name][:-1])
    return counts


# The end (law 12)


@pytest.mark.parametrize("packing", ["best_fit", "concat"])
def test_stop_ends_with_the_first_dry_source(packing: str, corpus: Corpus) -> None:
    config = corpus.config(at_end="stop", packing={"method": packing})
    pieces, _, _ = read_all(config)
    counts = check_passes(corpus, config, documents_of(pieces))
    assert counts["c"] == [40]  # the smallest, whole
    assert 0 < counts["a"][0] < 150 and 0 < counts["b"][0] < 90


@pytest.mark.parametrize("packing", ["best_fit", "concat"])
@pytest.mark.parametrize("mesh", ["dp=1", "dp=4"])
def test_drop_deals_the_rest_again(packing: str, mesh: str, corpus: Corpus) -> None:
    """Every document of every source once; steps stay full when a source leaves the mixture."""
    config = corpus.config(at_end="drop", packing={"method": packing})
    pieces, steps, state = read_all(config, mesh)
    counts = check_passes(corpus, config, documents_of(pieces))
    assert counts == {"a": [150], "b": [90], "c": [40]}
    tokens = np.bincount([piece.step for piece in pieces], [len(p.tokens) for p in pieces])
    assert len(tokens) == steps
    assert np.all(tokens[: -3 if packing == "best_fit" else -1] > 0.9 * 4 * CONTEXT)
    assert state["leftover_dropped"] == 0


def test_repeat_reads_again_in_another_order(corpus: Corpus) -> None:
    config = corpus.config(at_end="stop")
    config["sources"]["c"]["at_end"] = "repeat"
    pieces, _, _ = read_all(config)
    counts = check_passes(corpus, config, documents_of(pieces))
    assert counts["c"][0] == 40 and len(counts["c"]) > 2
    assert counts["a"] == [150] or counts["b"] == [90]


@pytest.mark.parametrize("packing", ["best_fit", "concat", "pad"])
@pytest.mark.parametrize("leftover", ["drain", "drop"])
def test_what_is_left_is_counted(packing: str, leftover: str, corpus: Corpus) -> None:
    """Drawn and not placed when the stream ends: nothing where it drains, else counted."""
    for at_end, steps in (("stop", None), ("drop", None), ("repeat", 5)):
        config = corpus.config(
            at_end=at_end, steps=steps, leftover=leftover, packing={"slack": 0.4, "method": packing}
        )
        pieces, _, state = read_all(config)
        drawn = sum(source["tokens"] for source in state["sources"].values())
        lost = drawn - sum(len(piece.tokens) for piece in pieces)
        assert state["leftover_dropped"] == lost and state["carried"] == 0
        if steps is None and leftover == "drain":
            assert lost == 0
        if steps == 5 and packing == "best_fit":
            assert lost > 0  # it draws ahead


@pytest.mark.parametrize("packing", ["best_fit", "concat", "pad"])
@pytest.mark.parametrize("steps", [1, 5])
def test_a_declared_number_of_steps(packing: str, steps: int, corpus: Corpus) -> None:
    config = corpus.config(at_end="repeat", steps=steps, packing={"method": packing})
    assert read_all(config)[1] == steps


def test_the_smallest_of_streams(tmp_path: Path) -> None:
    """One document of one token: one step, all other bins empty, on every rank."""
    corpus = Corpus(tmp_path)
    corpus.add_jsonl("a", [np.array([5])])
    for packing in ("best_fit", "concat", "pad"):
        config = corpus.config(at_end="stop", packing={"method": packing})
        pieces, steps, _ = read_all(config, "dp=4")
        assert steps == 1 and [piece.tokens.tolist() for piece in pieces] == [[5]]
        with ol.job(config, mesh="dp=4").train(ranks="all") as loaders:
            batches = next(loaders.rounds())
        assert sum(batch.num_tokens for batch in batches.values()) == 1
        assert all(batch.step_target_tokens == 0 for batch in batches.values())


def test_streams_have_their_own_order(corpus: Corpus) -> None:
    config = corpus.config(at_end="stop", streams={"valid": {"mixture": {"weights": {"a": 1}}}})
    config["mixture"] = {"weights": {"a": 1}}
    job = ol.job(config)
    with job.train() as train, job.valid() as valid:
        orders = [
            [piece.tokens.tobytes() for piece in read_pieces(loader)] for loader in (train, valid)
        ]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])


# The mixture


def plans_of(config: dict[str, Any], steps: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Plans one after another, each with the state after it."""
    planner = ol.job(config).open_stream().native.planner(None, [])
    for _ in range(steps):
        plan = planner.next()
        assert plan is not None
        yield plan, core.describe_state(planner.state())


@pytest.mark.parametrize("unit", ["tokens", "samples"])
@pytest.mark.parametrize("packing", ["best_fit", "concat"])
def test_exact_quotas_never_drift(unit: str, packing: str, corpus: Corpus) -> None:
    """Drawn stays within one document of asked, and asked within a few units of the share."""
    weights = {"a": 0.7, "b": 0.2, "c": 0.1}
    mixture = {"weights": weights, "unit": unit}
    config = corpus.config(at_end="repeat", mixture=mixture, packing={"method": packing})
    names = sorted(weights)
    longest = {name: max(map(len, corpus.whole(name))) for name in names}
    asked = np.zeros(3)
    for plan, state in plans_of(config, 150):
        asked += plan.asked
        drawn = [state["sources"][name][unit] for name in names]
        for index, name in enumerate(names):
            most = longest[name] if unit == "tokens" else 1
            assert -1 <= drawn[index] - asked[index] <= most + 1
            assert abs(asked[index] - weights[name] * asked.sum()) <= 4
    served = np.array(drawn) / sum(drawn)
    assert np.allclose(served, [weights[name] for name in names], atol=0.01)


def test_served_follows_drawn_by_the_carry_over(corpus: Corpus) -> None:
    """Tokens that arrive are the tokens drawn, less what is still carried."""
    config = corpus.config(at_end="repeat", packing={"slack": 0.25})
    served = np.zeros(3, np.int64)
    for plan, state in plans_of(config, 60):
        served += np.array(plan.served)
        drawn = np.array([state["sources"][name]["tokens"] for name in ("a", "b", "c")])
        behind = drawn - served
        assert np.all(behind >= 0) and behind.sum() <= 0.25 * 4 * CONTEXT + 2 * 152
        assert (behind.sum() > 0) == (state["carried"] > 0)


STAGES = [
    {"steps": [0, 3], "weights": {"a": 1, "b": 0, "c": 0}},
    {"steps": [3, 4], "weights": {"a": 0, "b": 0, "c": 1}},
    {"steps": [4, 9], "weights": {"a": 1, "b": 3, "c": 0}},
    {"steps": [9, None], "weights": {"c": 1}},
]


def test_stages_begin_at_the_promised_step(corpus: Corpus) -> None:
    """One document per bin and samples as unit: steps hold exactly what their stage says."""
    config = corpus.config(
        at_end="repeat",
        steps=12,
        bins=8,
        packing={"method": "pad"},
        over_length="truncate",
        mixture={"unit": "samples", "stages": STAGES},
    )
    pieces, _, _ = read_all(config)
    by_step = [[piece.id[0] for piece in pieces if piece.step == step] for step in range(12)]
    counts = np.array([np.bincount(sources, minlength=3) for sources in by_step])
    assert counts.sum(1).tolist() == [8] * 12
    assert counts[:3].tolist() == [[8, 0, 0]] * 3
    assert counts[[3, 9, 10, 11]].tolist() == [[0, 0, 8]] * 4
    asked = np.outer(np.arange(1, 6), [2, 6, 0])  # within a document, at every step
    assert np.all(abs(np.cumsum(counts[4:9], 0) - asked) <= [1, 1, 0])


def test_stages_with_a_packer_that_looks_ahead(corpus: Corpus) -> None:
    """Old documents may come late by no more than the delay cap, new ones never early."""
    mixture = {
        "stages": [
            {"steps": [0, 4], "weights": {"a": 1, "c": 0}},
            {"steps": [4, None], "weights": {"a": 0, "c": 1}},
        ]
    }
    config = corpus.config(
        at_end="repeat", steps=12, mixture=mixture, packing={"slack": 0.4, "max_delay": 2}
    )
    pieces, _, _ = read_all(config)
    assert max(piece.step for piece in pieces if piece.id[0] == 0) <= 4 - 1 + 2
    assert min(piece.step for piece in pieces if piece.id[0] == 1) == 4


def test_multinomial_quotas(corpus: Corpus) -> None:
    """Drawn by the seed: repeatable, different for another seed, right on average."""
    mixture = {"weights": {"a": 3, "b": 1, "c": 1}, "quota": "multinomial", "unit": "samples"}
    config = corpus.config(at_end="repeat", mixture=mixture)
    counts = []
    for seed in (7, 7, 8):
        *_, (_, state) = plans_of({**config, "seed": seed}, 150)
        counts.append([state["sources"][name]["samples"] for name in ("a", "b", "c")])
    assert counts[0] == counts[1] != counts[2]
    total = sum(counts[0])
    for count, share in zip(counts[0], (0.6, 0.2, 0.2), strict=True):
        assert abs(count - share * total) < 5 * np.sqrt(total * share * (1 - share))


def test_a_source_of_weight_zero_gives_nothing(corpus: Corpus) -> None:
    config = corpus.config(at_end="repeat", steps=6, mixture={"weights": {"a": 1, "b": 0, "c": 1}})
    pieces, _, _ = read_all(config)
    assert {piece.id[0] for piece in pieces} == {0, 2}


# Packing


@pytest.mark.parametrize("align", [1, 8, 16])
@pytest.mark.parametrize("size", [1, 2])
def test_best_fit_keeps_documents_whole(align: int, size: int, corpus: Corpus) -> None:
    """Only documents longer than the context are cut; all begin at multiples of `align`."""
    config = corpus.config(
        at_end="drop",
        align=align,
        bins=8,
        delivery={"microbatch_size": size},
        packing={"max_delay": 3},
    )
    pieces = []
    with ol.job(config).train() as loader:
        for batch in loader:
            found = pieces_of(batch)
            assert batch.cu_seqlens_padded is not None and batch.tokens is not None
            assert np.all(batch.cu_seqlens_padded % align == 0)
            room = sum(-(-len(piece.tokens) // align) * align for piece in found)
            assert room <= size * CONTEXT == batch.tokens.size
            pieces += found
    for name, document in documents_of(pieces).items():
        parts = [piece for piece in pieces if piece.id == name]
        assert len(parts) == -(-len(document) // CONTEXT)
    last = max(piece.step for piece in pieces)
    room = sum(-(-len(p.tokens) // align) * align for p in pieces if p.step < last - 3)
    assert room / ((last - 3) * 8 * CONTEXT) > 0.97


@pytest.mark.parametrize("max_delay", [1, 2, 6])
def test_nothing_waits_longer_than_declared(max_delay: int, corpus: Corpus) -> None:
    """The step in which a document arrives, less the step in which it was drawn."""
    config = corpus.config(
        at_end="repeat", steps=40, packing={"slack": 0.4, "max_delay": max_delay}
    )
    drawn_at: dict[tuple[int, int, int], int] = {}
    before = dict.fromkeys(("a", "b", "c"), (0, 0))
    rows = {"a": 150, "b": 90, "c": 40}
    for step, (plan, state) in enumerate(plans_of(config, 40)):
        for number, name in enumerate(before):
            source = state["sources"][name]
            now = (source["pass"], source["position"])
            for number_of_pass in range(before[name][0], now[0] + 1):
                first = before[name][1] if number_of_pass == before[name][0] else 0
                end = now[1] if number_of_pass == now[0] else rows[name]
                for position in range(first, end):
                    drawn_at[number, number_of_pass, position] = step
            before[name] = now
        waits = [step - drawn_at[row[:3]] for rows_of_bin in plan.bins() for row in rows_of_bin]
        assert min(waits) >= 0 and max(waits) <= max_delay + 1  # tails are drawn piece by piece
        assert plan.max_delay <= max_delay


def test_concat_fills_every_place(corpus: Corpus) -> None:
    """Sequences without a gap, cut at their ends; the cut piece's last target is the next token."""
    config = corpus.config(at_end="stop", packing={"method": "concat"})
    pieces: list[Piece] = []
    cuts = 0
    with ol.job(config).train() as loader:
        batches = list(loader)
    for batch in batches:
        found = pieces_of(batch)
        if batch.step < batches[-1].step:
            assert batch.fill == 1.0 and batch.num_tokens == CONTEXT
        assert not any(piece.continues for piece in found[:-1])
        cuts += bool(found) and found[-1].continues
        pieces += found
    assert cuts > 20
    documents_of(pieces)  # checks that every cut is followed by its rest
    for before, after in itertools.pairwise(pieces):
        if before.continues:  # the rest comes next, at the front of the next sequence
            assert after.id == before.id and after.first == before.first + len(before.tokens)


def test_pad_is_one_document_per_sequence(corpus: Corpus) -> None:
    config = corpus.config(
        at_end="drop", packing={"method": "pad"}, delivery={"microbatch_size": 4}
    )
    pieces = []
    with ol.job(config).train() as loader:
        for batch in loader:
            bins = batch.lineage()["bin"].tolist()
            assert len(bins) == len(set(bins))
            pieces += pieces_of(batch)
    assert len(documents_of(pieces)) == 150 + 90 + 40


@pytest.mark.parametrize("packing", ["best_fit", "concat", "pad"])
def test_substeps_are_packed_alone(packing: str, corpus: Corpus) -> None:
    """Four substeps: each is as large as the others, and the same on every mesh."""
    config = corpus.config(
        at_end="repeat", steps=5, bins=16, substeps=4, packing={"method": packing}
    )
    held = []
    for mesh in ("dp=1", "dp=4", "dp=2,cp=2"):
        with ol.job(config, mesh=mesh).train(ranks="all") as loaders:
            substeps: dict[tuple[int, int], set[tuple[int, ...]]] = {}
            for batches in loaders.rounds():
                for batch in batches.values():
                    key = (batch.step, batch.microbatch * 4 // batch.microbatches)
                    substeps.setdefault(key, set()).update(segments_of([batch]))
        held.append(substeps)
    assert len(held[0]) == 20 and held[0] == held[1] == held[2]


# Documents longer than the context


def over_length_pieces(
    folder: Path, policy: str, packing: str
) -> tuple[dict[int, list[Piece]], Any]:
    """Pieces by row of documents around the context's size; the state at the end."""
    corpus = Corpus(folder)
    lengths = [1, CONTEXT - 2, CONTEXT - 1, CONTEXT, CONTEXT + 1, 3 * CONTEXT - 1, 3 * CONTEXT, 500]
    rng = np.random.default_rng(1)
    documents: list[Tokens] = [rng.integers(1, 990, length) for length in lengths]
    corpus.add_jsonl("a", documents, eod=EOD, shuffle="none", over_length=policy)
    config = corpus.config(at_end="stop", packing={"method": packing})
    pieces, _, state = read_all(config)
    rows: dict[int, list[Piece]] = {}
    for piece in sorted(pieces, key=lambda piece: (piece.id, piece.first)):
        check_piece(piece)
        rows.setdefault(piece.id[2], []).append(piece)
    whole = corpus.whole("a")
    for row, parts in rows.items():
        delivered = np.concatenate([piece.tokens for piece in parts])
        assert delivered.tolist() == whole[row][: len(delivered)].tolist()
    return rows, state


@pytest.mark.parametrize("packing", ["best_fit", "pad"])
def test_split(packing: str, tmp_path: Path) -> None:
    rows, state = over_length_pieces(tmp_path, "split", packing)
    assert sorted(rows) == list(range(8))
    counts = [[len(piece.tokens) for piece in rows[row]] for row in range(8)]
    assert counts[:5] == [[2], [63], [64], [64, 1], [64, 2]]
    assert counts[5:] == [[64] * 3, [64, 64, 64, 1], [64] * 7 + [53]]
    for parts in rows.values():
        assert [piece.continues for piece in parts] == [True] * (len(parts) - 1) + [False]
        for before, after in itertools.pairwise(parts):
            assert before.targets[-1] == after.tokens[0] and before.weights[-1] == 1
    assert state["sources"]["a"]["dropped"] == 0


@pytest.mark.parametrize("packing", ["best_fit", "concat", "pad"])
def test_truncate(packing: str, tmp_path: Path) -> None:
    rows, state = over_length_pieces(tmp_path, "truncate", packing)
    lengths = {row: sum(len(piece.tokens) for piece in parts) for row, parts in rows.items()}
    assert lengths == {0: 2, 1: 63, 2: 64, 3: 64, 4: 64, 5: 64, 6: 64, 7: 64}
    for parts in rows.values():
        assert not parts[-1].continues  # nothing follows: no target across what was cut off
    assert state["sources"]["a"]["dropped"] == 5


@pytest.mark.parametrize("packing", ["best_fit", "concat", "pad"])
def test_drop(packing: str, tmp_path: Path) -> None:
    rows, state = over_length_pieces(tmp_path, "drop", packing)
    assert sorted(rows) == [0, 1, 2]
    assert state["sources"]["a"]["dropped"] == 5
