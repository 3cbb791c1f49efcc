"""Hybrid data parallelism through the engine: what ranks receive, and what they may rely on."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from corpora import EOD, Corpus, json_lines, made_up_documents
from delivered import content, pieces_of
from overlord._src.lowering.strategy import strategy_digest
from overlord._src.plan_view import explain
from overlord._src.plan_view.readable import planned_step
from overlord.strategy import StrategyConfig, to_yaml, trace

import overlord as ol
from overlord import hdp

STEPS = 5
CONTEXT = 256
MODEL = hdp.Model(
    square_fs=90_000,
    token_fs=2_000_000_000,
    capacity=40,
    layers=4,
    activation_token_bytes=1000,
    to_host_per_s=10**9,
    from_host_per_s=10**9,
    ring_token_bytes=100,
    ring_per_s=10**9,
)


def hybrid(graph: Any, tree: Any) -> Any:
    """Every document on as many of the dp x cp ranks as it needs."""
    return graph.tokens().distribute(tree.cp).hybrid(MODEL).plan()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Short documents, and long ones of which a part of the tokens carries loss."""
    corpus = Corpus(tmp_path_factory.mktemp("corpus"))
    corpus.add_jsonl("web", made_up_documents(300, seed=1), eod=EOD)
    rng = np.random.default_rng(5)
    long = [rng.integers(1, 900, rng.integers(60, 400)) for _ in range(60)]
    rows = [{"tokens": d.tolist(), "mask": (rng.random(len(d)) < 0.5).tolist()} for d in long]
    (corpus.folder / "books.jsonl").write_bytes(json_lines(rows))
    corpus.sources["books"] = {"files": "books.jsonl", "tokens": "tokens", "mask": "mask"}
    corpus.documents["books"] = long
    return corpus


def config_of(corpus: Corpus, **top: Any) -> dict[str, Any]:
    return corpus.config(
        **{"context": CONTEXT, "bins": 6, "at_end": "repeat", "steps": STEPS, "align": 4, **top}
    )


def token_rows(batches: Any) -> Counter[tuple[int, ...]]:
    """Every token of microbatches: which it is, its position, what follows, with which weight."""
    rows: Counter[tuple[int, ...]] = Counter()
    for batch in batches:
        for piece in pieces_of(batch):
            for i in range(len(piece.tokens)):
                values = (piece.tokens[i], piece.positions[i], piece.targets[i], piece.weights[i])
                rows[(*piece.id, piece.first + i, *(int(value) for value in values))] += 1
    return rows


def test_yaml_and_python_round_trip() -> None:
    traced = trace(hybrid)
    data = yaml.safe_load(to_yaml(hybrid))["strategy"]
    assert StrategyConfig.model_validate(data) == traced
    assert data["hybrid"]["model"] == MODEL.to_dict() and data["distribute"] == {"axis": "cp"}
    named = {"distribute": {"axis": "cp"}, "hybrid": {"model": "llama12b", "capacity": 8192}}
    declared = StrategyConfig.model_validate(named)
    other = StrategyConfig.model_validate(
        {**named, "hybrid": {"model": hdp.model("llama12b", 8192).to_dict()}}
    )
    assert strategy_digest(declared) == strategy_digest(other) != strategy_digest(traced)


def test_digests_of_other_strategies_did_not_change() -> None:
    """A job that was started before slices could be dealt must be able to go on."""
    plain = {"cost": ol.cost.quadratic(1, 512).to_dict(), "balance": {"method": "lpt"}}
    assert strategy_digest(StrategyConfig.model_validate(plain)) == "f3018c45554e"


MESHES = ("dp=2,cp=4", "pp=2,dp=2,cp=4,tp=2", "dp=8", "cp=12")


