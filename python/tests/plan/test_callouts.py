"""A user's own Python in planning: the planner asks it, waits, checks, logs, and plans with it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from corpora import Corpus, two_sources
from delivered import content, segments_of
from overlord._src.functions.callouts import Function, Seats
from overlord._src.plan_view.readable import planned_step
from overlord.strategy import (
    StepView,
    StrategyConfig,
    constructor_do_plan,
    loader_do_plan,
    plan_raw,
    to_yaml,
    trace,
)
from trainers import in_time

import overlord as ol

STEPS = 6
QUADRATIC = ol.cost.quadratic(1, 512)
MESHES = ("dp=1", "dp=4", "pp=2,dp=2", "dp=2,cp=2")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two sources of short documents."""
    return two_sources(tmp_path_factory.mktemp("corpus"))


def config_of(corpus: Corpus, **top: Any) -> dict[str, Any]:
    """Sixteen sequences a step."""
    return corpus.config(bins=16, at_end="repeat", steps=STEPS, align=4, **top)


def quadratic(columns: dict[str, np.ndarray[Any, Any]]) -> Any:
    """What QUADRATIC says, in Python."""
    tokens = columns["tokens"].astype(np.float64)
    return tokens * tokens + 512 * tokens


def strategy_with(cost: Any, **given: Any) -> Any:
    """Balanced and ordered by a cost."""

    def strategy(graph: Any, tree: Any) -> Any:
        text = graph.tokens().distribute(tree.dp).cost(cost, **given)
        return text.balance("lpt_search").order("search").plan()

    return strategy


def heaviest_first(costs: Any, seats: Seats) -> Any:
    """Heaviest bins first, to the consumers in turn."""
    place = np.empty(len(costs), np.int64)
    place[np.argsort(-costs, kind="stable")] = np.arange(len(costs))
    return place % seats.consumers, place // seats.consumers // seats.microbatch_size


def balanced_by(function: Any) -> Any:
    """A strategy with a balancer of one's own."""

    def strategy(graph: Any, tree: Any) -> Any:
        return graph.tokens().cost(QUADRATIC).balance(function, version=2).plan()

    return strategy


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("atoms", ["sequences", "samples"])
def test_a_function_that_says_what_the_model_says_places_the_same(
    mesh: str, atoms: str, corpus: Corpus
) -> None:
    def declared(cost: Any, **given: Any) -> Any:
        def strategy(graph: Any, tree: Any) -> Any:
            return graph.tokens().cost(cost, **given).balance(atoms=atoms).order("search").plan()

        return strategy

    own = ol.job(config_of(corpus), mesh=mesh, strategy=declared(quadratic, version=1))
    native = ol.job(config_of(corpus), mesh=mesh, strategy=declared(QUADRATIC))
    for step in range(STEPS):
        one, other = own.plan(step), native.plan(step)
        assert one.content_hash == other.content_hash
        assert one.placement() == other.placement() and one.bins() == other.bins()
        assert one.report() == other.report()


def test_batches_are_those_of_the_native_cost(corpus: Corpus) -> None:
    """Through the engine, on every rank; and the functions are asked once a step."""
    asked = []

    def counted(columns: Any) -> Any:
        asked.append(len(columns["tokens"]))
        assert {*columns} == {"tokens", "source"}
        assert not columns["tokens"].flags.writeable
        return quadratic(columns)

    def all_batches(strategy: Any) -> Any:
        job = ol.job(config_of(corpus), mesh="dp=4", strategy=strategy)
        with job.train(ranks="all", hash=True) as loaders:
            batches = [
                [content(batch) for own in step.values() for batch in own]
                for step in loaders.steps()
            ]
            return batches, loaders[0].status()["planner"]

    native, _ = all_batches(strategy_with(QUADRATIC))
    own, planner = all_batches(strategy_with(counted, version=1))
    assert own == native and len(own) == STEPS
    assert len(asked) == STEPS == planner["callouts"]
    assert planner["waits_for_function"] is None and planner["callout_ns"] > 0


