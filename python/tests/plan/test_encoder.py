"""Encoders with owners of their own: traced, mirrored in YAML, carried out to real batches.

The exchange is played through with nothing but what the batches say. Units are mostly tokens here,
which every source has.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from corpora import Corpus, job_config, two_sources
from overlord._src.lowering.strategy import lower_strategy
from overlord._src.native import core
from overlord._src.plan_view import explain
from overlord._src.plan_view.readable import planned_step
from overlord.cli import main
from overlord.strategy import StrategyConfig, to_yaml, trace

import overlord as ol

STEPS = 4
EXAMPLES = Path(__file__).parents[3] / "examples"
Array = npt.NDArray[Any]


def encoding(axis: str, parity: bool = True, group_size: int = 0) -> Callable[[Any, Any], Any]:
    """Text over the groups; tokens encoded at another axis."""

    def two_modules(graph: Any, tree: Any) -> Any:
        text = graph.tokens().distribute(tree.dp).cost(ol.cost.quadratic(1, 512))
        text.balance("lpt_search").order("search").broadcast_at(tree.tp)
        media = graph.module("speech", column="tokens").distribute(axis, group_size=group_size)
        media.cost(ol.cost.quadratic(2, 64)).balance("lpt_search").output(bytes_per_unit=8)
        if parity:
            media.parity()
        return media.plan(), text.plan()

    return two_modules


def one_owner(graph: Any, tree: Any) -> Any:
    """Two costs, one owner."""
    text = graph.tokens().distribute(tree.dp)
    text.cost(ol.cost.quadratic(1, 512), also=[ol.cost.quadratic(9, 0)])
    return text.balance("vector").plan()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two sources of short documents."""
    return two_sources(tmp_path_factory.mktemp("corpus"))


def config_of(corpus: Corpus, **top: Any) -> dict[str, Any]:
    """Sixteen sequences a step, two to a microbatch."""
    return corpus.config(
        bins=16, at_end="repeat", steps=STEPS, align=4, delivery={"microbatch_size": 2}, **top
    )


def test_yaml_and_python_round_trip() -> None:
    example = runpy.run_path(str(EXAMPLES / "image_text.py"))["image_text"]
    for function in (example, encoding("cp", group_size=2), one_owner):
        data = yaml.safe_load(to_yaml(function))["strategy"]
        assert StrategyConfig.model_validate(data) == trace(function)
    traced = trace(encoding("cp", group_size=2)).encoder
    assert traced is not None and traced.module == "speech" and traced.column == "tokens"
    assert traced.parity and traced.bytes_per_unit == 8 and traced.distribute.group_size == 2
    images = trace(example).encoder
    assert images is not None and images.column == "image_patches" and images.module == "encoder"