@pytest.mark.parametrize("mesh", MESHES)
def test_slices_of_all_ranks_are_the_step(mesh: str, corpus: Corpus) -> None:
    """Tokens, positions, targets and weights are those of a job without slices, each once."""
    stages = {"delivery": {"all_stages": True}}
    job = ol.job(config_of(corpus, **stages), mesh=mesh, strategy=hybrid)
    plain = ol.job(config_of(corpus, **stages), mesh="dp=2")
    cut = counts = 0
    with (
        job.train(ranks="all", hash=True) as loaders,
        plain.train(ranks="all", hash=True) as whole,
    ):
        for own, other in zip(loaders.steps(), whole.steps(), strict=True):
            first = {}  # one rank of every consumer
            for rank, batches in own.items():
                share = batches[0].hdp
                assert share is not None and share.ranks[share.member] == rank
                first.setdefault(share.consumers[share.member], batches)
            expected = token_rows(batch for batches in other.values() for batch in batches)
            assert token_rows(b for batches in first.values() for b in batches) == expected
            assert max(expected.values()) == 1
            cut += sum(len(b.hdp.ranks) > 1 for batches in first.values() for b in batches)
            counts += len({len(batches) for batches in first.values()}) > 1
            targets = sum(b.target_tokens for batches in first.values() for b in batches)
            assert targets == next(iter(first.values()))[0].step_target_tokens
        assert loaders.content_hash() == whole.content_hash()
    assert cut > STEPS and counts > 0


def test_members_agree_on_their_groups(corpus: Corpus) -> None:
    """Who, what, in which order: the same from every member; slices as the table says."""
    mesh = ol.mesh(pp=2, dp=2, cp=4, tp=2)
    job = ol.job(config_of(corpus), mesh=mesh, strategy=hybrid)
    with job.train(ranks="all") as loaders:
        for batches in loaders.steps():
            shares = {rank: [batch.hdp for batch in own] for rank, own in batches.items()}
            for rank, own in shares.items():
                assert [share.group for share in own] == sorted({share.group for share in own})
                rounds = [(share.substep, share.round) for share in own]
                assert rounds == sorted(set(rounds))
                for share, batch in zip(own, batches[rank], strict=True):
                    check_share(mesh, rank, share, batch)
                    for peer in share.ranks:
                        (same,) = [other for other in shares[peer] if other.group == share.group]
                        assert same.ranks == share.ranks and same.lengths == share.lengths
                        assert same.sequences == share.sequences and same.tokens == share.tokens
                        assert same.offload_permille == share.offload_permille


def check_share(mesh: Any, rank: int, share: Any, batch: Any) -> None:
    """Peers differ in dp and cp only; the table is that of the lineage and of `chunks_of`."""
    for peer in share.ranks:
        for axis in ("pp", "tp"):
            assert mesh.coordinate(peer, axis) == mesh.coordinate(rank, axis)
    lineage = batch.lineage()
    assert share.chunks["count"].tolist() == lineage["count"].tolist()
    assert share.step_targets == batch.step_target_tokens
    held = [
        (sequence, chunk.first, chunk.count)
        for sequence in share.sequences
        for chunk in share.chunks_of(sequence, share.member)
    ]
    table = share.chunks
    assert held == list(
        zip(*(table[key].tolist() for key in ("sequence", "first", "count")), strict=True)
    )
    assert share.tokens == sum(share.lengths)


def test_contents_are_the_same_on_every_mesh(corpus: Corpus) -> None:
    plain = ol.job(config_of(corpus)).open_stream()
    expected = [planned_step(plain, step).plan.content_hash for step in range(STEPS)]
    for mesh in MESHES:
        opened = ol.job(config_of(corpus), mesh=mesh, strategy=hybrid).open_stream()
        plans = [planned_step(opened, step).plan for step in range(STEPS)]
        assert [plan.content_hash for plan in plans] == expected


