"""Jobs on a Ray cluster of four nodes: who dies is not seen in the stream; trainers know no Ray."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from overlord._src.ray.loader_host import Told
from overlord.cli import main
from trainers import (
    embedded_hashes,
    go_on,
    hashes_of,
    in_time,
    left_of,
    processes_of,
    trainers,
    trainers_on_hosts,
)

import overlord as ol

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.deadline(300)
MESH = {"dp": 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Four nodes on this machine, which let in who has their token."""
    from ray._private.authentication_test_utils import reset_auth_token_state
    from ray.cluster_utils import Cluster

    token = tmp_path_factory.mktemp("ray") / "token"
    token.write_text("of this cluster")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_AUTH_MODE", "token")
        environment.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        reset_auth_token_state()  # Ray has read the environment when it was imported
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        for _ in range(3):
            made.add_node(num_cpus=1)
        ray.init(address=made.address, log_to_driver=False)
        try:
            yield made
        finally:
            ray.shutdown()
            made.shutdown()
    reset_auth_token_state()


@pytest.fixture
def path(config: dict[str, Any], free_port: int, tmp_path: Path) -> str:
    config["steps"] = 60
    config["runtime"]["processes"] |= {"loaders": 6, "recovery_seconds": 600, "orphan_seconds": 600}
    for source in config["sources"].values():
        source["loaders"] = 2
    wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1", "joinable": True}
    config["runtime"]["wire"] = wire
    return rewritten(config, tmp_path)


def rewritten(config: dict[str, Any], folder: Path) -> str:
    (folder / "job.yaml").write_text(yaml.safe_dump(config))
    return str(folder / "job.yaml")


@contextlib.contextmanager
def hosts(path: str, **asked: Any) -> Iterator[ol.ray.LoaderHosts]:
    made = ol.ray.loader_hosts(path, mesh=ol.mesh(**MESH), cpus=1, hash=True, **asked)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def launched(path: str, **asked: Any) -> Iterator[ol.ray.Launched]:
    made = ol.ray.launch(path, mesh=ol.mesh(**MESH), hash=True, **asked)
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


def until_all_ended(sockets: Path) -> None:
    """Of loader hosts that Ray has killed an empty directory may be left, until the next comes."""
    in_time(
        lambda: all(f"/overlord-{os.geteuid()}-j" in item for item in left_of(sockets)),
        "no process is left, and no file of the keeper",
    )


def lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def test_loaders_live_in_actors_and_a_dead_one_hands_over(
    cluster: Any, config: dict[str, Any], path: str, sockets: Path
) -> None:
    with hosts(path, hosts=2) as made:
        in_time(lambda: [item["error"] for item in made.status()] == ["", ""], "both are there")
        with trainers(path, MESH, engine="processes", pause_after=30) as started:
            for trainer in started:
                trainer.until("step")

            in_time(lambda: lent(sockets) >= 2, "groups of loaders live in the actors")
            ray.kill(made.actors[0])
            go_on(started)
            assert hashes_of(started) == embedded_hashes(config, MESH)
        assert [item["serves"] for item in made.status()] == [False, True]


def constructors_of(sockets: Path) -> set[int]:
    found = processes_of(sockets).items()
    return {pid for pid, name in found if name.startswith("overlord: ") and "constructors" in name}


def kill_keeper(job: ol.ray.Launched) -> None:
    """And wait until Ray has run it again, and it leads in the next term."""
    assert job.status()["term"] == 1
    ray.kill(job.keeper, no_restart=False)

    def again() -> bool:
        with contextlib.suppress(ray.exceptions.RayError):
            return bool(job.status()["term"] == 2)
        return False

    in_time(again, "the next keeper goes on from the journal")


@pytest.mark.parametrize("ranks", [(0,), ()])
def test_ranks_of_other_hosts_follow_a_keeper_that_dies(
    cluster: Any, config: dict[str, Any], path: str, sockets: Path, ranks: tuple[int, ...]
) -> None:
    """Two trainer hosts and two without ranks; with and without ranks on the keeper's."""
    with launched(path, ranks=ranks, loader_hosts=2) as job:
        before = job.status()
        assert "in memory" in before["note"]
        with trainers_on_hosts(
            [path, path], MESH, [(), ()], engine="ray", pause_after=30
        ) as started:
            for trainer in started:
                trainer.until("step")
            in_time(lambda: lent(sockets) >= 2, "groups of loaders live on other hosts")
            constructors = constructors_of(sockets)
            kill_keeper(job)
            assert constructors == constructors_of(sockets), "they served on"
            assert job.status()["pid"] != before["pid"]
            go_on(started)
            assert hashes_of(started) == embedded_hashes(config, MESH)
            for trainer in started:
                assert trainer.until("end")["end"] == "good"
        assert job.status()["attached"] == 0
    until_all_ended(sockets)


def test_a_job_has_one_keeper_which_ends_when_no_rank_is_left(
    cluster: Any, config: dict[str, Any], tmp_path: Path, path: str, sockets: Path
) -> None:
    config["runtime"]["processes"]["orphan_seconds"] = 0.5
    path = rewritten(config, tmp_path)
    job = ol.ray.launch(path, mesh=ol.mesh(**MESH), hash=True)
    with pytest.raises(ol.InvalidArgumentError, match="has a keeper in this cluster already"):
        ol.ray.launch(path, mesh=ol.mesh(**MESH))
    with trainers(path, MESH, engine="ray", stop_after=2) as started:
        hashes_of(started)
    until_all_ended(sockets)

    def gone() -> bool:
        with contextlib.suppress(ValueError):
            ray.get_actor("keeper-train", namespace=job.namespace)
            return False
        return True

    in_time(gone, "its actor has ended too")