def test_digests_of_one_module_stay_and_those_of_two_differ() -> None:
    text = runpy.run_path(str(EXAMPLES / "long_short.py"))["long_short"]
    both = runpy.run_path(str(EXAMPLES / "image_text.py"))["image_text"]
    digests = [core.strategy_digest(lower_strategy(trace(one))) for one in (text, both, one_owner)]
    assert digests[0] == "ec48f7d6d0437c332d4995933781776e"
    assert len({*digests}) == 3


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (lambda graph, tree: graph.tokens().parity(), "parity is for an encoder"),
        (lambda graph, tree: graph.tokens().output(4), "bytes_per_unit is for an encoder"),
        (
            lambda graph, tree: (graph.tokens().plan(), graph.images().order().plan()),
            "order is not for the encoder",
        ),
        (
            lambda graph, tree: (graph.images("a"), graph.images("b")),
            "the encoder layer has the column a",
        ),
        (
            lambda graph, tree: (
                graph.tokens().plan(),
                graph.images().plan(),
                graph.module("audio", "audio_frames").plan(),
            ),
            "one encoder layer is planned, got encoder, audio",
        ),
        (
            lambda graph, tree: (
                graph.tokens().plan(),
                graph.images().balance("lpt", level="bin").plan(),
            ),
            "level",
        ),
        (
            lambda graph, tree: (graph.tokens().plan(), graph.images().balance("vector").plan()),
            "method",
        ),
    ],
)
def test_what_an_encoder_does_not_have_is_refused(body: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        trace(body)


def test_jobs_that_cannot_be_are_refused(corpus: Corpus) -> None:
    example = runpy.run_path(str(EXAMPLES / "image_text.py"))["image_text"]
    with pytest.raises(ol.InvalidArgumentError, match="metadata column 'image_patches'"):
        ol.job(config_of(corpus), mesh="dp=4", strategy=example).open_stream()
    with pytest.raises(ol.InvalidArgumentError, match="has no axis 'ep'"):
        ol.job(config_of(corpus), mesh="dp=4", strategy=encoding("ep")).open_stream()
    strategy = trace(one_owner).model_copy(update={"further_costs": []})
    with pytest.raises(ol.InvalidArgumentError, match="further_costs"):
        ol.job(config_of(corpus), mesh="dp=4", strategy=strategy).open_stream()


def rows_of(samples: Array) -> Array:
    """What an encoder makes of its samples: one row per unit that says which one it is."""
    rows = [
        (item["source"], item["pass"], item["position"], item["first"], unit)
        for item in samples
        for unit in range(item["units"])
    ]
    return np.array(rows, np.int64).reshape(-1, 5)


def all_to_all(inputs: dict[int, Array], parts: dict[int, Any]) -> dict[int, Array]:
    """What every rank gets, given split sizes alone, as a trainer's collective does it."""
    outputs = {}
    for rank, part in parts.items():
        pieces = []
        for place, peer in enumerate(part.group.tolist()):
            other = parts[peer]
            mine = other.group.tolist().index(rank)
            begin = int(other.send_units[:mine].sum())
            piece = inputs[peer][begin : begin + int(other.send_units[mine])]
            assert len(piece) == part.receive_units[place]
            pieces.append(piece)
        outputs[rank] = np.concatenate(pieces)
    return outputs


def all_tokens(lineage: Array) -> list[tuple[int, int]]:
    """Every segment, with its tokens: (row of the lineage, units)."""
    return list(enumerate(lineage["count"].tolist()))


def check_microbatch(
    batches: dict[int, Any],
    parity: bool,
    units_of: Callable[[Array], list[tuple[int, int]]] = all_tokens,
) -> int:
    """One microbatch of all ranks; gives how many samples were encoded."""
    parts = {rank: batch.encoder for rank, batch in batches.items() if batch.encoder is not None}
    groups = {tuple(part.group.tolist()) for part in parts.values()}
    assert groups == {tuple(sorted(parts))}  # those who have a part know each other, and no more
    inputs = {rank: rows_of(part.samples)[part.send_rows()] for rank, part in parts.items()}
    outputs = all_to_all(inputs, parts)
    for rank, batch in batches.items():
        part = batch.encoder
        assert (part is not None and part.receives) == (batch.tokens is not None)
        if part is None or not part.receives:
            continue
        embeddings = np.empty_like(outputs[rank])
        embeddings[part.receive_rows()] = outputs[rank]
        lineage = batch.lineage()
        wanted = units_of(lineage)
        assert np.array_equal(embeddings, rows_of_lineage(lineage, wanted))
        assert part.documents.tolist() == [row for row, _ in wanted]
        # Gradients go back: what was sent comes home to its sample.
        back = embeddings[part.receive_rows()]
        assert np.array_equal(back, outputs[rank])
    encoders = {part.encoder: part for part in parts.values() if part.runs}
    busy = {number: len(part.samples) > 0 for number, part in encoders.items()}
    for number, part in encoders.items():
        assert not (part.dummy and busy[number])
        if parity:
            assert (part.dummy or busy[number]) == any(busy.values())
        else:
            assert not part.dummy
    return sum(len(part.samples) for part in encoders.values())


def rows_of_lineage(lineage: Array, wanted: Sequence[tuple[int, int]]) -> Array:
    """The rows that a microbatch's tokens need, in their order."""
    rows = [
        (*lineage[row][["source", "pass", "position", "first"]], unit)
        for row, units in wanted
        for unit in range(units)
    ]
    return np.array(rows, np.int64).reshape(-1, 5)


WORLDS: Sequence[tuple[str, str, bool, int]] = (
    ("dp=4", "world", True, 0),
    ("pp=2,dp=2,tp=2", "world", True, 0),
    ("pp=2,dp=2,cp=2,tp=2", "dp", True, 0),
    ("pp=2,dp=4", "dp", False, 0),
    ("dp=2,cp=2,tp=2", "cp", True, 2),
    ("dp=8", "world", False, 3),
)


@pytest.mark.parametrize(("mesh", "axis", "parity", "group_size"), WORLDS)
def test_every_rank_gets_what_its_microbatch_needs(
    mesh: str, axis: str, parity: bool, group_size: int, corpus: Corpus
) -> None:
    """Through the engine, over all ranks, with an all-to-all in NumPy."""
    job = ol.job(config_of(corpus), mesh=mesh, strategy=encoding(axis, parity, group_size))
    plain = ol.job(config_of(corpus), mesh=mesh).open_stream()
    with job.train(ranks="all") as loaders:
        for step, batches in enumerate(loaders.steps()):
            planned = planned_step(job.open_stream(), step)
            assert planned.plan.content_hash == planned_step(plain, step).plan.content_hash
            assert planned.encoder is not None
            encoded = sum(
                check_microbatch({rank: own[m] for rank, own in batches.items()}, parity)
                for m in range(planned.plan.microbatches)
            )
            assert encoded == len(planned.encoder["columns"]["bin"])
            assert encoded == len(planned.columns["bin"])


def test_runs_and_resumed_runs_have_the_same_parts(corpus: Corpus) -> None:
    """The record is part of the hashed bytes, and resuming finds it again."""
    job = ol.job(config_of(corpus), mesh="dp=2", strategy=encoding("world"))

    def parts(loader: Any) -> list[bytes]:
        return [
            batch.encoder.samples.tobytes() + batch.encoder.send_order.tobytes() for batch in loader
        ]

    with job.train(rank=1, hash=True) as loader:
        states = [json.dumps(loader.state_dict())]
        whole = []
        for batch in loader:
            whole.append(batch.encoder.samples.tobytes() + batch.encoder.send_order.tobytes())
            states.append(json.dumps(loader.state_dict()))
    for stop in (0, 3, 8):
        with job.train(rank=1, hash=True) as loader:
            loader.load_state_dict(json.loads(states[stop]))
            assert parts(loader) == whole[stop:]


def test_the_encoders_report_is_shown_and_counted(corpus: Corpus) -> None:
    job = ol.job(config_of(corpus), mesh="pp=2,dp=2", strategy=encoding("world"))
    steps = [planned_step(job.open_stream(), step) for step in range(STEPS)]
    for step in steps:
        assert step.encoder is not None
        report = step.encoder["report"]
        assert report["consumers"] == 4
        assert report["even_step_ns"] <= report["lower_bound_ns"] <= report["step_ns"]
        assert report["step_ns"] <= report["arrival_step_ns"]
        first = explain.report_lines(step)[0]
        assert first.startswith("speech: ") and "over the lower bound" in first
        assert "speech: " in explain.explain_row(step, 0)[-1]
    with job.train(ranks="all") as loaders:
        for _ in loaders.steps():
            pass
        encoder = loaders[0].status()["planner"]["encoder"]
    reports = [step.encoder["report"] for step in steps if step.encoder]
    assert encoder["predicted_ns"] == sum(report["step_ns"] for report in reports)
    assert encoder["bound_ns"] == sum(report["lower_bound_ns"] for report in reports)
    assert encoder["mean_ns"] <= encoder["bound_ns"] <= encoder["predicted_ns"]


def test_text_jobs_have_no_encoder(corpus: Corpus) -> None:
    job = ol.job(config_of(corpus), mesh="dp=2")
    assert planned_step(job.open_stream(), 0).encoder is None
    with job.train(rank=0) as loader:
        assert next(iter(loader)).encoder is None


def test_one_owner_evens_out_both_costs(corpus: Corpus) -> None:
    opened = ol.job(config_of(corpus), mesh="dp=4", strategy=one_owner).open_stream()
    for step in range(STEPS):
        planned = planned_step(opened, step)
        assert planned.report is not None and planned.encoder is None
        (further,) = planned.further_reports
        assert further["lower_bound_ns"] <= further["consumer_max_ns"]
        assert further["consumer_max_ns"] * 4 / further["total_ns"] < 1.2
        assert any(line.startswith("further cost 0: ") for line in explain.report_lines(planned))


def test_plan_shows_the_encoder(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = trace(encoding("world")).model_dump(exclude_defaults=True)
    path = tmp_path / "mix.json"
    path.write_text(json.dumps({**config_of(corpus), "strategy": declared}))
    assert main(["plan", str(path), "--mesh", "dp=4"]) == 0
    assert "bytes exchanged" in capsys.readouterr().out
    assert main(["plan", str(path), "--mesh", "dp=4", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["encoder"]
    assert data["ranks"] == [0, 1, 2, 3] and data["report"]["consumers"] == 4
    assert {sample["encoder"] for sample in data["samples"]} == {0, 1, 2, 3}


def test_the_papers_case_runs_over_images_of_a_parquet(tmp_path: Path) -> None:
    """examples/image_text.py: documents with and without images, by an integer column."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(4, 60, 400)
    documents = [rng.integers(1, 200, length).astype(np.int32) for length in lengths]
    patches = np.where(rng.random(400) < 0.4, rng.integers(1, 300, 400), 0)
    table = pa.table({"tokens": documents, "image_patches": patches})
    pq.write_table(table, tmp_path / "pictures.parquet", row_group_size=64)
    source = {"files": "pictures.parquet", "format": "parquet", "tokens": "tokens"}
    source["metadata"] = ["image_patches"]  # type: ignore[assignment]
    config = job_config(
        tmp_path, {"pictures": source}, bins=16, align=4, at_end="repeat", steps=STEPS
    )
    example = runpy.run_path(str(EXAMPLES / "image_text.py"))["image_text"]
    by_content = {
        document.tobytes(): int(units) for document, units in zip(documents, patches, strict=True)
    }
    for mesh in ("dp=4", "pp=2,dp=2,tp=2"):
        job = ol.job(config, mesh=mesh, strategy=example)
        with job.train(ranks="all") as loaders:
            for batches in loaders.steps():
                for m in range(len(batches[0])):
                    own = {rank: ranks[m] for rank, ranks in batches.items()}
                    units = {
                        key: value
                        for batch in own.values()
                        if batch.tokens is not None
                        for key, value in units_by_sample(batch, by_content).items()
                    }

                    def has_images(lineage: Array, units: Any = units) -> list[tuple[int, int]]:
                        rows = enumerate(lineage[["source", "pass", "position"]].tolist())
                        return [(row, units[key]) for row, key in rows if units[key] > 0]

                    check_microbatch(own, False, has_images)


def units_by_sample(batch: Any, by_content: dict[bytes, int]) -> dict[tuple[int, int, int], int]:
    """What each document of a batch has in the column, found again by its tokens."""
    tokens = batch.tokens.reshape(-1)
    starts, real = batch.cu_seqlens_padded.tolist(), np.diff(batch.cu_seqlens).tolist()
    pieces = [tokens[begin : begin + n] for begin, n in zip(starts, real, strict=False) if n]
    keys = batch.lineage()[["source", "pass", "position"]].tolist()
    return {key: by_content[piece.tobytes()] for key, piece in zip(keys, pieces, strict=True)}