def test_substeps_are_not_crossed(corpus: Corpus) -> None:
    """Every rank has work, or an empty microbatch, in every substep."""
    config = config_of(corpus, substeps=3)
    plain = ol.job(config).open_stream()
    job = ol.job(config, mesh="dp=2,cp=4", strategy=hybrid)
    with job.train(ranks="all") as loaders:
        for step, batches in enumerate(loaders.steps()):
            columns = planned_step(plain, step).columns
            names = ("source", "pass", "position")
            ids = list(zip(*(columns[name].tolist() for name in names), strict=True))
            parts = dict(zip(ids, (columns["bin"] // 2).tolist(), strict=True))
            whole = Counter(ids)
            for own in batches.values():
                assert {batch.hdp.substep for batch in own} == {0, 1, 2}
                for batch in own:
                    for row in batch.lineage():
                        name = (int(row["source"]), int(row["pass"]), int(row["position"]))
                        assert whole[name] > 1 or parts[name] == batch.hdp.substep


def test_resume_at_every_step_boundary_is_exact(corpus: Corpus) -> None:
    job = ol.job(config_of(corpus), mesh="dp=2,cp=4", strategy=hybrid)
    states, steps = [], []
    with job.train(ranks="all", hash=True) as loaders:
        states.append(loaders.state_dict())
        for batches in loaders.steps():
            steps.append({r: [content(b) for b in own] for r, own in batches.items()})
            saved = {json.dumps(loader.state_dict()) for loader in loaders.values()}
            assert len(saved) == 1
            states.append(loaders.state_dict())
    assert {len(own) for step in steps for own in step.values()} != {1}
    for stop, state in enumerate(states):
        with job.train(ranks="all", hash=True) as loaders:
            loaders.load_state_dict(json.loads(json.dumps(state)))
            rest = [
                {r: [content(b) for b in own] for r, own in batches.items()}
                for batches in loaders.steps()
            ]
            assert rest == steps[stop:]


def test_inside_a_step_a_state_is_of_its_rank(corpus: Corpus) -> None:
    """Counts differ between ranks, so a count means something on one of them only."""
    job = ol.job(config_of(corpus), mesh="dp=2,cp=4", strategy=hybrid)
    rank = 3
    states, digests = [], []
    with job.train(rank=rank) as loader:
        for batch in loader:
            digests.append(content(batch))
            states.append(loader.state_dict())
    inside = next(i for i, state in enumerate(states) if state["microbatch"] > 0)
    with job.train(rank=rank) as loader:
        loader.load_state_dict(states[inside])
        assert [content(batch) for batch in loader] == digests[inside + 1 :]
    with job.train(rank=2) as loader, pytest.raises(ol.StateMismatchError, match="another rank"):
        loader.load_state_dict(states[inside])
    with (
        job.train(ranks="all") as loaders,
        pytest.raises(ol.StateMismatchError, match="consumer 0 and"),
    ):
        loaders.load_state_dict(states[inside])
    with job.train(ranks="all") as loaders:
        ends = ({b.last_in_step for b in round.values()} for round in loaders.rounds())
        assert next(both for both in ends if len(both) == 2)  # some are done with the step
        with pytest.raises(ol.InvalidArgumentError, match="finish the step"):
            loaders.state_dict()
    plain = ol.job(config_of(corpus), mesh="dp=2,cp=4", strategy=None)
    with plain.train(rank=rank) as loader, pytest.raises(ol.StateMismatchError):
        loader.load_state_dict(states[inside])


def test_a_rank_without_work_gets_an_empty_microbatch(corpus: Corpus) -> None:
    """Every rank ends every step, also where there are more ranks than sequences."""
    config = config_of(corpus, bins=1, packing={"method": "pad"})
    job = ol.job(config, mesh="dp=16", strategy=hybrid)
    idle = 0
    with job.train(ranks="all") as loaders:
        for batches in loaders.steps():
            assert all(own[-1].last_in_step for own in batches.values())
            for rank, own in batches.items():
                empty = [batch for batch in own if not batch.hdp.sequences]
                idle += len(empty)
                for batch in empty:
                    assert len(own) == 1 and batch.hdp.ranks == (rank,) and batch.num_tokens == 0
                    assert batch.tokens.shape == (1, 4) and not batch.loss_weights.any()
    assert idle > 0


REFUSALS: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"distribute": {"axis": "dp"}}, {}, ["strategy.distribute.axis", "cp"]),
    ({"cost": "llama-12b"}, {}, ["strategy.cost", "hybrid"]),
    ({"balance": {}}, {}, ["strategy.balance", "balances itself"]),
    ({"order": {}}, {}, ["strategy.order", "one order"]),
    ({"broadcast": ["cp"]}, {}, ["broadcast", "cp"]),
    ({}, {"delivery": {"cp_slicing": "trainer"}}, ["delivery.cp_slicing", "batch.hdp"]),
    ({}, {"delivery": {"microbatch_size": 2}}, ["microbatch_size", "allowed: 1"]),
    ({}, {"context": 2**16}, ["does not fit all 4 ranks", "at most"]),
    ({"hybrid": {"model": "gpt"}}, {}, ["no such model", "gpt"]),
    ({"hybrid": {"model": {"capacity": 8, "speed": 3}}}, {}, ["speed", "square_fs"]),
    ({"hybrid": {"model": {"square_fs": 8}}}, {}, ["token_fs", "missing"]),
    ({"hybrid": {"model": MODEL.to_dict(), "capacity": 8}}, {}, ["four times align"]),
]


