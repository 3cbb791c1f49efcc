"""What becomes of a job when Ray's own state (GCS) dies, with a store behind it and without.

`make ray` runs these; they take minutes.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray_nodes import ray_cluster
from trainers import embedded_hashes, hashes_of, in_time, processes_of, trainers

import overlord as ol

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.chaos
MESH = {"dp": 2}
PAUSE = 20  # steps
# Ray's processes end when its state has been gone for so long; 60 s by default.
PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s"


@contextlib.contextmanager
def redis(folder: Path, port: int) -> Iterator[str]:
    """Debian's, with nothing on a disk."""
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server here: apt-get install redis-server")
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with subprocess.Popen([*command, "--save", ""], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            in_time(lambda: "Ready to accept" in server.stdout.readline(), "redis is there")
            yield f"127.0.0.1:{port}"
        finally:
            server.kill()


def cluster(environment: dict[str, str], port: int) -> Any:
    """Two nodes, whose GCS listens at the same port when it is started again."""
    told = {"RAY_AUTH_TOKEN": "of this cluster", **environment}
    return ray_cluster(2, 2, told, gcs_server_port=port)


@pytest.fixture
def ports() -> list[int]:
    """Three that nobody uses."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(3)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@pytest.fixture
def path(config: dict[str, Any], ports: list[int], tmp_path: Path) -> str:
    config["steps"] = 60
    config["runtime"]["processes"] |= {"recovery_seconds": 20, "orphan_seconds": 20}
    wire = {"planner": f"127.0.0.1:{ports[0]}", "host": "127.0.0.1", "joinable": True}
    config["runtime"]["wire"] = wire
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(config))
    return str(tmp_path / "job.yaml")


def answer_of_somebody() -> int:
    """A new actor's. Ray does not even take the order while its state is away."""

    class Somebody:
        def answer(self) -> int:
            return 1

    asked = ray.remote(num_cpus=0.1)(Somebody).remote().answer.remote()
    answer: int = ray.get(asked, timeout=300)
    return answer


def test_with_a_store_its_death_is_not_seen_but_nothing_new_is_placed(
    config: dict[str, Any], path: str, ports: list[int], tmp_path: Path
) -> None:
    with (
        redis(tmp_path, ports[1]) as address,
        cluster({"RAY_REDIS_ADDRESS": address, PATIENCE: "600"}, ports[2]) as made,
    ):
        job = ol.ray.launch(path, mesh=ol.mesh(**MESH), hash=True, loader_hosts=1, seconds=500)
        assert "in memory" not in job.status()["note"]
        keeper = job.status()["pid"]
        with trainers(path, MESH, engine="ray", pause_after=PAUSE) as started:
            for trainer in started:
                trainer.until("paused")
            made.head_node.kill_gcs_server()
            for trainer in started:
                trainer.go()
            assert hashes_of(started) == embedded_hashes(config, MESH)
            asked = ThreadPoolExecutor(1).submit(answer_of_somebody)
            with pytest.raises(StillWaiting):
                asked.result(2.0)
            made.head_node.start_gcs_server()
            assert asked.result(300) == 1
        assert job.status()["pid"] == keeper, "it has not been run again"
        job.close()


def test_without_a_store_ray_ends_its_processes_and_the_job_restarts_exactly(
    config: dict[str, Any], path: str, ports: list[int], sockets: Path
) -> None:
    with cluster({PATIENCE: "5"}, ports[2]) as made:
        job = ol.ray.launch(path, mesh=ol.mesh(**MESH), hash=True, seconds=500)
        assert "in memory" in job.status()["note"], "said beforehand"
        leader = job.status()["leader"]
        ray.shutdown()  # it would end this process too
        with trainers(path, MESH, engine="ray", pause_after=PAUSE, tells_states=True) as started:
            for trainer in started:
                trainer.until("paused")
            state = next(word["kept"] for word in started[0].words if word.get("at") == PAUSE)
            made.head_node.kill_gcs_server()

            def ended() -> bool:
                for node in made.list_all_nodes():
                    for info in node.all_processes["raylet"]:
                        info.process.poll()  # else its workers think that it lives
                return leader not in processes_of(sockets)

            in_time(ended, "Ray has ended the keeper")
            for trainer in started:
                trainer.go()
            for trainer in started:
                word = trainer.until("end")
                assert word["error"] == "UnavailableError", word
    in_time(lambda: not processes_of(sockets), "nothing is left")
    undisturbed = ol.job(config, mesh=ol.mesh(**MESH)).train(0, hash=True, engine="embedded")
    assert len(list(undisturbed.steps())) == config["steps"]
    with trainers(path, MESH, engine="processes", state=state, run="again") as started:
        for trainer in started:
            assert trainer.until("content")["content"] == undisturbed.content_hash()
