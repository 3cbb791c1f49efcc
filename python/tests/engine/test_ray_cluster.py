"""Jobs on a Ray cluster of four nodes: who dies is not seen in the stream; trainers know no Ray."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from many_features import JOBS
from overlord._src.native import core
from overlord._src.ray.keeper import Keeper
from overlord._src.ray.loader_host import LoaderHost
from overlord.cli import main
from ray_nodes import ray_cluster
from test_every_engine import acts_on, check_act, expected, folder, ranks_of, told_by
from test_rank_comes_back import check_refused
from test_readings import STEPS, check_readers
from test_shadows import active
from trainers import (
    Trainer,
    embedded_hashes,
    go_on,
    hashes_of,
    in_time,
    left_of,
    processes_of,
    trainers,
    trainers_on_hosts,
    until_paused,
)

import overlord as ol

__all__ = ["expected", "folder"]  # fixtures here too
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.deadline(300)
MESH = {"dp": 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Four nodes."""
    token = tmp_path_factory.mktemp("ray") / "token"
    token.write_text("of this cluster")
    with ray_cluster(4, 1, {"RAY_AUTH_TOKEN_PATH": str(token)}) as made:
        yield made


@pytest.fixture
def path(config: dict[str, Any], free_port: int, tmp_path: Path) -> str:
    config["steps"] = 60
    config["runtime"]["processes"] |= {"loaders": 6, "recovery_seconds": 600, "orphan_seconds": 600}
    for source in config["sources"].values():
        source["loaders"] = 2
    wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1", "joinable": True}
    config["runtime"]["wire"] = wire
    return rewritten(config, tmp_path)


def rewritten(config: dict[str, Any], folder: Path, name: str = "job.yaml") -> str:
    (folder / name).write_text(yaml.safe_dump(config))
    return str(folder / name)


@pytest.fixture
def elsewhere(config: dict[str, Any], path: str, tmp_path: Path, sockets: Path) -> str:
    """The same job on a host that does not see the keeper's directory."""
    runtime = {**config["runtime"], "processes": {**config["runtime"]["processes"]}}
    folder = sockets.with_name("sockets-elsewhere")
    folder.mkdir(mode=0o700)
    runtime["processes"]["directory"] = str(folder)
    return rewritten({**config, "runtime": runtime}, tmp_path, "elsewhere.yaml")


@pytest.fixture
def sizes(config: dict[str, Any], tmp_path: Path, path: str) -> dict[str, list[int]]:
    """How many loaders sources have, in turn; written into the config."""
    config["runtime"]["scaling"] = {"policy": "off"}
    for source in config["sources"].values():
        source.update(most_loaders=4, window_rows=16)
    rewritten(config, tmp_path)
    names = sorted(config["sources"])
    return {name: [4, 1, 3, 2][at:] + [4, 1, 3, 2][:at] for at, name in enumerate(names)}


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


def lent(sockets: Path, host: int | None = None) -> int:
    """How many role processes of the job live on hosts that have joined, or on that of an actor."""
    count = 0
    if host is not None:
        sockets = next(sockets.glob(f"overlord-*-j*-{host}"), Path("/nowhere"))
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


def constructors_of(sockets: Path) -> dict[int, str]:
    found = processes_of(sockets).items()
    return {pid: name for pid, name in found if "constructors" in name.partition(" of ")[0]}


def kill_keeper(job: ol.ray.Launched) -> None:
    """And wait until Ray has run it again, and it leads in the next term."""
    assert job.status()["term"] == 1
    ray.kill(job.keeper, no_restart=False)

    def again() -> bool:
        with contextlib.suppress(ray.exceptions.RayError):
            return bool(job.status()["term"] == 2)
        return False

    in_time(again, "the next keeper goes on from the journal")


