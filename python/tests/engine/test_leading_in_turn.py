"""The host that leads dies, and the next of the list goes on: the stream is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hosts_in_turn import MESH, Host, ended_at_last, in_turn, three_hosts, written
from namespaces import LINKS, NAMES, run
from overlord.cli import main
from trainers import embedded_hashes, hashes_of, in_time, trainers, trainers_on_hosts, until_paused

import overlord as ol

pytestmark = pytest.mark.deadline(180)


@pytest.fixture
def addresses(free_port: int) -> list[str]:
    return [f"127.0.0.1:{free_port + more}" for more in (0, 1)]


def go(started: list[Any]) -> None:
    for trainer in started:
        trainer.go()


def test_the_lead_dies_and_another_host_goes_on(
    config: dict[str, Any], sockets: Path, tmp_path: Path, addresses: list[str]
) -> None:
    """First one dies, then the other, for which it has come back."""
    config["steps"] = 90
    expected = embedded_hashes(config, MESH)
    path = written(in_turn(config, addresses, tmp_path / "journal"), tmp_path / "job.yaml")
    first, second = (
        Host(path, tmp_path / f"host-{number}", at) for number, at in enumerate(addresses)
    )
    hosts = [first, second]
    with ended_at_last(hosts), trainers(path, MESH, engine="processes", pause_every=30) as started:
        until_paused(started)
        in_time(lambda: second.stands_by(first), "the second stands by")
        assert not second.leads()
        first.lose()
        go(started)
        until_paused(started)
        assert second.look()["term"] == 2
        hosts.append(again := Host(path, tmp_path / "host-0", addresses[0]))
        in_time(lambda: again.stands_by(second), "the first is back, and stands by")
        second.lose()
        go(started)
        until_paused(started)
        assert again.look()["term"] == 3
        go(started)
        assert hashes_of(started) == expected
        for trainer in started:
            assert trainer.until("end")["end"] == "good"
        assert again.end() == 0


def test_hosts_with_private_mounts_die_whole(
    config: dict[str, Any], sockets: Path, tmp_path: Path, secrets: dict[str, str]
) -> None:
    """The one that stands by dies, then the one that leads."""
    config["steps"] = 90
    expected = embedded_hashes(config, MESH)
    with (
        three_hosts(config, sockets, tmp_path, secrets) as hosts,
        trainers_on_hosts(hosts.paths[:1], MESH, hosts.prefixes[:1], pause_every=30) as started,
    ):
        first, second = hosts.start(0), hosts.start(1)
        until_paused(started)
        in_time(lambda: second.stands_by(first), "the second stands by")
        second.lose()
        go(started)
        until_paused(started)
        again = hosts.start(1)
        in_time(lambda: again.stands_by(first), "it is back")
        first.lose()
        go(started)
        until_paused(started)
        assert again.look()["term"] == 2
        go(started)
        assert hashes_of(started) == expected


def test_a_lead_that_was_only_cut_off_stands_by_when_it_is_back(
    config: dict[str, Any], sockets: Path, tmp_path: Path, secrets: dict[str, str]
) -> None:
    config["steps"] = 60
    expected = embedded_hashes(config, MESH)
    with (
        three_hosts(config, sockets, tmp_path, secrets) as hosts,
        trainers_on_hosts(hosts.paths[:1], MESH, hosts.prefixes[:1], pause_every=30) as started,
    ):
        first, second = hosts.start(0), hosts.start(1)
        until_paused(started)
        in_time(lambda: second.stands_by(first), "the second stands by")
        run("ip", "-n", NAMES[1], "link", "set", LINKS[1], "down")
        go(started)
        until_paused(started)
        assert second.look()["term"] == 2
        run("ip", "-n", NAMES[1], "link", "set", LINKS[1], "up")
        in_time(lambda: first.stands_by(second), "the first has found who leads now")
        assert not first.leads()
        go(started)
        assert hashes_of(started) == expected


def serve(path: str, *words: str) -> int:
    return main(["serve", path, "--mesh", "dp=2", *words])


def test_what_cannot_lead_in_turn_is_refused_by_name(
    config: dict[str, Any], sockets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    addresses = ["240.0.0.1:7400", "240.0.0.2:7400"]
    in_turn(config, addresses, tmp_path / "journal")
    path = written(config, tmp_path / "job.yaml")
    assert serve(path) == 2
    assert "none of its addresses is of this host" in capsys.readouterr().err
    assert serve(path, "--at", "240.0.0.3:7400") == 2
    assert "not of runtime.wire.planner" in capsys.readouterr().err
    assert serve(path, "--at", addresses[0], "--ranks", "0") == 2
    assert "has no ranks" in capsys.readouterr().err
    (tmp_path / "journal").rmdir()
    assert serve(path, "--at", addresses[0]) == 2
    assert "is not there on this host" in capsys.readouterr().err
    assert not (tmp_path / "journal").exists()
    config["runtime"]["wire"]["planner"] = addresses[0]
    assert serve(written(config, tmp_path / "one.yaml"), "--at", addresses[0]) == 2
    assert "--at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("runtime", "says"),
    [
        ({"journal": None}, "runtime.journal.*goes on from the journal"),
        ({"wire": {"planner": ["a:1", "a:1"]}}, r"wire\.planner\.1.*twice"),
        ({"wire": {"planner": ["a:1", "b"]}}, r"wire\.planner\.1.*no address.*HOST:PORT"),
        ({"wire": {"planner": ["a:1,b:2", "c:3"]}}, r"wire\.planner\.0.*no address"),
        ({"wire": {"planner": []}}, "planner"),
        ({"processes": {"recovery_seconds": 0}}, "recovery_seconds.*takes over"),
    ],
)
def test_a_list_that_cannot_be_is_refused(
    config: dict[str, Any], tmp_path: Path, runtime: dict[str, Any], says: str
) -> None:
    in_turn(config, ["a:1", "b:2"], tmp_path / "journal")
    with pytest.raises(ol.ConfigError, match=f"(?s){says}"):
        ol.job({**config, "runtime": {**config["runtime"], **runtime}}, mesh=ol.mesh(**MESH))


def test_ray_runs_its_keeper_at_one_address(config: dict[str, Any], tmp_path: Path) -> None:
    in_turn(config, ["a:1", "b:2"], tmp_path / "journal")
    with pytest.raises(ol.ConfigError, match=r"planner.*one address"):
        ol.job(config, mesh=ol.mesh(**MESH)).train(0, engine="ray")


def test_a_host_that_does_not_share_the_folder_is_sent_away(
    config: dict[str, Any], sockets: Path, tmp_path: Path, addresses: list[str]
) -> None:
    """It is there on that host, and another one: an empty folder where nothing was mounted."""
    path = written(in_turn(config, addresses, tmp_path / "journal"), tmp_path / "job.yaml")
    config["runtime"]["journal"] = str(tmp_path / "another")
    (tmp_path / "another").mkdir(mode=0o700)
    other = written(config, tmp_path / "other.yaml")
    first = Host(path, tmp_path / "host-0", addresses[0])
    second = Host(other, tmp_path / "host-1", addresses[1])
    with ended_at_last([first, second]):
        assert second.process.wait(60) == 1
        told = second.log.read_text()
        assert "does not show what another host has made" in told
        assert "runtime.journal" in told
        assert first.end() == 0
