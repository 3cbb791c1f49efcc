"""What an engine cannot do is refused before anything starts, with the way out: docs/engines.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from many_features import JOBS, ONE_PLANNER, on_host, texts, written
from read_acts import job_of

import overlord as ol


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, and all configs."""
    return written(tmp_path_factory.mktemp("refused"))


def opened(features: Any, folder: Path, runtime: dict[str, Any]) -> tuple[Any, str]:
    [act] = on_host(features, folder, 0, runtime)
    return job_of(act, features.message), act["stream"]


@pytest.mark.parametrize("name", ONE_PLANNER)
def test_what_needs_one_planner_is_refused_where_processes_plan_alone(
    name: str, folder: Path
) -> None:
    job, stream = opened(JOBS[name](folder), folder, {})
    with (
        job.stream(stream, 0, engine="embedded") as loader,
        pytest.raises(ol.InvalidArgumentError) as refused,
    ):
        next(loader)
    said = str(refused.value)
    assert "each process of an embedded engine plans for itself" in said
    assert "engine=" in said or "host all ranks here" in said


@pytest.mark.parametrize("engine", ["processes", "hosts", "ray"])
def test_threads_of_python_are_refused_where_a_node_reads(
    engine: str, folder: Path, sockets: Path
) -> None:
    runtime: dict[str, Any] = {"processes": {"directory": str(sockets)}}
    if engine != "processes":
        runtime["wire"] = {"planner": "127.0.0.1:1", "host": "127.0.0.1"}
    features = texts(folder)
    features.acts[0]["config"]["sources"]["web"]["transform"] = "own_everywhere:loud_thread"
    job, stream = opened(features, folder, runtime)
    with pytest.raises(ol.ConfigError, match=r'a node has no Python.*lane="process"'):
        job.stream(stream, 0, engine="processes" if engine == "hosts" else engine)
