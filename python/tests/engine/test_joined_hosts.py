"""Hosts without ranks: they join a job, run its loaders, leave and die; the stream is the same."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from namespaces import ADDRESSES, network, private_mounts
from overlord._src.node.memory_group import GroupTree
from overlord._src.node.watch import NodeWatch
from overlord.cli import main
from trainers import (
    embedded_hashes,
    go_on,
    hashes_of,
    in_time,
    processes_of,
    trainers,
    trainers_on_hosts,
    until_nothing_left,
    until_paused,
)
from warm_python import warm_command

MESH = {"dp": 2}


@pytest.fixture
def joinable(config: dict[str, Any], free_port: int) -> dict[str, Any]:
    """A job of several loader groups that others may join."""
    config["runtime"]["processes"]["loaders"] = 6
    for source in config["sources"].values():
        source["loaders"] = 2
        source["workers"] = 64  # more than any host has cores: all are used
    wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1", "joinable": True}
    config["runtime"]["wire"] = wire
    config["runtime"]["prefetch"] = 1
    return config


def written(config: dict[str, Any], folder: Path, name: str = "job.yaml") -> str:
    path = folder / name
    path.write_text(yaml.safe_dump(config))
    return str(path)


class JoinedHost:
    """`overlord serve --join` as a process."""

    def __init__(self, path: str, folder: Path, *words: str, prefix: Sequence[str] = ()) -> None:
        config = yaml.safe_load(Path(path).read_text())
        lead = config["runtime"]["wire"]["planner"]
        self.directory = folder
        command = ["serve", path, "--mesh", "dp=2", "--hash", "--join", lead]
        self.process = warm_command(*command, "--directory", str(folder), *words, prefix=prefix)

    def roles(self) -> dict[int, str]:
        """Of the lead that live here."""
        found = processes_of(self.directory)
        return {pid: name for pid, name in found.items() if name.startswith("overlord: ")}

    def lose(self) -> None:
        """As if its host had lost power."""
        for pid in processes_of(self.directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


@contextlib.contextmanager
def joined(
    path: str, folder: Path, *words: str, prefix: Sequence[str] = ()
) -> Iterator[JoinedHost]:
    host = JoinedHost(path, folder, *words, prefix=prefix)
    try:
        yield host
    finally:
        host.lose()


def test_loaders_live_on_hosts_that_have_joined(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    joinable["steps"] = 40
    path = written(joinable, tmp_path)
    joinable["runtime"]["processes"]["memory_share"] = 0.9
    joinable["runtime"]["payload_budget"] = "8MB"
    with (
        joined(written(joinable, tmp_path, "host.yaml"), tmp_path / "a") as host,
        trainers(path, MESH, engine="processes", pause_after=20) as started,
    ):
        until_paused(started)
        in_time(lambda: len(host.roles()) >= 3, "half of the groups live there")
        assert main(["doctor", path]) in (0, 1)
        told = capsys.readouterr().out
        assert "job processes: lead" in told
        assert "job processes: joined-" in told
        assert "dealt by cores" in told
        seen = NodeWatch.of(str(next(sockets.rglob("node")).parent)).look()
        lead, there = seen["hosts"]
        assert lead["ranks"] and not there["ranks"]
        assert there["gives"]["memory_bytes"] > lead["gives"]["memory_bytes"] == 0
        assert lead["groups"] + there["groups"] == 6
        elsewhere = [item for item in seen["processes"] if item["host"].startswith("joined-")]
        assert len(elsewhere) == len(host.roles())
        assert all(item["memory"] is None for item in elsewhere)
        for trainer in started:
            trainer.go()
        assert hashes_of(started) == embedded_hashes(joinable, MESH)
        for trainer in started:
            trainer.until("end")
        in_time(lambda: not host.roles(), "its groups have ended with the job")
        assert host.end() == 0
    until_nothing_left(sockets)


def hidden(folder: Path) -> list[str]:
    """Words that start a command on a host where this folder is empty."""
    script = f'mount -t tmpfs none {folder} && exec "$@"'
    words = ["unshare", "-m", "sh", "-c", script, "sh"]
    if subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mounts of our own here")
    return words


def test_a_host_that_lacks_files_has_none_of_their_loaders(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path
) -> None:
    joinable["steps"] = 40
    (tmp_path / "away").mkdir()
    own = tmp_path / "away" / "web.parquet"
    (tmp_path / "web.parquet").rename(own)
    joinable["sources"]["web"]["files"] = str(own)
    expected = embedded_hashes(joinable, MESH)  # its index is there, for everybody
    path = written(joinable, tmp_path)
    with (
        joined(path, tmp_path / "a", prefix=hidden(own.parent)) as host,
        trainers(path, MESH, engine="processes", pause_after=20) as started,
    ):
        until_paused(started)
        in_time(lambda: len(host.roles()) >= 3, "its part of the groups lives there")
        seen = NodeWatch.of(str(next(sockets.rglob("node")).parent)).look()
        lead, there = seen["hosts"]
        assert (lead["gives"]["lacks"], there["gives"]["lacks"]) == ([], ["web"])
        told = f"; not on {there['name']}, which lacks the files of web"
        readers = [item for item in seen["processes"] if told in item["why"]]
        assert [item["host"] for item in readers] == ["", ""]
        for trainer in started:
            trainer.go()
        assert hashes_of(started) == expected


def test_a_host_needs_the_index_of_what_it_lacks(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "web.parquet").unlink()
    with joined(written(joinable, tmp_path), tmp_path / "a") as host:
        assert host.process.wait(60) != 0
    assert "web.parquet" in capfd.readouterr().err


def test_the_placement_is_told_beforehand(
    joinable: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for source in joinable["sources"].values():
        source["workers"] = 2
    path = written(joinable, tmp_path)
    # Twelve workers, for four cores that planner and constructors leave on each.
    processes = placement(path, capsys, "6,5", "--cpu-hosts", "4")
    hosts = [item["host"] for item in processes]
    for name in ("lead", "host 1", "cpu host 1"):
        assert hosts.count(name) == 2
    assert hosts[-1] == "that of its ranks"
    whys = {item["host"]: item["why"] for item in processes}
    assert "come first: 8 cores, loaders can use 12 cores" in whys["lead"]
    assert "8 cores to spare, loaders can use 12 cores" in whys["cpu host 1"]
    hosts = [item["host"] for item in placement(path, capsys, "14", "--cpu-hosts", "4")]
    assert hosts.count("lead") == 6
    near = placement(path, capsys, "14", "--cpu-hosts", "4:web")
    drawn = [item for item in near if item["why"] == "its files lie on disks of this host"]
    assert [item["host"] for item in drawn] == ["cpu host 1"] * 2
    words = ["--placement", "2", "--cpu-hosts", "4:nobody"]
    assert main(["plan", path, "--mesh", "dp=2", *words]) == 2
    assert "no source 'nobody'" in capsys.readouterr().err
    for words in (["--placement", "2,0"], ["--placement", "2", "--cpu-hosts", "x"]):
        assert main(["plan", path, "--mesh", "dp=2", *words]) == 2
        assert words[-2] in capsys.readouterr().err
    assert main(["plan", path, "--mesh", "dp=2", "--cpu-hosts", "2"]) == 2
    assert "is of --placement" in capsys.readouterr().err


def test_the_placement_knows_what_sources_cost(
    joinable: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    joinable["sources"]["web"]["loaders"] = 1
    joinable["runtime"]["processes"]["isolate"] = ["web"]
    embedded_hashes(joinable, MESH)
    for path in Path(joinable["index_dir"]).glob("*.profile"):
        profile = json.loads(path.read_text())
        work = 9_000_000 if profile["source"] == "web" else 1_000_000
        profile["stages"]["decode"]["ns"] = work
        for stage in ("python", "tokenise", "media"):
            profile["stages"][stage]["ns"] = 0
        profile["elapsed_ns"] = 1_000_000_000
        path.write_text(json.dumps(profile))
    processes = placement(written(joinable, tmp_path), capsys, "2")
    cores = [item["cores"] for item in processes if item["cores"]]
    assert len(cores) == 5
    assert cores[-1] == pytest.approx(9 / 11 * 320, abs=0.1)  # of 5 slots with 64 workers each
    assert cores[0] == pytest.approx(1 / 22 * 320, abs=0.1)


def placement(path: str, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """What `overlord plan --placement` tells of every process."""
    capsys.readouterr()
    assert main(["plan", path, "--mesh", "dp=2", "--json", "--placement", *words]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["processes"]
    return found


def test_a_host_that_joins_late_is_used_and_one_that_leaves_hands_over(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path
) -> None:
    joinable["steps"] = 90
    path = written(joinable, tmp_path)
    with trainers(path, MESH, engine="processes", pause_after=60) as started:
        for trainer in started:
            trainer.until("step")
        with joined(path, tmp_path / "a") as first:
            in_time(lambda: bool(first.roles()), "a group has moved to the first")
            half = max(1, len(os.sched_getaffinity(0)) // 2)
            with joined(path, tmp_path / "b", "--cores", str(half)) as second:
                in_time(lambda: bool(second.roles()), "a group has moved to the second")
                cores = {len(os.sched_getaffinity(pid)) for pid in second.roles()}
                assert cores <= {half}  # its share is enforced
                second.lose()
            assert first.end() == 0
        go_on(started)
        assert hashes_of(started) == embedded_hashes(joinable, MESH)
        for trainer in started:
            trainer.until("end")
    until_nothing_left(sockets)


def test_a_dead_group_on_a_joined_host_comes_again(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path
) -> None:
    joinable["steps"] = 60
    path = written(joinable, tmp_path)
    with (
        joined(path, tmp_path / "a") as host,
        trainers(path, MESH, engine="processes", pause_after=30) as started,
    ):
        for trainer in started:
            trainer.until("step")
        in_time(lambda: bool(host.roles()), "a group of loaders lives there")
        before = host.roles()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        in_time(lambda: bool(host.roles().keys() - before.keys()), "it lives there again")
        go_on(started)
        assert hashes_of(started) == embedded_hashes(joinable, MESH)


@pytest.mark.skipif(not GroupTree().obstacle(), reason="the kernel would be faster")
def test_a_host_that_is_short_of_memory_hands_its_groups_over(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    joinable["steps"] = 60
    path = written(joinable, tmp_path)
    joinable["runtime"]["processes"]["memory_share"] = 1e-4  # less than any process has
    joinable["runtime"]["payload_budget"] = "1KB"
    with trainers(path, MESH, engine="processes", pause_after=30) as started:
        for trainer in started:
            trainer.until("step")
        with joined(written(joinable, tmp_path, "host.yaml"), tmp_path / "a") as host:
            in_time(lambda: bool(host.roles()), "groups have moved there")
            in_time(lambda: not host.roles(), "and back, one after another")
            go_on(started)
            assert hashes_of(started) == embedded_hashes(joinable, MESH)
    assert "is short of memory: it has one group less" in capfd.readouterr().err


def test_a_host_serves_one_run_after_another(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path
) -> None:
    path = written(joinable, tmp_path)
    expected = embedded_hashes(joinable, MESH)
    with joined(path, tmp_path / "a") as host:
        for run in range(2):
            with trainers(path, MESH, engine="processes", run=str(run), pause_after=2) as started:
                in_time(lambda: bool(host.roles()), "a group of loaders lives there")
                go_on(started)
                assert hashes_of(started) == expected
                for trainer in started:
                    trainer.until("end")
            in_time(lambda: not host.roles(), "its groups have ended with the run")


def test_a_host_of_another_job_is_sent_away(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = written(joinable, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    with trainers(path, MESH, engine="processes", pause_after=2) as started:
        until_paused(started)
        with joined(written({**joinable, "seed": 6}, other), tmp_path / "a") as host:
            assert host.process.wait(60) == 1
        for trainer in started:
            trainer.go()
        assert hashes_of(started) == embedded_hashes(joinable, MESH)
    assert "the job of this host differs" in capfd.readouterr().err


def test_cores_are_of_hosts_that_join(
    joinable: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(joinable, tmp_path)
    for words in (["--cores", "1"], ["--join", "127.0.0.1:1", "--cores", "100000"]):
        assert main(["serve", path, "--mesh", "dp=2", *words]) == 2
        assert "--cores" in capsys.readouterr().err


def test_shadows_live_on_another_host(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path
) -> None:
    joinable["steps"] = 60
    expected = embedded_hashes(joinable, MESH)
    for source in joinable["sources"].values():
        source["shadows"] = 1
    path = written(joinable, tmp_path)
    with (
        joined(path, tmp_path / "a") as host,
        trainers(path, MESH, engine="processes", pause_after=30) as started,
    ):
        for trainer in started:
            trainer.until("step")
        in_time(lambda: len(host.roles()) >= 3, "half of the groups live there")
        host.lose()
        go_on(started)
        assert hashes_of(started) == expected


def test_four_hosts_with_private_mounts_give_the_same_stream(
    joinable: dict[str, Any], sockets: Path, tmp_path: Path, secrets: dict[str, str]
) -> None:
    """Two have ranks and two have none, which join and leave while the job runs."""
    joinable["steps"] = 80
    expected = embedded_hashes(joinable, MESH)
    with network(4), private_mounts(4, [sockets]) as prefixes:
        wire = {**secrets, "planner": f"{ADDRESSES[0]}:7400", "joinable": True}
        paths = []
        for address in ADDRESSES:
            joinable["runtime"]["wire"] = {**wire, "host": address}
            paths.append(written(joinable, tmp_path, f"{address}.yaml"))
        with trainers_on_hosts(
            paths[:2], MESH, prefixes[:2], engine="processes", pause_after=50
        ) as started:
            for trainer in started:
                trainer.until("step")
            with joined(paths[2], sockets / "a", prefix=prefixes[2]) as first:
                in_time(lambda: bool(first.roles()), "a group has moved to the first")
                with joined(paths[3], sockets / "b", prefix=prefixes[3]) as second:
                    in_time(lambda: bool(second.roles()), "a group has moved to the second")
                    second.lose()
                assert first.end() == 0
            go_on(started)
            assert hashes_of(started) == expected
            for trainer in started:
                trainer.until("end")
