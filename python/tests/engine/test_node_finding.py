"""How a trainer finds the node of its job: through a finder, whoever that asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from corpora import job_config, made_up_documents, token_lines
from overlord._src.job import job as jobs
from overlord._src.node.process import GivenNode, HostNode, NodeFinder, NodePlan

import overlord as ol


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "s.jsonl").write_bytes(token_lines(made_up_documents(60)))
    return job_config(tmp_path, {"s": {"files": "s.jsonl", "tokens": "tokens"}})


def stream_hash(config: dict[str, Any], **options: Any) -> str:
    with ol.job(config).train(hash=True, **options) as loader:
        for _ in loader:
            pass
        return loader.stream_hash()


def test_whoever_knows_may_say_where_it_is(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a cluster's registry would: it learns of the node later than the trainer asks."""
    asked: list[int] = []

    class Registry:
        def __init__(self, *words: Any) -> None:
            self._node = HostNode(*words)

        def find(self, attempt: int) -> tuple[str, bool]:
            asked.append(attempt)
            address, started = self._node.find(attempt)
            return GivenNode(address).find(attempt) if started else (address, False)

        def of_reading(self, number: int) -> NodeFinder:
            return self

    monkeypatch.setattr(jobs, "HostNode", Registry)
    assert stream_hash(config, engine="processes") == stream_hash(config, engine="embedded")
    assert asked and set(asked) == {1}


def test_every_reading_has_a_node_of_its_own_where_we_start_it() -> None:
    given = GivenNode("/somewhere")
    assert given.of_reading(3).find(1) == ("/somewhere", False)
    own = HostNode("job", "place", [0], bytes)
    assert own.of_reading(0) == own
    places = {finder.place for n in range(3) if isinstance(finder := own.of_reading(n), HostNode)}
    assert len(places) == 3
    fixed = HostNode("job", "place", [0], bytes, NodePlan(wire=["planner=a:1"]))
    assert fixed.of_reading(2) == fixed
