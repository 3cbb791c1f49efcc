"""Functions of one's own beside the other parts of a strategy: columns, encoders, costs, slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import EOD, Corpus, made_up_documents
from overlord._src.functions.callouts import Seats
from overlord.strategy import StepView, constructor_do_plan, plan_raw, trace

import overlord as ol
from overlord import hdp

STEPS = 4
ROWS = 300
MODEL = hdp.Model(square_fs=90_000, token_fs=2_000_000_000, capacity=64, layers=4)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A source with images and one without."""
    made = Corpus(tmp_path_factory.mktemp("corpus"))
    documents = made_up_documents(ROWS, seed=1, longest=150)
    patches = np.random.default_rng(3).integers(0, 900, ROWS)
    columns = {
        "tokens": pa.array([item.tolist() for item in documents], pa.list_(pa.int32())),
        "image_patches": pa.array(patches, pa.int64()),
    }
    pq.write_table(pa.table(columns), made.folder / "pairs.parquet", row_group_size=64)
    made.sources["pairs"] = {
        "files": "pairs.parquet",
        "tokens": "tokens",
        "eod": EOD,
        "metadata": ["image_patches"],
    }
    made.documents["pairs"] = documents
    made.add_jsonl("web", made_up_documents(200, seed=2), eod=EOD)
    return made


def config_of(corpus: Corpus, **top: Any) -> dict[str, Any]:
    return corpus.config(bins=16, at_end="repeat", steps=STEPS, align=4, **top)


def patches(columns: Any) -> Any:
    """What `ol.cost.tokens("image_patches")` says, in Python."""
    return columns["image_patches"]


def in_turn(costs: Any, seats: Seats) -> Any:
    """As they came, from the last consumer down."""
    number = np.arange(len(costs))
    return seats.consumers - 1 - number % seats.consumers, number // seats.consumers


@pytest.mark.parametrize("mesh", ["dp=4", "pp=2,dp=2"])
@pytest.mark.parametrize("atoms", ["sequences", "samples"])
def test_functions_see_metadata_columns(mesh: str, atoms: str, corpus: Corpus) -> None:
    def declared(cost: Any, **given: Any) -> Any:
        def strategy(graph: Any, tree: Any) -> Any:
            return graph.tokens().cost(cost, **given).balance(atoms=atoms).order("search").plan()

        return strategy

    own = ol.job(config_of(corpus), mesh=mesh, strategy=declared(patches, version=1))
    native = declared(ol.cost.tokens("image_patches"))
    other = ol.job(config_of(corpus), mesh=mesh, strategy=native)
    for step in range(STEPS):
        assert own.plan(step).placement() == other.plan(step).placement()
        assert own.plan(step).report() == other.plan(step).report()
    table = own.summary_buffer(1)
    assert sum(table["image_patches"].to_pylist()) > 0
    with own.train(ranks="all") as loaders:
        assert len(list(loaders.steps())) == STEPS


def test_columns_that_the_engine_keeps_for_itself_are_not_shown(corpus: Corpus) -> None:
    """A mixture by bytes counts them in a column of its own."""
    seen: list[StepView] = []

    def mine(view: StepView) -> Any:
        seen.append(view)
        return in_turn(np.zeros(view.bins), view.seats)

    mixture = {"unit": "bytes", "weights": {"pairs": 1, "web": 1}}
    config = config_of(corpus, mixture=mixture)
    ol.job(config, mesh="dp=4", strategy=plan_raw(mine, version=1)).plan(1)
    own = {"tokens", "source", "bin", "pass", "position"}
    assert {*seen[0].columns} == {*own, "image_patches"}


def test_an_encoder_follows_what_a_function_placed(corpus: Corpus) -> None:
    def own(graph: Any, tree: Any) -> Any:
        graph.images().distribute(tree.world).balance().plan()
        return graph.tokens().cost(patches, version=1).balance(in_turn, version=1).plan()

    job = ol.job(config_of(corpus), mesh="dp=4,tp=2", strategy=own)
    plan = job.plan(1)
    consumers = [place[0] for place in plan.placement()]
    assert consumers == [3 - number % 4 for number in range(16)]
    table = plan.encoder()
    bins = table["columns"]["bin"]
    assert len(bins) > 0
    columns = plan.columns()
    assert (table["backbone_of"] == columns["bucket"][table["backbone_segment"]]).all()
    with job.train(ranks="all") as loaders:
        assert len(list(loaders.steps())) == STEPS


def test_functions_are_not_for_encoders(corpus: Corpus) -> None:
    def own(graph: Any, tree: Any) -> Any:
        graph.images().cost(patches, version=1).plan()
        return graph.tokens().plan()

    with pytest.raises(ValueError, match="patches is a function of your own"):
        trace(own)
    by_name = {"encoder": {"cost": {"kind": "python", "name": "patches", "version": 1}}}
    job = ol.job(config_of(corpus, strategy=by_name), mesh="dp=2")
    with pytest.raises(ol.ConfigError, match=r"strategy\.encoder\.cost.*native cost model"):
        job.plan(0)


def test_a_function_is_one_of_several_costs(corpus: Corpus) -> None:
    def declared(cost: Any, **given: Any) -> Any:
        def strategy(graph: Any, tree: Any) -> Any:
            text = graph.tokens().cost(cost, also=[ol.cost.tokens()], **given)
            return text.balance("vector").plan()

        return strategy

    own = ol.job(config_of(corpus), mesh="dp=4", strategy=declared(patches, version=1))
    native = declared(ol.cost.tokens("image_patches"))
    other = ol.job(config_of(corpus), mesh="dp=4", strategy=native)
    assert own.plan(2).placement() == other.plan(2).placement()


def test_slices_and_memory_limits_take_no_functions(corpus: Corpus) -> None:
    def sliced(graph: Any, tree: Any) -> Any:
        return graph.tokens().distribute("cp").hybrid(MODEL).plan_raw(in_turn, version=1)

    def limited(graph: Any, tree: Any) -> Any:
        return graph.tokens().cost(patches, version=1).balance(memory_limit="1GB").plan()

    for strategy, named in ((sliced, r"strategy\.hybrid"), (limited, "memory_limit")):
        job = ol.job(config_of(corpus), mesh="dp=2,cp=2", strategy=strategy)
        with pytest.raises(ol.InvalidArgumentError, match=named):
            job.plan(0)


def test_duties_of_constructors_with_slices(corpus: Corpus) -> None:
    """Each has its own number of microbatches."""

    def sliced(graph: Any, tree: Any) -> Any:
        return graph.tokens().distribute(tree.cp).hybrid(MODEL).plan()

    job = ol.job(config_of(corpus, context=256), mesh="dp=2,cp=4", strategy=sliced)
    plan, plain = job.plan(1), ol.job(config_of(corpus, context=256), mesh="dp=2")
    columns = plan.columns()
    for bucket in range(8):
        rows = constructor_do_plan(plan, bucket)
        assert len(rows) == int((columns["bucket"] == bucket).sum())
        assert len(rows.capacities) == rows.microbatches
        assert rows.count.sum() == columns["count"][columns["bucket"] == bucket].sum()
    assert job.summary_buffer(1)["tokens"].to_pylist() == plain.plan(1).columns()["count"].tolist()