@pytest.mark.parametrize("beside", [pytest.param(1, marks=pytest.mark.soak), 0])
def test_ranks_of_other_hosts_follow_a_keeper_that_dies(
    cluster: Any, config: dict[str, Any], path: str, elsewhere: str, sockets: Path, beside: int
) -> None:
    """Two trainer hosts and two without ranks; with and without ranks on the keeper's."""
    with launched(path, loader_hosts=2) as job:
        before = job.status()
        assert "in memory" in before["note"]
        paths = [path] * beside + [elsewhere] * (2 - beside)
        with trainers_on_hosts(paths, MESH, [(), ()], engine="ray", pause_after=30) as started:
            for trainer in started:
                trainer.until("step")
            in_time(lambda: lent(sockets) >= 2, "groups of loaders live on other hosts")
            constructors = constructors_of(sockets)
            assert len(constructors) == 2
            of_keeper = [name for name in constructors.values() if " constructors" in name]
            assert len(of_keeper) == beside, "of the ranks that have come to it"
            kill_keeper(job)
            assert constructors == constructors_of(sockets), "they served on"
            assert job.status()["pid"] != before["pid"]
            go_on(started)
            assert hashes_of(started) == embedded_hashes(config, MESH)
            for trainer in started:
                assert trainer.until("end")["end"] == "good"
        assert job.status()["attached"] == 0
    until_all_ended(sockets)


def test_hosts_join_and_leave_while_loaders_change_every_few_steps(
    cluster: Any,
    config: dict[str, Any],
    path: str,
    sizes: dict[str, list[int]],
    elsewhere: str,
    sockets: Path,
) -> None:
    """Four nodes: two trainer hosts, and two without ranks that come and go."""
    with (
        launched(path),
        trainers_on_hosts(
            [path, elsewhere], MESH, [(), ()], engine="ray", pause_after=40, sizes=sizes
        ) as started,
    ):
        for trainer in started:
            trainer.until("step")
        with hosts(path) as first:
            in_time(lambda: lent(sockets) > 0, "a group has moved to the first")
            with hosts(path) as second:
                [one], [other] = first.status(), second.status()
                in_time(lambda: lent(sockets, other["pid"]) > 0, "and one to the second")
                ray.kill(first.actors[0])
                in_time(lambda: not lives(one["pid"]), "the first has died")
                in_time(lambda: lent(sockets, other["pid"]) > 1, "the second has more of them")
        in_time(lambda: lent(sockets, other["pid"]) == 0, "all have handed over")
        go_on(started)
        assert hashes_of(started) == embedded_hashes(config, MESH)
        for trainer in started:
            trainer.until("end")
    until_all_ended(sockets)


def test_a_job_has_one_keeper_which_ends_when_no_rank_is_left(
    cluster: Any, config: dict[str, Any], tmp_path: Path, path: str, sockets: Path
) -> None:
    config["runtime"]["processes"]["orphan_seconds"] = 0.5
    config["runtime"]["journal"] = str(tmp_path / "journal")
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
    [folder] = (tmp_path / "journal").iterdir()
    plans = core.journal_plans(str(folder))
    planned = ol.job(path, mesh=ol.mesh(**MESH))
    first = planned.plan(plans[0][0])
    assert plans[0] == (first.step, first.content_hash, first.plan_hash) and len(plans) > 2


@pytest.mark.chaos
def test_shadows_take_over_under_ray(
    cluster: Any, config: dict[str, Any], tmp_path: Path, path: str, sockets: Path
) -> None:
    expected = embedded_hashes(config, MESH)
    for source in config["sources"].values():
        source |= {"loaders": 1, "shadows": 1}
    with (
        launched(rewritten(config, tmp_path)) as job,
        trainers(path, MESH, engine="ray", pause_after=30) as started,
    ):
        for trainer in started:
            trainer.until("step")
        at = job.status()["directory"]
        in_time(lambda: core.ask_node(at)["shadowed"] == 3, "every slot has a living shadow")
        victim = active(core.ask_node(at))
        os.kill(victim["pid"], signal.SIGKILL)
        in_time(lambda: core.ask_node(at)["restarts"] == 1, "it comes again as the shadow")
        assert core.ask_node(at)["promotions"] == int(victim["roles"]) > 0
        go_on(started)
        assert hashes_of(started) == expected
    until_all_ended(sockets)


