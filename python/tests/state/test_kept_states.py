"""The state that belongs to what was trained, for trainers that fetch ahead of it."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest
from delivered import content
from overlord._src.state.kept_states import STEPS_KEPT

import overlord as ol

ENGINES = ["embedded", "processes"]


def fetched_ahead(batches: Iterable[ol.Microbatch]) -> Iterator[ol.Microbatch]:
    """As trainers do that want to know which batch is the last: one more than is given is taken."""
    source = iter(batches)
    current = next(source, None)
    while current is not None:
        following = next(source, None)
        yield current
        current = following


@pytest.fixture
def straight(config: dict[str, Any]) -> list[str]:
    """What an uninterrupted run trains."""
    with ol.job(config).train(engine="embedded") as loader:
        return [content(batch) for batch in loader]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_has_the_state_that_its_loader_had(config: dict[str, Any], engine: str) -> None:
    config["steps"] = 3
    with ol.job(config).train(engine=engine) as loader:
        seen = [(batch, loader.state_dict()) for batch in loader]
        assert len(seen) == 48
        assert all(batch.state == state for batch, state in seen)
    assert all(batch.state == state for batch, state in seen), "after the loader was closed"
    assert json.loads(json.dumps(seen[5][0].state)) == seen[5][1]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cut", [1, 15, 16, 17, 40], ids=str)
def test_a_trainer_that_fetches_ahead_neither_skips_nor_repeats(
    config: dict[str, Any], straight: list[str], engine: str, cut: int
) -> None:
    trained = []
    with ol.job(config).train(engine=engine) as loader:
        for batch in islice(fetched_ahead(loader), cut):
            trained.append(content(batch))
        state, late = batch.state, loader.state_dict()
    with ol.job(config).train(engine=engine) as loader:
        loader.load_state_dict(state)
        assert trained + [content(batch) for batch in fetched_ahead(loader)] == straight
    with ol.job(config).train(engine=engine) as loader:
        loader.load_state_dict(late)
        assert content(next(loader)) == straight[cut + 1], "the loader itself is a batch further"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loader_gives_the_state_after_a_step(
    config: dict[str, Any], straight: list[str], engine: str
) -> None:
    config["steps"] = STEPS_KEPT + 4
    with ol.job(config).train(engine=engine) as loader:
        with pytest.raises(ol.OutOfRangeError, match="none has been finished here yet"):
            loader.state_dict(step=0)
        after = []
        for batches in loader.steps():
            after.append(loader.state_dict())
            assert loader.state_dict(step=batches[-1].step) == after[-1]
        last = len(after) - 1
        for step in range(last - STEPS_KEPT + 1, last + 1):
            assert loader.state_dict(step=step) == after[step], "after the end"
        for step in (-1, last - STEPS_KEPT, last + 1):
            with pytest.raises(ol.OutOfRangeError, match=f"now 4 to {last}"):
                loader.state_dict(step=step)
    assert loader.state_dict(step=last) == after[last], "after it was closed"
    with ol.job(config).train(engine=engine) as loader:
        loader.load_state_dict(after[4])
        assert loader.state_dict() == after[4]
        assert loader.state_dict(step=4) == after[4], "of the state it started from"
        next(loader)
        assert loader.state_dict(step=4) == after[4] != loader.state_dict()
        loader.load_state_dict(after[1])
        with pytest.raises(ol.OutOfRangeError):
            loader.state_dict(step=4)


@pytest.mark.parametrize("engine", ENGINES)
def test_after_a_step_all_ranks_have_one_state(config: dict[str, Any], engine: str) -> None:
    config["steps"] = 4
    with ol.job(config, mesh="dp=2,tp=2").train(ranks="all", engine=engine) as loaders:
        steps = list(loaders.steps())
        states = [loader.state_dict(step=2) for loader in loaders.values()]
        assert all(state == states[0] for state in states)
        assert loaders.state_dict(step=2) == states[0] == steps[2][3][-1].state
        inside = {rank: batches[0].state for rank, batches in steps[1].items()}
        assert all("dp=2" in state["mesh"] for state in inside.values())


def test_a_held_batch_holds_no_engine(config: dict[str, Any]) -> None:
    """Only what its state needs."""
    loader = ol.job(config).train(engine="embedded")
    batch = next(loader)
    before = batch.state
    engine = loader._shared._engine
    references = len(gc.get_referrers(engine))
    del loader
    gc.collect()
    assert len(gc.get_referrers(engine)) < references
    assert batch.state == before


def test_a_state_waits_for_no_report_of_what_was_only_fetched(config: dict[str, Any]) -> None:
    """Where the mixture follows losses, a state needs what was reported of the steps before it."""
    config |= {"bins": 1, "steps": 6}
    config["mixture"] = {
        "weights": {"books": 0.2, "code": 0.3, "web": 0.5},
        "schedule": {"kind": "odm"},
    }
    config["runtime"] |= {"alarm_seconds": 1.0}
    with ol.job(config).train(engine="embedded") as loader:
        for batch in islice(fetched_ahead(loader), 3):
            loader.report(batch.step, {"web": (10.0, 10)})
        state = batch.state
        with pytest.raises(ol.DeadlineError, match="reported of step 3"):
            loader.state_dict()
        rest = [content(batch) for batch in islice(loader, 1)]
        loader.load_state_dict(state)
        assert content(next(loader)) != rest[0] and next(loader).step == 4