@pytest.mark.parametrize(("strategy", "top", "named"), REFUSALS)
def test_what_does_not_go_together_is_refused(
    strategy: dict[str, Any], top: dict[str, Any], named: list[str], corpus: Corpus
) -> None:
    declared = {
        "distribute": {"axis": "cp"},
        "hybrid": {"model": MODEL.to_dict(), "offload": False},
        **strategy,
    }
    with pytest.raises((ol.ConfigError, ol.InvalidArgumentError, ValueError)) as refused:
        ol.job(config_of(corpus, strategy=declared, **top), mesh="dp=2,cp=2").open_stream()
    for text in named:
        assert text in str(refused.value)


def test_a_limit_that_is_too_small_ends_all_ranks_with_a_reason(corpus: Corpus) -> None:
    strategy = StrategyConfig.model_validate(
        {
            "distribute": {"axis": "cp"},
            "hybrid": {"model": MODEL.to_dict(), "max_microbatches": 1},
        }
    )
    job = ol.job(config_of(corpus, bins=12), mesh="dp=2,cp=4", strategy=strategy)
    with job.train(rank=1) as loader, pytest.raises(ol.InvalidArgumentError, match="microbatches"):
        next(loader)


def test_plans_tell_their_groups(corpus: Corpus, tmp_path: Path) -> None:
    """Bound, gap, what limits, groups: in the report, the status and the command line."""
    from overlord.cli import main

    job = ol.job(config_of(corpus), mesh="dp=2,cp=4", strategy=hybrid)
    reports = []
    for step in range(STEPS):
        planned = planned_step(job.open_stream(), step)
        report = planned.report
        assert report is not None
        assert report["lower_bound_ns"] <= report["step_ns"] <= report["arrival_step_ns"]
        lines = "\n".join(explain.report_lines(planned))
        assert "groups over 8 ranks" in lines and "documents are cut" in lines
        reports.append(report)
        explain.draw_svg(planned), explain.to_arrow(planned)
    with job.train(ranks="all") as loaders:
        for _ in loaders.steps():
            pass
        planner = loaders.status()["planner"]
    assert planner["predicted_ns"] == sum(report["step_ns"] for report in reports)
    assert planner["bound_ns"] == sum(report["lower_bound_ns"] for report in reports)
    path = tmp_path / "job.yaml"
    data = {**config_of(corpus), "strategy": yaml.safe_load(to_yaml(hybrid))["strategy"]}
    path.write_text(yaml.safe_dump(data))
    assert main(["plan", str(path), "--mesh", "dp=2,cp=4", "--step", "1"]) == 0
    figures = []
    for name, words in (("own", ["--mesh", "dp=2,cp=4"]), ("plain", ["strategy=null"])):
        out = tmp_path / f"{name}.json"
        assert main(["run", str(path), "--no-live", "--json", str(out), *words]) == 0
        figures.append(json.loads(out.read_text()))
    for key in ("steps", "tokens", "target_tokens", "content_hash", "mixture"):
        assert figures[0][key] == figures[1][key], key