def test_name_and_version_are_in_yaml_and_digest(corpus: Corpus) -> None:
    declared = trace(strategy_with(quadratic, version=1))
    data = yaml.safe_load(to_yaml(strategy_with(quadratic, version=1)))["strategy"]
    assert data["cost"] == {"kind": "python", "name": "quadratic", "version": 1, "scale": 1}
    assert StrategyConfig.model_validate(data) == declared
    balancer = yaml.safe_load(to_yaml(balanced_by(heaviest_first)))["strategy"]
    assert balancer["balance"] == {"python": {"name": "heaviest_first", "version": 2}}
    raw = yaml.safe_load(to_yaml(plan_raw(by_tokens, version="b")))["strategy"]
    assert raw["plan_raw"] == {"name": "by_tokens", "version": "b"}

    def digest(strategy: Any, **given: Any) -> str:
        opened = ol.job(config_of(corpus), strategy=strategy, **given).open_stream()
        return str(opened.native.config_digest)

    from_file = digest(declared, callouts={"quadratic": quadratic})
    assert from_file == digest(strategy_with(quadratic, version=1))
    assert from_file != digest(strategy_with(quadratic, version=2))
    assert from_file != digest(strategy_with(quadratic, version=1, name="other"))
    assert from_file != digest(strategy_with(QUADRATIC))


def test_functions_of_a_file_are_given_by_name(corpus: Corpus) -> None:
    config = config_of(corpus, strategy=trace(strategy_with(quadratic, version=1)).model_dump())
    job = ol.job(config, mesh="dp=2", callouts={"quadratic": quadratic})
    traced = ol.job(config_of(corpus), mesh="dp=2", strategy=strategy_with(quadratic, version=1))
    assert job.plan(1).plan_hash == traced.plan(1).plan_hash
    versioned = Function(quadratic, 1, "quadratic")
    assert ol.job(config, callouts={"quadratic": versioned}).plan(0).step == 0
    refusals: list[tuple[dict[str, Any], str]] = [
        ({}, r"strategy\.cost.*not given.*callouts=\{'quadratic'"),
        ({"quadratic": 3}, r"callouts\.quadratic.*not callable"),
        ({"quadratic": quadratic, "cubic": quadratic}, r"callouts\.cubic.*no such function"),
        ({"quadratic": Function(quadratic, 2, "quadratic")}, r"version.*passed has version 2"),
    ]
    for callouts, named in refusals:
        with pytest.raises(ol.ConfigError, match=named):
            ol.job(config, mesh="dp=2", callouts=callouts)
    with pytest.raises(TypeError, match="needs version="):
        trace(strategy_with(quadratic))
    window = {"steps": 2, "cost": {"kind": "python", "name": "quadratic", "version": 1}}
    with pytest.raises(ol.ConfigError, match=r"window\.cost.*native cost model"):
        ol.job({**config, "window": window}, callouts={"quadratic": quadratic}).open_stream()


