"""Strategies: traced from Python, mirrored in YAML, carried out by the planner to real batches."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from corpora import Corpus, two_sources
from delivered import content, segments_of
from overlord._src.plan_view import explain
from overlord._src.plan_view.readable import planned_step
from overlord.strategy import StrategyConfig, to_yaml, trace

import overlord as ol

STEPS = 6
EXAMPLES = Path(__file__).parents[3] / "examples"
QUADRATIC = ol.cost.quadratic(1, 512)


def long_short(graph: Any, tree: Any) -> Any:
    """Balanced over the data-parallel groups, ordered for the pipeline."""
    text = graph.tokens()
    text.distribute(tree.dp)
    text.cost(QUADRATIC)
    text.balance("lpt_search", level="interleaved")
    text.order("search")
    text.broadcast_at(tree.tp)
    return text.plan()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two sources of short documents."""
    return two_sources(tmp_path_factory.mktemp("corpus"))


def config_of(corpus: Corpus, **top: Any) -> dict[str, Any]:
    """Sixteen sequences a step."""
    return corpus.config(bins=16, at_end="repeat", steps=STEPS, align=4, **top)


def test_the_examples_are_the_papers_two_cases() -> None:
    """Seven lines for text; five more for images."""
    text = trace(runpy.run_path(str(EXAMPLES / "long_short.py"))["long_short"])
    both = trace(runpy.run_path(str(EXAMPLES / "image_text.py"))["image_text"])
    assert text.balance is not None and text.balance.method == "lpt_search"
    assert text.encoder is None and text.broadcast == ["tp"]
    assert both.encoder is not None and both.encoder.distribute.axis == "world"
    assert both.model_copy(update={"name": text.name, "encoder": None}) == text
    assert lines_of("long_short") == 7
    assert lines_of("image_text") == 7 + 5 - 1  # both end with one line that gives the plans


def lines_of(example: str) -> int:
    """Lines in the body of an example's function."""
    tree = ast.parse((EXAMPLES / f"{example}.py").read_text())
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno


