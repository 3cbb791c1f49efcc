"""Every feature on every engine: the stream of one process, or a refusal that says why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import reported
import yaml
from every_feature import (
    ENGINES,
    FEATURES,
    MESH,
    PER_RANK,
    PROCESSES,
    RAY,
    WHOLE,
    made,
    table,
)
from planned import functions
from ray_nodes import ray_cluster
from trainers import TESTS, hashes_of, trainers, trainers_on_hosts

import overlord as ol

DOCS = Path(__file__).parents[3] / "docs" / "engines.md"
REBUILD_AT = 4
pytestmark = pytest.mark.deadline(180)
Hashes = dict[int, str]


def job_of(name: str, config: dict[str, Any]) -> ol.Job:
    told = FEATURES[name].told
    rule = ol.mix.rule(getattr(reported, told["rule"]), version=1) if "rule" in told else None
    callouts = functions(*told["functions"]) if "functions" in told else None
    return ol.job(config, mesh=ol.mesh(**MESH), rule=rule, callouts=callouts)


def read_here(name: str, config: dict[str, Any], ranks: Any) -> Hashes:
    told = FEATURES[name].told
    with job_of(name, config).train(ranks=ranks, hash=True, engine="embedded") as loaders:
        if "rebuild" in told:
            loaders.rebuild(ol.mesh(**told["rebuild"]), step=REBUILD_AT)
        for batches in loaders.steps():
            step = next(iter(batches.values()))[-1].step
            for rank in told.get("reports", []):
                loaders[rank].report(step, reported.losses(step, rank))
        return {rank: loader.rank_hash() for rank, loader in loaders.items()}


@contextmanager
def on(engine: str, name: str, config: dict[str, Any], port: int) -> Iterator[Any]:
    told = {**FEATURES[name].told, "rebuild_at": REBUILD_AT}
    if engine == PROCESSES:
        with trainers(config, MESH, **told) as started:
            yield started
        return
    wire = {"planner": f"127.0.0.1:{port}", "host": "127.0.0.1"}
    runtime = {**config["runtime"], "wire": wire}
    with trainers_on_hosts([{**config, "runtime": runtime}] * 2, MESH, [[], []], **told) as started:
        yield started


@pytest.mark.parametrize("name", FEATURES)
def test_every_engine_gives_the_stream_of_one_process(
    config: dict[str, Any],
    tmp_path: Path,
    free_port: int,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setenv("PYTHONPATH", TESTS)
    feature = FEATURES[name]
    config = made(name, config, tmp_path)
    expected = read_here(name, config, "all")
    assert len(set(expected.values())) == 2, "ranks read different parts"
    for engine in ENGINES:
        if engine in (WHOLE, RAY):
            continue
        if engine in feature.refused:
            with pytest.raises(ol.OverlordError, match=feature.refused[engine][1]):
                read_here(name, config, [0])
        elif engine == PER_RANK:
            each = [read_here(name, config, [rank]) for rank in (0, 1)]
            assert {**each[0], **each[1]} == expected, engine
        else:
            with on(engine, name, config, free_port) as started:
                assert hashes_of(started) == expected, engine


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two nodes."""
    pytest.importorskip("ray")
    token = tmp_path_factory.mktemp("ray") / "token"
    token.write_text("of this cluster")
    with ray_cluster(2, 1, {"RAY_AUTH_TOKEN_PATH": str(token), "PYTHONPATH": TESTS}):
        yield


@pytest.mark.chaos  # `make ray`: the keeper of each takes seconds to start
@pytest.mark.parametrize("name", FEATURES)
def test_under_ray(
    cluster: None, config: dict[str, Any], tmp_path: Path, free_port: int, name: str
) -> None:
    config = made(name, config, tmp_path)
    expected = read_here(name, config, "all")
    wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1"}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**config, "runtime": {**config["runtime"], "wire": wire}}))
    launched = ol.ray.launch(str(path), mesh=ol.mesh(**MESH), hash=True)
    try:
        told = {**FEATURES[name].told, "rebuild_at": REBUILD_AT}
        with trainers(str(path), MESH, engine="ray", **told) as started:
            assert hashes_of(started) == expected
    finally:
        launched.close()


def test_the_table_of_the_docs_is_that_of_the_tests() -> None:
    shown = re.search(r"<!-- every_feature -->\n(.*?)\n<!-- end -->", DOCS.read_text(), re.DOTALL)
    assert shown is not None
    assert shown[1] == table(), "run python python/tests/every_feature.py"