@pytest.mark.chaos
def test_streams_are_read_again_under_ray(
    cluster: Any, config: dict[str, Any], tmp_path: Path, path: str, sockets: Path
) -> None:
    """A keeper for each of two streams that are open at the same time."""
    config["streams"] = {"valid": {"steps": STEPS, "bins": 4}}
    with launched(rewritten(config, tmp_path)), launched(path, stream="valid"):
        check_readers(path, sockets, "ray")
    until_all_ended(sockets)


@pytest.mark.chaos
def test_a_rank_that_comes_back_alone_is_refused_under_ray(cluster: Any, path: str) -> None:
    with launched(path), trainers(path, MESH, engine="ray", pause_after=5) as started:
        until_paused(started)
        started[1].kill()
        told = {"config": path, "mesh": MESH, "engine": "ray"}
        check_refused(started, Trainer(told, 1, 2, "test", 0))


@pytest.mark.chaos
def test_what_is_handed_on_may_be_written_to_under_ray(
    cluster: Any, tmp_path: Path, sockets: Path, free_port: int
) -> None:
    from test_broadcast import check_written_to, run, written_to  # for torch, which may be missing

    wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1"}
    case = written_to(tmp_path, {"processes": {"directory": str(sockets)}, "wire": wire})
    case["config"] = rewritten(case["config"], tmp_path)
    job = ol.ray.launch(case["config"], mesh=ol.mesh(**case["mesh"]))
    check_written_to(case, run(tmp_path, [case], "ray", per_host=4))
    job.close()
    until_all_ended(sockets)


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


def memory_has(pid: int, *wanted: bytes) -> set[bytes]:
    """Which of these are in the memory of a process."""
    found = set()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split()
            if not words[1].startswith("rw") or "/dev/shm" in line:  # its store of objects is empty
                continue
            first, last = (int(word, 16) for word in words[0].split("-"))
            with contextlib.suppress(OSError, ValueError):
                memory.seek(first)
                held = memory.read(last - first)
                found |= {item for item in wanted if item in held}
    return found


def processes_of_ray(cluster: Any) -> dict[int, str]:
    """Those that hold its state: the GCS, and each node's raylet."""
    return {
        info.process.pid: kind
        for node in cluster.list_all_nodes()
        for kind, infos in node.all_processes.items()
        for info in infos
        if kind in ("gcs_server", "raylet")
    }


