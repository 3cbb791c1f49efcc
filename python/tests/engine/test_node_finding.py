"""How a trainer finds the node of its job: through a finder, whoever that asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from corpora import job_config, made_up_documents, token_lines
from overlord._src.job import job as jobs
from overlord._src.node.process import GivenNode, HostNode

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

    monkeypatch.setattr(jobs, "HostNode", Registry)
    assert stream_hash(config, engine="processes") == stream_hash(config, engine="embedded")
    assert asked and set(asked) == {1}
