"""A state that was edited anywhere is refused, or goes on with exactly the same stream."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from delivered import content
from overlord._src.native import core
from overlord._src.state import saved_state as states

import overlord as ol

Path = tuple[str, ...]
REFUSALS = (ol.StateMismatchError, ol.VersionMismatchError, ol.BadDataError)
TOLD = 12  # batches after a state that are compared


def paths(value: Any, here: Path = ()) -> Iterator[Path]:
    """Every entry of a state, inner ones too."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*here, key)
            yield from paths(item, (*here, key))


def at(state: dict[str, Any], path: Path) -> dict[str, Any]:
    """The mapping that holds an entry."""
    for key in path[:-1]:
        state = state[key]
    return state


def removed(state: dict[str, Any], path: Path) -> dict[str, Any]:
    out = copy.deepcopy(state)
    del at(out, path)[path[-1]]
    return out


def replaced(state: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    out = copy.deepcopy(state)
    at(out, path)[path[-1]] = value
    return out


def edits(state: dict[str, Any], others: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every entry removed, set to a few values, and exchanged with that of another state."""
    for path in paths(state):
        yield removed(state, path)
        value = at(state, path)[path[-1]]
        for other in (None, "", 0, 1, {}, [], "dp=1", value + 1 if isinstance(value, int) else "x"):
            yield replaced(state, path, other)
        for other in others:
            if path[0] in other and path[1:] == ():
                yield replaced(state, path, other[path[0]])
    for other in others:
        for path in paths(other):
            if path[0] not in state:
                yield replaced(state, path[:1], other[path[0]])
    yield {**state, "more": 1}


def state_after(config: dict[str, Any], mesh: str, batches: int) -> dict[str, Any]:
    with ol.job(config, mesh=mesh).train(rank=0, engine="embedded") as loader:
        for _ in islice(loader, batches):
            pass
        return loader.state_dict()


def stream_after(config: dict[str, Any], mesh: str, state: dict[str, Any]) -> list[str]:
    with ol.job(config, mesh=mesh).train(rank=0, engine="embedded") as loader:
        loader.load_state_dict(state)
        return [content(batch) for batch in islice(loader, TOLD)]


@pytest.mark.parametrize("batches", [3, 8], ids=["inside a step", "at a boundary"])
@pytest.mark.parametrize("mesh", ["dp=2", "dp=1", "dp=2,tp=2", "dp=4"])
def test_every_edit_is_refused_or_changes_nothing(
    config: dict[str, Any], mesh: str, batches: int
) -> None:
    state = state_after(config, "dp=2", batches)
    others = [
        state_after(config, "dp=2", 5),
        state_after(config, "dp=2", 24),
        state_after(config, mesh, 2),
    ]
    inside = "mesh" in state
    assert inside == (batches == 3)
    loader = ol.job(config, mesh=mesh).train(rank=0, engine="embedded")
    accepted = []
    for edited in edits(state, others):
        try:
            loader._shared.check_state(edited, ())
        except REFUSALS:
            continue
        if edited != state:
            accepted.append(edited)
    for edited in accepted:
        assert edited["blob"] == state["blob"], "the blob is what counts"
        assert not inside or mesh == "dp=2", f"taken on another mesh: {edited}"
    if accepted:
        expected = stream_after(config, mesh, state)
        assert all(stream_after(config, mesh, edited) == expected for edited in accepted)


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_state_inside_a_step_without_its_mesh_is_refused(
    config: dict[str, Any], engine: str
) -> None:
    state = state_after(config, "dp=2", 3)
    loader = ol.job(config, mesh="dp=1").train(rank=0, engine=engine)
    with pytest.raises(ol.StateMismatchError, match=r"mesh: the state says None, its blob says"):
        loader.load_state_dict(removed(state, ("mesh",)))
    with pytest.raises(ol.StateMismatchError, match=r"mesh: the state says 'dp=1', its blob says"):
        loader.load_state_dict(replaced(state, ("mesh",), "dp=1"))
    with pytest.raises(ol.StateMismatchError, match=r"mesh: saved inside step 0, after 3 "):
        loader.load_state_dict(state)


@pytest.mark.parametrize("named", [False, True], ids=["removed", "named"])
def test_a_state_of_a_version_without_the_tie_is_refused_by_name(
    config: dict[str, Any], named: bool
) -> None:
    """As states inside a step were written before: nothing shows what mesh they were of."""
    with ol.job(config).train(engine="embedded") as loader:
        for _ in islice(loader, 3):
            pass
        blob = loader._connected().state()
        older = states.build_state(blob, core.describe_state(blob), loader._shared.job)
        assert "mesh" not in older
        if named:
            older["mesh"] = loader._shared.layout(0)
        with pytest.raises(ol.StateMismatchError, match="inside step 0 by a version that did not"):
            loader.load_state_dict(older)