@pytest.mark.chaos
def test_groups_on_a_host_that_ray_places_keep_the_contract(
    cluster: Any, tmp_path: Path, free_port: int
) -> None:
    """The suite of runtime/cluster.h: its lead is here, its groups are where the actor is."""
    suite = Path(__file__).parents[3] / "build/bin/overlord_integration_test"
    if not suite.exists():
        pytest.skip("the tests of the engine are not built")

    class Host:
        def __init__(self, command: list[str], environment: dict[str, str]) -> None:
            everything = {**os.environ, **environment}
            self._host = subprocess.Popen(command, stdin=subprocess.PIPE, env=everything)

        def pid(self) -> int:
            return self._host.pid

    told = {
        "OVERLORD_CONFORMANCE_FOLDER": str(tmp_path),
        "OVERLORD_CONFORMANCE_LEAD": f"127.0.0.1:{free_port}",
    }
    (tmp_path / "joined").mkdir(mode=0o700)
    own = {**told, "OVERLORD_CONFORMANCE_HOST": str(tmp_path / "joined")}
    words = [str(suite), "--gtest_filter=JoinedHostOfTheSuite.*"]
    actor = ray.remote(num_cpus=1, max_restarts=0)(Host).remote(words, own)
    pid = ray.get(actor.pid.remote(), timeout=60)
    # Where one lead stops while it places, another is here: there is one address for both.
    words = [str(suite), "--gtest_filter=*ClusterConformance.*/joined:-*StopWins*"]
    done = subprocess.run(words, env={**os.environ, **told}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "[  PASSED  ] 7 tests" in done.stdout, done.stdout
    ray.kill(actor)
    in_time(lambda: not lives(pid), "the host has ended with its actor")


def test_ray_is_told_no_secret(
    cluster: Any, config: dict[str, Any], tmp_path: Path, path: str, secrets: dict[str, str]
) -> None:
    """Neither its processes have one in memory, nor its files, nor the job's actors."""
    config["runtime"]["wire"] |= secrets
    hidden = [
        Path(secrets["token"].removeprefix("file:")).read_bytes().strip(),
        *(Path(secrets[key]).read_bytes().splitlines()[1] for key in ("key", "certificate")),
    ]
    with launched(rewritten(config, tmp_path), loader_hosts=1) as job:
        in_time(lambda: bool(job.status()["loaders"][0].get("serves")), "the host is there")
        told = path.encode()
        seen = {}
        for pid, kind in processes_of_ray(cluster).items():
            seen.setdefault(kind, set()).update(memory_has(pid, told, *hidden))
        assert told in seen["gcs_server"], "arguments of actors are there, and are found"
        assert not set().union(*seen.values()) & set(hidden), seen
        for pid in (job.status()["pid"], job.status()["loaders"][0]["pid"]):
            assert memory_has(pid, told, *hidden) == {told}
        folder = Path(cluster.head_node.get_session_dir_path())
        for file in folder.rglob("*"):
            if file.is_file():
                held = file.read_bytes()
                assert not any(item in held for item in hidden), file


def test_a_job_that_nobody_can_join_is_refused(
    cluster: Any, config: dict[str, Any], tmp_path: Path, path: str
) -> None:
    config["runtime"]["wire"]["joinable"] = False
    with pytest.raises(ol.ConfigError, match="joinable"):
        ol.ray.loader_hosts(rewritten(config, tmp_path), mesh=ol.mesh(**MESH), cpus=1)


@pytest.mark.parametrize("call", [ol.ray.loader_hosts, ol.ray.launch])
def test_a_cluster_beyond_loopback_needs_a_token(
    path: str, monkeypatch: pytest.MonkeyPatch, call: Any
) -> None:
    """Also of a single one, where it listens to others."""
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    nodes = [
        {"Alive": True, "NodeManagerAddress": address} for address in ("127.0.0.1", "10.1.1.2")
    ]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    with pytest.raises(ol.InvalidArgumentError, match=r"10\.1\.1\.2.*RAY_AUTH_MODE=token"):
        call(path, mesh=ol.mesh(**MESH), cpus=1)
    for actor in (lambda: Keeper(None, None), lambda: LoaderHost(None, "", 1, 1)):  # type: ignore[arg-type]
        with pytest.raises(ol.InvalidArgumentError, match="RAY_AUTH_MODE=token"):
            actor()


# A keeper takes seconds to come: one of them stands for all, and `make ray` has the others.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "raw" else pytest.mark.chaos) for name in JOBS]
)
def test_as_in_one_process_under_ray(
    cluster: Any, name: str, expected: Any, folder: Path, sockets: Path, free_port: int
) -> None:
    """Many features at once: half of the ranks on the keeper's host, the others elsewhere."""
    features, whole = expected(name)
    acts = acts_on("ray", features, folder, sockets, free_port)
    with ranks_of(features, "ray", acts) as started:
        for number, (act, told) in enumerate(zip(features.acts, whole, strict=True)):
            path, mesh = acts[0][number]["config"], ol.mesh(**features.mesh)
            job = ol.ray.launch(path, mesh=mesh, stream=act["stream"], hash=True, seconds=240)
            check_act(told_by(started, act.get("readings", 1)), told)
            job.close()
    for place in sockets.iterdir():
        until_all_ended(place)


def test_a_loader_host_and_a_whole_node_die_while_loaders_change(
    cluster: Any, config: dict[str, Any], path: str, sizes: dict[str, list[int]], sockets: Path
) -> None:
    """The last one here: the cluster has a node less afterwards."""
    with launched(path, loader_hosts=2) as job:
        in_time(
            lambda: all(item["serves"] for item in job.status()["loaders"]), "the hosts are there"
        )
        with trainers(path, MESH, engine="ray", pause_after=30, sizes=sizes) as started:
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