def test_yaml_and_python_round_trip() -> None:
    traced = trace(long_short)
    data = yaml.safe_load(to_yaml(long_short))["strategy"]
    assert StrategyConfig.model_validate(data) == traced
    assert ol.cost.from_dict(data["cost"]) == QUADRATIC


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (lambda graph, tree: list(graph.tokens()), "a loop over samples"),
        (lambda graph, tree: len(graph.tokens()), "the number of samples"),
        (lambda graph, tree: graph.tokens() and 1, "a condition on the graph"),
        (lambda graph, tree: graph.tokens()[3], "single samples"),
    ],
)
def test_what_looks_at_samples_is_refused(body: Any, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        trace(body)


def test_incomplete_and_repeated_declarations_are_refused() -> None:
    with pytest.raises(ValueError, match="no plan\\(\\)"):
        trace(lambda graph, tree: graph.tokens().distribute("dp"))
    with pytest.raises(ValueError, match="declared twice"):
        trace(lambda graph, tree: graph.tokens().distribute("dp").distribute("cp").plan())
    with pytest.raises(ValueError, match="declares nothing"):
        trace(lambda graph, tree: None)
    with pytest.raises(ValueError, match="method"):
        trace(lambda graph, tree: graph.tokens().balance("best").plan())


MESHES = ("dp=1", "dp=2", "dp=4,tp=2", "pp=2,dp=2,cp=2", "pp=4,dp=2")


def test_contents_are_those_of_arrival_order_on_every_mesh(corpus: Corpus) -> None:
    """Law 2: a strategy moves sequences, it never changes what a step holds."""
    plain = ol.job(config_of(corpus)).open_stream()
    expected = [planned_step(plain, step).plan.content_hash for step in range(STEPS)]
    moved = 0
    for mesh in MESHES:
        opened = ol.job(config_of(corpus), mesh=mesh, strategy=long_short).open_stream()
        arrival = ol.job(config_of(corpus), mesh=mesh).open_stream()
        for step in range(STEPS):
            plan = planned_step(opened, step).plan
            assert plan.content_hash == expected[step]
            moved += plan.placement() != planned_step(arrival, step).plan.placement()
    assert moved > STEPS  # the balancer did something


def test_batches_hold_what_the_plan_says(corpus: Corpus) -> None:
    """Through the engine: the union of all ranks' batches is the step, exactly once."""
    job = ol.job(config_of(corpus), mesh="dp=4", strategy=long_short)
    with job.train(ranks="all") as loaders:
        for step, batches in enumerate(loaders.steps()):
            delivered = sorted(segments_of(batch for rank in batches.values() for batch in rank))
            columns = planned_step(job.open_stream(), step).columns
            names = ("source", "pass", "position", "first", "count")
            planned = sorted(zip(*(columns[name].tolist() for name in names), strict=True))
            assert [row[:5] for row in delivered] == planned
            for rank, own in batches.items():
                for batch in own:
                    here = (columns["bucket"] == rank) & (columns["microbatch"] == batch.microbatch)
                    assert sorted(batch.lineage()["position"]) == sorted(columns["position"][here])


def test_the_papers_text_case_runs(corpus: Corpus) -> None:
    """examples/long_short.py through the engine; tensor-parallel peers are left to a broadcast."""
    example = runpy.run_path(str(EXAMPLES / "long_short.py"))["long_short"]
    job = ol.job(config_of(corpus), mesh="pp=2,dp=2,tp=2", strategy=example)
    with job.train(ranks="all") as loaders:
        for step, batches in enumerate(loaders.steps()):
            fetching = [rank for rank in (0, 2) for _ in batches[rank]]
            assert fetching and all(batch.tokens is None for batch in batches.get(1, ()))
            delivered = sorted(segments_of(batch for rank in (0, 2) for batch in batches[rank]))
            columns = planned_step(job.open_stream(), step).columns
            names = ("source", "pass", "position", "first", "count")
            planned = sorted(zip(*(columns[name].tolist() for name in names), strict=True))
            assert [row[:5] for row in delivered] == planned


def test_ranks_get_evener_work(corpus: Corpus) -> None:
    opened = ol.job(config_of(corpus), mesh="pp=2,dp=4", strategy=long_short).open_stream()
    for step in range(STEPS):
        report = planned_step(opened, step).report
        assert report is not None
        assert report["lower_bound_ns"] <= report["consumer_max_ns"]
        assert report["step_ns"] <= report["arrival_step_ns"]
        assert 0 < report["even_step_ns"] < 1.5 * report["step_ns"]


def check_resume(job: Any, rank: int, stride: int) -> None:
    """From every `stride`-th microbatch on, in another engine: the same batches."""
    states, digests = [], []
    with job.train(rank=rank) as loader:
        states.append(loader.state_dict())
        for batch in loader:
            digests.append(content(batch))
            states.append(loader.state_dict())
    assert len({json.dumps(state) for state in states}) == len(states)
    for stop in range(0, len(states), stride):
        with job.train(rank=rank) as loader:
            loader.load_state_dict(json.loads(json.dumps(states[stop])))
            assert [content(batch) for batch in loader] == digests[stop:]


def test_resume_inside_and_between_steps_is_no_stop(corpus: Corpus) -> None:
    check_resume(ol.job(config_of(corpus), mesh="dp=2", strategy=long_short), 1, 3)


def test_another_strategy_may_go_on_at_a_step_boundary_only(corpus: Corpus) -> None:
    job = ol.job(config_of(corpus), mesh="dp=2", strategy=long_short)
    plain = ol.job(config_of(corpus), mesh="dp=2")
    with job.train(rank=0) as loader:
        next(loader)
        inside = loader.state_dict()
        for batch in loader:
            if batch.last_in_step:
                break
        boundary = loader.state_dict()
    with plain.train(rank=0) as loader:
        loader.load_state_dict(boundary)
        assert next(loader).step == 1
    with plain.train(rank=0) as loader, pytest.raises(ol.StateMismatchError, match="strategy="):
        loader.load_state_dict(inside)


REFUSALS: list[tuple[dict[str, Any], list[str]]] = [
    ({"balance": {}}, ["strategy.balance", "needs a cost"]),
    ({"distribute": {"axis": "qp"}}, ["qp", "world, dp, cp"]),
    ({"distribute": {"axis": "cp"}}, ["data axes", "allowed: dp"]),
    ({"cost": "llama-13b"}, ["llama-13b"]),
    ({"cost": {"kind": "quadratic", "a": 1, "b": -1}}, ["b"]),
]


@pytest.mark.parametrize(("strategy", "named"), REFUSALS)
def test_strategies_that_cannot_run_are_refused(
    strategy: dict[str, Any], named: list[str], corpus: Corpus
) -> None:
    with pytest.raises((ol.ConfigError, ol.InvalidArgumentError, ValueError)) as refused:
        ol.job(config_of(corpus, strategy=strategy), mesh="dp=2,cp=2").open_stream()
    for text in named:
        assert text in str(refused.value)


def test_every_sample_can_be_explained(corpus: Corpus) -> None:
    opened = ol.job(config_of(corpus), mesh="pp=2,dp=2", strategy=long_short).open_stream()
    step = planned_step(opened, 1)
    columns = step.columns
    for row in range(0, len(columns["bin"]), 5):
        name = step.sources[columns["source"][row]]
        text = f"{name}[{columns['pass'][row]}:{columns['position'][row]}]"
        assert row in explain.find_sample(step, text)
        lines = explain.explain_row(step, row)
        last = f"consumer {columns['bucket'][row]}, microbatch {columns['microbatch'][row]}"
        assert lines[-1].endswith(last) and "packed into sequence" in lines[1]
    assert explain.report_lines(step)[-1].startswith("advice: ")
    drawn = ElementTree.fromstring(explain.draw_svg(step))
    told = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    grid = explain.cost_grid(step)
    assert len(told) == grid.size
    assert told[0] == f"group 0, microbatch 0: {grid[0, 0] / 1e6:,.2f} ms"
    assert len(explain.draw_lines(step)) == 2
    assert np.isclose(explain.cost_grid(step).sum(), step.graph["sample_costs"].sum())


def test_plans_are_compared_and_exported(corpus: Corpus, tmp_path: Path) -> None:
    opened = ol.job(config_of(corpus), mesh="dp=4", strategy=long_short).open_stream()
    arrival = ol.job(config_of(corpus), mesh="dp=4").open_stream()
    lines = explain.diff_lines(planned_step(arrival, 0), planned_step(opened, 0))
    assert "0 only in the first, 0 only in the second" in lines[0]
    assert lines[1] == "same contents" and lines[2].startswith("moved: ")
    other = explain.diff_lines(planned_step(opened, 0), planned_step(opened, 1))
    assert other[1] == "contents differ" and other[2].startswith("only in the first: ")
    table = explain.to_arrow(planned_step(opened, 0))
    assert table.num_rows == len(planned_step(opened, 0).columns["bin"])
    assert {"source", "bucket", "microbatch", "cost_ns"} <= {*table.column_names}


WINDOW = {"steps": 4, "max_delay": 2, "width": 16, "cost": ol.cost.quadratic(1, 0).to_dict()}


def test_a_window_moves_sequences_between_its_steps_and_loses_none(corpus: Corpus) -> None:
    """Over whole windows the same documents; within the cap; on every mesh the same."""
    whole = {"steps": 8}
    plain = ol.job({**config_of(corpus), **whole}).open_stream()
    windowed = {**config_of(corpus), **whole, "window": WINDOW}
    first = ol.job(windowed).open_stream()
    other = ol.job(windowed, mesh="dp=4,tp=2", strategy=long_short).open_stream()
    names = ("source", "pass", "position", "first")
    moved = 0
    for window in (0, 4):
        seen: dict[Any, int] = {}
        for step in range(window, window + 4):
            columns = planned_step(plain, step).columns
            seen.update(
                (row, step) for row in zip(*(columns[name].tolist() for name in names), strict=True)
            )
        for step in range(window, window + 4):
            planned = planned_step(first, step)
            assert planned.plan.content_hash == planned_step(other, step).plan.content_hash
            for row in zip(*(planned.columns[name].tolist() for name in names), strict=True):
                home = seen.pop(row)
                assert abs(home - step) <= 2
                moved += home != step
        assert not seen
    assert moved > 0


def test_resume_inside_a_window_is_no_stop(corpus: Corpus) -> None:
    config = {**config_of(corpus), "window": WINDOW}
    check_resume(ol.job(config, mesh="dp=2", strategy=long_short), 0, 1)


def test_a_window_needs_a_cost(corpus: Corpus) -> None:
    with pytest.raises(ol.ConfigError, match=r"window\.cost"):
        ol.job({**config_of(corpus), "window": {"steps": 4}}).open_stream()


def test_the_engine_counts_what_plans_predict(corpus: Corpus) -> None:
    """What `status()` and the live view show is the sum of the plans' own reports."""
    job = ol.job(config_of(corpus), mesh="dp=4", strategy=long_short)
    with job.train(ranks="all") as loaders:
        for _ in loaders.steps():
            pass
        planner = loaders[0].status()["planner"]
    reports = [planned_step(job.open_stream(), step).report for step in range(STEPS)]
    assert planner["predicted_ns"] == sum(report["step_ns"] for report in reports if report)
    assert planner["bound_ns"] == sum(report["lower_bound_ns"] for report in reports if report)
    assert planner["arrival_ns"] >= planner["predicted_ns"] > 0


def by_sample(graph: Any, tree: Any) -> Any:
    """Samples one by one, microbatches of their own length."""
    text = graph.tokens().distribute(tree.dp).cost(QUADRATIC)
    text.balance("lpt_search", atoms="samples", microbatch_tokens=160)
    return text.order("search").plan()


@pytest.mark.parametrize("mesh", ["dp=2", "pp=2,dp=4", "dp=2,cp=2"])
def test_samples_are_dealt_one_by_one_into_microbatches_of_their_length(
    mesh: str, corpus: Corpus
) -> None:
    """The same contents; every segment once; lengths that can be sliced; lineage as planned."""
    config = config_of(corpus, delivery={"microbatch_size": 2})
    job = ol.job(config, mesh=mesh, strategy=by_sample)
    plain = ol.job(config, mesh=mesh).open_stream()
    lengths = set()
    with job.train(ranks="all", hash=True) as loaders:
        for step, batches in enumerate(loaders.steps()):
            planned = planned_step(job.open_stream(), step)
            assert planned.plan.content_hash == planned_step(plain, step).plan.content_hash
            columns = planned.columns
            names = ("source", "pass", "position", "first", "count")
            expected = sorted(zip(*(columns[name].tolist() for name in names), strict=True))
            first_stage = [own for own in batches.values() if own[0].tokens is not None]
            seen = {row[:5] for own in first_stage for row in segments_of(own)}
            assert sorted(seen) == expected == sorted(set(expected))
            for own in first_stage:
                for batch in own:
                    assert batch.tokens.shape[0] == 1
                    assert batch.cu_seqlens_padded[-1] <= 160 + 4 and batch.num_tokens <= 160
                    assert batch.tokens.shape[1] in (
                        batch.cu_seqlens_padded[-1],
                        batch.cu_seqlens_padded[-1] // 2,
                    )
                    lengths.add(batch.tokens.shape[1])
    assert len(lengths) > 3


def test_samples_give_evener_work_than_sequences(corpus: Corpus) -> None:
    config = config_of(corpus)
    whole = ol.job(config, mesh="dp=4", strategy=long_short).open_stream()
    single = ol.job(config, mesh="dp=4", strategy=by_sample).open_stream()
    for step in range(STEPS):
        one, other = planned_step(single, step).report, planned_step(whole, step).report
        assert one is not None and other is not None
        assert one["microbatch_max_ns"] <= other["microbatch_max_ns"]


def test_resume_with_samples_dealt_one_by_one(corpus: Corpus) -> None:
    check_resume(ol.job(config_of(corpus), mesh="dp=2", strategy=by_sample), 1, 3)
