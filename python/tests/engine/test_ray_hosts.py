"""Hosts of a Ray cluster that run loaders; trainers know nothing of Ray."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from trainers import embedded_hashes, go_on, hashes_of, in_time, processes_of, trainers

import overlord as ol

ray = pytest.importorskip("ray")
MESH = {"dp": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes on this machine."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def path(config: dict[str, Any], free_port: int, tmp_path: Path) -> str:
    config["steps"] = 60
    config["runtime"]["processes"]["loaders"] = 6
    for source in config["sources"].values():
        source["loaders"] = 2
    wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1", "joinable": True}
    config["runtime"]["wire"] = wire
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(config))
    return str(tmp_path / "job.yaml")


@contextlib.contextmanager
def hosts(path: str, **asked: Any) -> Iterator[ol.ray.LoaderHosts]:
    made = ol.ray.loader_hosts(path, mesh=ol.mesh(**MESH), cpus=1, hash=True, **asked)
    try:
        yield made
    finally:
        made.close()


def lent(sockets: Path) -> int:
    """How many role processes of the job live on hosts that have joined."""
    count = 0
    for pid, name in processes_of(sockets).items():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            count += name.startswith("overlord: loaders") and b"wire.joined=1" in words
    return count


@pytest.mark.deadline(300)
def test_loaders_live_in_actors_and_a_dead_one_hands_over(
    cluster: Any, config: dict[str, Any], path: str, sockets: Path
) -> None:
    with hosts(path, hosts=2) as made:
        assert [item["error"] for item in made.status()] == ["", ""]
        with trainers(path, MESH, engine="processes", pause_after=30) as started:
            for trainer in started:
                trainer.until("step")

            in_time(lambda: lent(sockets) >= 2, "groups of loaders live in the actors")
            ray.kill(made.actors[0])
            go_on(started)
            assert hashes_of(started) == embedded_hashes(config, MESH)
        assert [item["serves"] for item in made.status()] == [False, True]


def test_a_job_that_nobody_can_join_is_refused(
    cluster: Any, config: dict[str, Any], path: str
) -> None:
    config["runtime"]["wire"]["joinable"] = False
    Path(path).write_text(yaml.safe_dump(config))
    with pytest.raises(ol.ConfigError, match="joinable"):
        ol.ray.loader_hosts(path, mesh=ol.mesh(**MESH), cpus=1)


def test_a_cluster_of_several_machines_needs_a_token(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.1.1.1")
    nodes = [{"Alive": True, "NodeManagerAddress": f"10.1.1.{number}"} for number in (1, 2)]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    with pytest.raises(ol.InvalidArgumentError, match=r"10\.1\.1\.2.*RAY_AUTH_MODE=token"):
        ol.ray.loader_hosts(path, mesh=ol.mesh(**MESH), cpus=1)