BAD_COSTS: list[tuple[str, Any, str]] = [
    ("nan", lambda n: np.where(np.arange(n) == 3, np.nan, 1.0), r"row 3 \(.*\[\d+:\d+\]\).*nan"),
    ("inf", lambda n: np.where(np.arange(n) == 5, np.inf, 1.0), r"row 5 .*inf"),
    ("negative", lambda n: np.where(np.arange(n) == 2, -4, 1), r"row 2 .*negative: -4"),
    ("short", lambda n: np.ones(n - 1), r"shape \(\d+,\) for \d+ rows"),
    ("scalar", lambda n: 1.0, r"shape \(\)"),
    ("text", lambda n: np.array(["a"] * n), "dtype <U1"),
    ("complex", lambda n: np.ones(n, complex), "dtype complex"),
    ("nothing", lambda n: None, "dtype object"),
    ("ragged", lambda n: [[1]] * (n - 1) + [[1, 2]], "not an array"),
    ("overflow", lambda n: np.full(n, 1e300), "row 0 .*too large"),
    ("sum", lambda n: np.full(n, 2**55), "row 2 .*too much"),
    ("raises", lambda n: 1 // 0, r"raised ZeroDivisionError: .*test_callouts\.py:\d+"),
    ("exits", lambda n: exit(3), "raised SystemExit: 3"),
]


@pytest.mark.parametrize(("name", "answer", "named"), BAD_COSTS, ids=[row[0] for row in BAD_COSTS])
def test_every_bad_cost_ends_all_ranks_before_the_same_step(
    name: str, answer: Any, named: str, corpus: Corpus
) -> None:
    calls = []

    def mine(columns: Any) -> Any:
        calls.append(1)
        return answer(len(columns["tokens"])) if len(calls) > 2 else quadratic(columns)

    job = ol.job(config_of(corpus), mesh="dp=2", strategy=strategy_with(mine, version="v7"))
    with job.train(ranks="all") as loaders:
        for rank in (0, 1):
            seen = []
            with pytest.raises(ol.UserFunctionError, match=named) as refused:
                for batch in loaders[rank]:
                    seen.append(batch.step)
            assert "cost function mine (version v7), step 2: " in str(refused.value)
            assert sorted(set(seen)) == [0, 1]
    assert len(calls) == 3
    calls.clear()
    if name == "exits":  # on the caller's own thread it is the caller who exits
        return
    with pytest.raises(ol.UserFunctionError, match=named):
        job.plan(4)


BAD_SEATS: list[tuple[str, Any, str]] = [
    ("outside", lambda n, s: (np.full(n, 2), np.arange(n) // 2), "consumer of bin 0 is 2"),
    ("nowhere", lambda n, s: (np.arange(n) % 2, np.full(n, -1)), "microbatch of bin 0 is -1"),
    ("crowded", lambda n, s: (np.zeros(n, int), np.arange(n) // 2), "bin 1 is one too many"),
    ("float", lambda n, s: (np.arange(n) % 2 * 1.0, np.arange(n) // 2), "dtype float64"),
    ("short", lambda n, s: (np.zeros(n - 1, int), np.zeros(n - 1, int)), r"shape \(2, 15\)"),
    ("ragged", lambda n, s: ([0], [0, 1]), "not an array"),
    ("raises", lambda n, s: s.nothing, "raised AttributeError"),
]


@pytest.mark.parametrize(("name", "answer", "named"), BAD_SEATS, ids=[row[0] for row in BAD_SEATS])
def test_every_bad_placement_is_refused(name: str, answer: Any, named: str, corpus: Corpus) -> None:
    def mine(costs: Any, seats: Seats) -> Any:
        return answer(len(costs), seats)

    job = ol.job(config_of(corpus), mesh="dp=2", strategy=balanced_by(mine))
    with job.train(ranks="all") as loaders, pytest.raises(ol.UserFunctionError, match=named) as bad:
        next(loaders[0])
    assert "balance function mine (version 2), step 0: " in str(bad.value)
    with pytest.raises(ol.UserFunctionError, match=named):
        job.plan(0)


def test_substeps_are_not_crossed(corpus: Corpus) -> None:
    config = config_of(corpus, substeps=2)
    job = ol.job(config, mesh="dp=2", strategy=balanced_by(heaviest_first))
    with pytest.raises(ol.UserFunctionError, match=r"of substep .* which is of another"):
        job.plan(0)


@pytest.fixture
def stuck() -> Iterator[tuple[threading.Event, Any]]:
    """A function that stays in its second call until it is let go."""
    calls, free = [], threading.Event()

    def never(columns: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            free.wait()
        return quadratic(columns)

    yield free, never
    free.set()


def test_a_call_that_does_not_return_is_waited_for_named_and_can_be_closed(
    stuck: tuple[threading.Event, Any], corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    free, never = stuck
    config = config_of(corpus, runtime={"alarm_seconds": 1.0})
    job = ol.job(config, mesh="dp=2", strategy=strategy_with(never, version=1))
    loaders = job.train(ranks="all")
    taken: list[Any] = []

    def read() -> None:
        with pytest.raises((RuntimeError, ol.CancelledError), match="closed"):
            taken.extend(batch.step for batch in loaders[0])

    with caplog.at_level(logging.WARNING, logger="overlord"):
        reader = threading.Thread(target=read)
        reader.start()
        in_time(lambda: bool(caplog.records), "the wait is in the log")
    expected = "cost function never (version 1)"
    assert f"waits for the {expected}, asked about step 1" in caplog.text
    waiting = loaders[0].status()["planner"]["waits_for_function"]
    assert waiting["function"] == expected and waiting["step"] == 1 and waiting["waiting_ns"] > 0
    loaders.close()
    reader.join()
    assert set(taken) == {0} and not free.is_set(), "closed while the function did not return"


AT_EXIT = """
import json, sys, threading
import overlord as ol
called = threading.Event()

def never(columns):
    called.set()
    threading.Event().wait()

def strategy(graph, tree):
    return graph.tokens().cost(never, version=1).balance().plan()

loaders = ol.job(json.loads(sys.argv[1]), mesh="dp=2", strategy=strategy).train(ranks="all")
loaders[0].status()
sys.exit(0 if called.wait(100) else 3)
"""


def test_the_process_can_end_while_a_function_does_not_return(corpus: Corpus) -> None:
    command = [sys.executable, "-c", AT_EXIT, json.dumps(config_of(corpus))]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0 and "terminate" not in run.stderr, run.stderr


def test_a_late_answer_changes_nothing(corpus: Corpus) -> None:
    free = threading.Event()

    def late(columns: Any) -> Any:
        free.wait()
        return quadratic(columns)

    quick = ol.job(config_of(corpus), mesh="dp=2", strategy=strategy_with(quadratic, version=1))
    slow = strategy_with(late, version=1, name="quadratic")
    job = ol.job(config_of(corpus), mesh="dp=2", strategy=slow)
    with job.train(ranks="all") as loaders, quick.train(ranks="all") as others:
        loaders[0].status()  # starts it
        expected = [content(batch) for batches in others.rounds() for batch in batches.values()]
        free.set()
        came = [content(batch) for batches in loaders.rounds() for batch in batches.values()]
        assert came == expected and expected


def test_a_balancer_of_ones_own_places_and_is_explained(corpus: Corpus) -> None:
    job = ol.job(config_of(corpus), mesh="dp=4", strategy=balanced_by(heaviest_first))
    arrival = ol.job(config_of(corpus), mesh="dp=4")
    from overlord._src.plan_view import explain

    for step in range(STEPS):
        planned = planned_step(job.open_stream(), step)
        assert planned.plan.content_hash == arrival.plan(step).content_hash
        costs = planned.graph["bin_costs"]
        rank = np.argsort(np.argsort(-costs, kind="stable"), kind="stable")
        assert [place[0] for place in planned.plan.placement()] == (rank % 4).tolist()
        assert planned.report is not None and planned.report["consumer_max_ns"] > 0
        lines = explain.explain_row(planned, 0)
        assert lines[-1].startswith("placed by your function to consumer ")
    with job.train(ranks="all") as loaders:
        for step, batches in enumerate(loaders.steps()):
            columns = planned_step(job.open_stream(), step).columns
            for rank, own in batches.items():
                positions = columns["position"][columns["bucket"] == rank]
                assert sorted(row[2] for row in segments_of(own)) == sorted(positions)


def by_tokens(view: StepView) -> Any:
    """All that is known of a step: bins by their tokens, snake-wise over the consumers."""
    tokens = np.bincount(view.columns["bin"], view.columns["tokens"], view.bins)
    order = np.argsort(-tokens, kind="stable")
    seats = np.zeros((view.bins, 2), np.int64)
    for place, number in enumerate(order):
        turn, at = divmod(place, view.seats.consumers)
        seats[number] = (at if turn % 2 == 0 else view.seats.consumers - 1 - at, turn)
    return seats


def test_plan_raw_sees_the_step_and_places_it(corpus: Corpus) -> None:
    views: list[StepView] = []

    def mine(view: StepView) -> Any:
        views.append(view)
        return by_tokens(view)

    job = ol.job(config_of(corpus), mesh="dp=4", strategy=plan_raw(mine, version=1))
    arrival = ol.job(config_of(corpus), mesh="dp=4")
    for step in range(STEPS):
        plan = job.plan(step)
        assert plan.content_hash == arrival.plan(step).content_hash
        assert views[-1].step == step and views[-1].bin_costs is None
        assert [list(place[:2]) for place in plan.placement()] == by_tokens(views[-1]).tolist()
    assert {*views[0].columns} == {"tokens", "source", "bin", "pass", "position"}
    assert list(views[0].sources) == job.open_stream().source_names
    assert views[0].seats == Seats(4, 4, 1, 1, 1)
    with job.train(ranks="all") as loaders:
        steps = list(loaders.steps())
    assert len(steps) == STEPS


def test_resume_at_every_microbatch_is_no_stop(corpus: Corpus) -> None:
    """Functions are pure by their declared version: asked again, they say the same."""

    def strategy(graph: Any, tree: Any) -> Any:
        text = graph.tokens().cost(quadratic, version=1)
        return text.balance(heaviest_first, version=1).plan()

    job = ol.job(config_of(corpus), mesh="dp=2", strategy=strategy)
    states, digests = [], []
    with job.train(ranks="all") as loaders:
        states.append(loaders.state_dict())
        for step in loaders.steps():
            digests.append([[content(batch) for batch in own] for own in step.values()])
            states.append(loaders.state_dict())
    for stop in range(STEPS):
        with job.train(ranks="all") as loaders:
            loaders.load_state_dict(json.loads(json.dumps(states[stop])))
            rest = [
                [[content(batch) for batch in own] for own in step.values()]
                for step in loaders.steps()
            ]
        assert rest == digests[stop:]


def test_ranks_elsewhere_are_refused(corpus: Corpus) -> None:
    """Law 9: N planners in N processes could be told different things."""
    job = ol.job(config_of(corpus), mesh="dp=2", strategy=strategy_with(quadratic, version=1))
    for given in ({"rank": 0}, {"ranks": [1]}):
        with job.train(**given) as loader, pytest.raises(ol.InvalidArgumentError) as refused:  # type: ignore[call-overload]
            next(iter(loader if "rank" in given else loader[1]))
        for text in ("quadratic", "hosts 1 of 2", "host all ranks here"):
            assert text in str(refused.value)
    single = ol.job(config_of(corpus), strategy=strategy_with(quadratic, version=1))
    with single.train() as loader:
        assert next(loader).step == 0


def test_loader_and_constructor_duties_cover_the_plan(corpus: Corpus) -> None:
    job = ol.job(config_of(corpus), mesh="dp=4", strategy=strategy_with(QUADRATIC))
    plan = job.plan(2)
    columns = plan.columns()
    names = job.open_stream().source_names
    rows = [constructor_do_plan(plan, bucket) for bucket in range(4)]
    seen = []
    for source in range(len(names)):
        queues = loader_do_plan(plan, source)
        assert [queue.bucket for queue in queues] == [0, 1, 2, 3]
        for queue in queues:
            own = rows[queue.bucket]
            keys = list(zip(queue.passes, queue.position, queue.first, strict=True))
            assert keys == sorted(keys)
            assert (own.source[queue.ordinal] == source).all()
            assert (own.position[queue.ordinal] == queue.position).all()
            seen += [(source, *key, n) for key, n in zip(keys, queue.count, strict=True)]
    kinds = ("source", "pass", "position", "first", "count")
    assert sorted(seen) == sorted(zip(*(columns[name] for name in kinds), strict=True))
    for own in rows:
        assert (np.diff(own.microbatch * own.microbatch_size + own.slot) >= 0).all()
        assert len(own.capacities) == own.microbatches * own.microbatch_size
        assert (own.tokens_before + own.count <= own.capacities[own.microbatch]).all()
        here = columns["bucket"] == own.bucket
        assert sorted(own.position) == sorted(columns["position"][here])
    with pytest.raises(ol.OutOfRangeError, match="0 to 3"):
        constructor_do_plan(plan, 4)
    with pytest.raises(ol.OutOfRangeError, match="source 9"):
        loader_do_plan(plan, 9)
    with pytest.raises(TypeError, match="not a plan"):
        loader_do_plan(None, 0)


def test_the_summary_buffer_is_what_the_planner_knows(corpus: Corpus) -> None:
    def refuses(columns: Any) -> Any:
        raise AssertionError("nothing is placed for a summary")

    job = ol.job(config_of(corpus), mesh="dp=2", strategy=strategy_with(refuses, version=1))
    plain = ol.job(config_of(corpus))
    table = job.summary_buffer(step=3)
    columns = plain.plan(3).columns()
    assert table.num_rows == len(columns["count"])
    assert table["tokens"].to_pylist() == columns["count"].tolist()
    names = job.open_stream().source_names
    assert table["source"].to_pylist() == [names[index] for index in columns["source"]]
    small = job.summary_buffer(step=3, fields=["tokens", "bin"], rows=5)
    assert small.column_names == ["tokens", "bin"] and small.num_rows == 5
    with pytest.raises(ValueError, match="no column 'loss'; columns: source, pass"):
        job.summary_buffer(fields=["loss"])
    with pytest.raises(ol.OutOfRangeError):
        job.summary_buffer(step=STEPS)


def test_the_command_line_asks_the_same_functions(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`overlord plan --strategy FILE.py:NAME` finds them in the file."""
    from overlord.cli import main

    path = tmp_path / "mine.py"
    path.write_text(
        "def cost(columns):\n"
        "    return columns['tokens'] ** 2\n\n"
        "def mine(graph, tree):\n"
        "    return graph.tokens().cost(cost, version=1).balance().plan()\n"
    )
    config = tmp_path / "job.yaml"
    config.write_text(yaml.safe_dump(config_of(corpus)))
    arguments = ["plan", str(config), "--mesh", "dp=2", "--strategy", f"{path}:mine"]
    assert main(arguments) == 0
    assert "predicted step" in capsys.readouterr().out
    assert main(["inspect", *arguments[2:], str(config), "rank", "1", "--step", "1"]) == 0
    assert "rank 1 (pp=0, dp=1, cp=0, tp=0), step 1: 8 microbatches" in capsys.readouterr().out