def test_a_keeper_that_cannot_lead_says_so(
    cluster: Any, config: dict[str, Any], tmp_path: Path, path: str, sockets: Path
) -> None:
    config["runtime"]["wire"]["planner"] = "192.0.2.1:7400"
    with pytest.raises(ol.InvalidArgumentError, match=r"no node of the Ray cluster has.*192\.0"):
        ol.ray.launch(rewritten(config, tmp_path), mesh=ol.mesh(**MESH))
    config["runtime"]["wire"]["planner"] = "127.0.0.1:1"
    config["runtime"]["wire"]["token"] = f"file:{tmp_path}/none"
    with pytest.raises(ol.UnavailableError, match="cannot lead"):
        ol.ray.launch(rewritten(config, tmp_path), mesh=ol.mesh(**MESH))
    until_all_ended(sockets)


def test_the_command_reads_the_same_stream(
    cluster: Any, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = []
    for words in (["embedded"], ["ray", "--loader-hosts", "1"]):
        command = ["run", path, "--mesh", "dp=2", "--no-live", "--json", f"{tmp_path}/report"]
        assert main([*command, "--engine", *words]) == 0
        reports.append(json.loads((tmp_path / "report").read_text()))
    assert reports[0]["stream_hash"] == reports[1]["stream_hash"]
    assert "the keeper leads at 127.0.0.1" in capsys.readouterr().out
    assert main(["run", path, "--engine", "ray", "--set", "seed=6"]) == 2
    assert "read the file as it is" in capsys.readouterr().err


def test_what_ray_does_not_carry_is_refused(
    config: dict[str, Any], path: str, tmp_path: Path
) -> None:
    job = ol.job(path, mesh=ol.mesh(**MESH))
    for option in ({"prefetch": 2}, {"threads": 2}, {"node": "/tmp/x"}):
        with pytest.raises(ol.ConfigError, match=f"{next(iter(option))}.*ray"):
            job.train(0, engine="ray", **option)
    with pytest.raises(ol.ConfigError, match="a path that all nodes see"):
        ol.ray.launch(config, mesh=ol.mesh(**MESH))  # type: ignore[arg-type]
    config["runtime"]["ablation"] = {"disaggregation": False}
    with pytest.raises(ol.ConfigError, match="disaggregation"):
        ol.ray.launch(rewritten(config, tmp_path), mesh=ol.mesh(**MESH))
    config["runtime"]["ablation"] = {}
    config["runtime"]["wire"]["planner"] = None
    with pytest.raises(ol.ConfigError, match="planner"):
        ol.job(rewritten(config, tmp_path), mesh=ol.mesh(**MESH)).train(0, engine="ray")


def test_a_foreign_token_is_refused(cluster: Any) -> None:
    program = f"import ray; ray.init({cluster.address!r}); print(len(ray.nodes()))"
    others = {
        **os.environ,
        "RAY_AUTH_TOKEN": "of another cluster",
        "RAY_NUM_REDIS_GET_RETRIES": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", program], env=others, capture_output=True, text=True
    )
    assert run.returncode != 0
    assert "authentication" in run.stderr.lower()


def test_actors_are_told_no_secret(config: dict[str, Any], tmp_path: Path, path: str) -> None:
    (tmp_path / "token").write_text("hidden words")
    (tmp_path / "token").chmod(0o600)
    config["runtime"]["wire"]["token"] = f"file:{tmp_path}/token"
    told = Told(rewritten(config, tmp_path), ol.mesh(**MESH), "train", True)
    assert told.job().config.runtime.wire.token == f"file:{tmp_path}/token"
    assert b"hidden words" not in pickle.dumps(told)


def test_a_job_that_nobody_can_join_is_refused(
    cluster: Any, config: dict[str, Any], tmp_path: Path, path: str
) -> None:
    config["runtime"]["wire"]["joinable"] = False
    with pytest.raises(ol.ConfigError, match="joinable"):
        ol.ray.loader_hosts(rewritten(config, tmp_path), mesh=ol.mesh(**MESH), cpus=1)


@pytest.mark.parametrize("call", [ol.ray.loader_hosts, ol.ray.launch])
def test_a_cluster_of_several_machines_needs_a_token(
    path: str, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.1.1.1")
    nodes = [{"Alive": True, "NodeManagerAddress": f"10.1.1.{number}"} for number in (1, 2)]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    with pytest.raises(ol.InvalidArgumentError, match=r"10\.1\.1\.2.*RAY_AUTH_MODE=token"):
        call(path, mesh=ol.mesh(**MESH), cpus=1)


def test_a_loader_host_and_a_whole_node_die(
    cluster: Any, config: dict[str, Any], path: str, sockets: Path
) -> None:
    """The last one here: the cluster has a node less afterwards."""
    with launched(path, loader_hosts=2) as job:
        in_time(
            lambda: all(item["serves"] for item in job.status()["loaders"]), "the hosts are there"
        )
        with trainers(path, MESH, engine="ray", pause_after=30) as started:
            for trainer in started:
                trainer.until("step")
            in_time(lambda: lent(sockets) >= 2, "groups of loaders live on the hosts")
            doomed, other = job.status()["loaders"]
            name = f"loaders-train-{job.status()['pid']}-1"
            ray.kill(ray.get_actor(name, namespace=job.namespace))
            [node] = [item for item in cluster.list_all_nodes() if item.node_id == doomed["node"]]
            cluster.remove_node(node, allow_graceful=False)
            in_time(lambda: not lives(doomed["pid"]) and not lives(other["pid"]), "both have died")
            go_on(started)
            assert hashes_of(started) == embedded_hashes(config, MESH)
            for trainer in started:
                trainer.until("end")
    until_all_ended(sockets)