def test_losses_of_delivered_batches_add_up(corpus: Corpus) -> None:
    """A small model: summed over ranks and divided once, the loss and gradients of one rank."""
    torch = pytest.importorskip("torch")
    from test_hdp import Decoder

    config = config_of(corpus, steps=2)

    def share(table: Any, torch: Any) -> Any:
        tokens, places, targets = (torch.tensor(column, dtype=torch.long) for column in table)
        return tokens % 19, places, torch.where(targets >= 0, targets % 19, targets)

    def members(batch: Any) -> dict[tuple[int, ...], list[Any]]:
        """By sequence: tokens, positions, targets (-1: no loss) that this microbatch holds."""
        out: dict[tuple[int, ...], list[Any]] = {}
        for at, piece in enumerate(pieces_of(batch)):
            first = piece.first - int(piece.positions[0])
            key = (*piece.id, first) if batch.hdp is None else int(batch.hdp.chunks["sequence"][at])
            targets = np.where(piece.weights > 0, piece.targets, -1)
            parts = (piece.tokens, piece.positions, targets)
            out.setdefault(key, []).append(parts)
        return {
            key: [np.concatenate(column) for column in zip(*parts, strict=True)]
            for key, parts in out.items()
        }

    alone = Decoder(torch, 7)
    expected = []
    with ol.job(config).train(rank=0) as loader:
        for batches in loader.steps():
            losses = [
                loss
                for batch in batches
                for table in members(batch).values()
                for loss in alone.losses([share(table, torch)])
            ]
            expected.append(sum(losses) / batches[0].step_target_tokens)
    sum(expected).backward()

    model = Decoder(torch, 7)
    found = []
    with ol.job(config, mesh="dp=2,cp=4", strategy=hybrid).train(ranks="all") as loaders:
        for batches in loaders.steps():
            groups: dict[int, list[Any]] = {}
            for own in batches.values():
                for batch in own:
                    groups.setdefault(batch.hdp.group, []).append(batch)
            total = torch.zeros((), dtype=torch.float64)
            for _, together in sorted(groups.items()):
                together.sort(key=lambda batch: batch.hdp.member)
                tables = [members(batch) for batch in together]
                for sequence in together[0].hdp.sequences:
                    held = [share(t[sequence], torch) for t in tables if sequence in t]
                    total = total + sum(model.losses(held)) / together[0].hdp.step_targets
            found.append(total)
    sum(found).backward()
    wanted = [x.item() for x in expected]
    assert [x.item() for x in found] == pytest.approx(wanted, rel=1e-12)
    for ours, theirs in zip(model.parameters, alone.parameters, strict=True):
        assert torch.allclose(ours.grad, theirs.grad, rtol=1e-9, atol=1e-12)


def test_the_long_tail_of_the_examples(tmp_path: Path) -> None:
    """examples/long_tail.py: every document has its own number of ranks."""
    example = Path(__file__).parents[3] / "examples" / "long_tail.py"
    config = runpy.run_path(str(example))["make"](tmp_path, 400)
    plan = ol.job(str(config), mesh="dp=4,cp=8").plan()
    groups = plan.hdp()
    assert len(np.unique(np.diff(groups["rank_ends"], prepend=0))) > 2
    assert plan.report()["step_ns"] < 0.8 * plan.report()["arrival_step_ns"]
