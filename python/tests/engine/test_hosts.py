"""Several hosts: one planner and one set of readers for all, over the wire; the stream is the same.

Hosts are network namespaces with addresses of their own, joined by veth; what is between them is
encrypted. Where namespaces cannot be made (no privilege) only the loopback form runs.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from namespaces import ADDRESSES, LINKS, NAMES, network, run
from reported import more_of_the_worst
from trainers import (
    embedded_hashes,
    go_on,
    hashes_of,
    in_time,
    kill_all,
    processes_of,
    trainers_on_hosts,
    until_nothing_left,
)

import overlord as ol

PORTS = itertools.count(7411)  # one each: who ends may still hold the last one


@pytest.fixture(scope="module")
def namespaces() -> Iterator[None]:
    """Two hosts that see nothing but each other."""
    with network(2):
        yield


def on_hosts(config: dict[str, Any], wire: dict[str, str], own: list[str]) -> list[dict[str, Any]]:
    return [
        {**config, "runtime": {**config["runtime"], "wire": {**wire, "host": address}}}
        for address in own
    ]


def in_namespaces(config: dict[str, Any], secrets: dict[str, str]) -> Any:
    wire = {**secrets, "planner": f"{ADDRESSES[0]}:{next(PORTS)}"}
    prefixes = [["ip", "netns", "exec", name] for name in NAMES[:2]]
    return on_hosts(config, wire, list(ADDRESSES[:2])), prefixes


@pytest.mark.parametrize(
    "mesh", [{"dp": 2}, {"dp": 2, "tp": 2}, {"pp": 2, "dp": 2}], ids=["dp", "dp-tp", "pp-dp"]
)
def test_hosts_on_loopback_give_the_same_stream(
    config: dict[str, Any],
    sockets: Path,
    mesh: dict[str, int],
    free_port: int,
) -> None:
    wire = {"planner": f"127.0.0.1:{free_port}"}
    configs = on_hosts(config, wire, ["127.0.0.1", "127.0.0.1"])
    with trainers_on_hosts(configs, mesh, [[], []]) as started:
        assert hashes_of(started) == embedded_hashes(config, mesh)
        for trainer in started:
            trainer.until("end")
    until_nothing_left(sockets, "nothing is left on either host")


def test_hosts_in_namespaces_give_the_same_stream(
    config: dict[str, Any],
    sockets: Path,
    secrets: dict[str, str],
    namespaces: None,
) -> None:
    mesh = {"pp": 2, "dp": 2, "tp": 2}
    configs, prefixes = in_namespaces(config, secrets)
    with trainers_on_hosts(configs, mesh, prefixes) as started:
        assert hashes_of(started) == embedded_hashes(config, mesh)


@pytest.mark.parametrize("victim", ["loaders", "constructors", "h1-constructors"])
def test_a_dead_role_process_is_replaced_across_hosts(
    config: dict[str, Any],
    sockets: Path,
    secrets: dict[str, str],
    namespaces: None,
    victim: str,
) -> None:
    config["steps"] = 60
    configs, prefixes = in_namespaces(config, secrets)
    with trainers_on_hosts(configs, {"dp": 2}, prefixes, pause_after=20) as started:
        for trainer in started:
            for _ in range(5):
                trainer.until("step")
        in_time(lambda: kill_all(sockets, victim), "there is one to kill")
        go_on(started)
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})


def test_without_tls_nothing_opens_between_hosts(
    config: dict[str, Any],
    sockets: Path,
    namespaces: None,
) -> None:
    config["runtime"]["processes"]["attach_seconds"] = 10
    configs, prefixes = in_namespaces(config, {})
    with trainers_on_hosts(configs, {"dp": 2}, prefixes) as started:
        for trainer in started:
            assert trainer.until("end")["end"] == "bad"


def test_a_cut_between_hosts_is_a_clear_stop(
    config: dict[str, Any],
    sockets: Path,
    secrets: dict[str, str],
    namespaces: None,
) -> None:
    config["steps"] = 100_000
    configs, prefixes = in_namespaces(config, secrets)
    with trainers_on_hosts(configs, {"dp": 2}, prefixes) as started:
        for trainer in started:
            trainer.until("step")
        run("ip", "-n", NAMES[1], "link", "set", LINKS[1], "down")
        try:
            word = started[1].until("end")
            assert (word["end"], word["error"]) == ("bad", "UnavailableError")
        finally:
            run("ip", "-n", NAMES[1], "link", "set", LINKS[1], "up")
            os.kill(started[0].process.pid, signal.SIGKILL)


@pytest.mark.deadline(180)
@pytest.mark.parametrize("kind", ["odm", "rule"])
@pytest.mark.parametrize("reports", [[0, 1, 2, 3], [2]], ids=["all", "one-follower"])
def test_ranks_of_all_hosts_report_to_one_planner(
    config: dict[str, Any],
    sockets: Path,
    secrets: dict[str, str],
    namespaces: None,
    kind: str,
    reports: list[int],
) -> None:
    schedule = {"kind": kind, "version": 1} if kind == "rule" else {"kind": kind}
    feedback = {"delay": 3, "reporters": reports}
    config["mixture"] |= {"schedule": schedule, "feedback": feedback}
    mesh = {"dp": 2, "tp": 2}
    rule = ol.mix.rule(more_of_the_worst, version=1) if kind == "rule" else None
    expected = embedded_hashes(config, mesh, reports, rule)
    configs, prefixes = in_namespaces(config, secrets)
    named = "more_of_the_worst" if kind == "rule" else None
    with trainers_on_hosts(configs, mesh, prefixes, reports=reports, rule=named) as started:
        assert hashes_of(started) == expected
        for trainer in started:
            trainer.until("end")
    until_nothing_left(sockets, "nothing is left on either host")


@pytest.mark.deadline(180)
def test_a_lead_that_cannot_open_the_job_tells_the_other_hosts(
    config: dict[str, Any], secrets: dict[str, str], namespaces: None
) -> None:
    configs, prefixes = in_namespaces(config, secrets)
    broken = "def fail(): raise OSError('the disk of rank 0 is gone')\nbefore_the_job(fail)"
    with trainers_on_hosts(configs, {"dp": 2}, prefixes, first={"0": broken}) as started:
        for trainer in started:
            word = trainer.until("end")
            assert word["end"] == "bad"
            assert "the disk of rank 0 is gone" in word["text"]


@pytest.mark.deadline(180)
def test_a_follower_that_gives_up_tells_the_lead(
    config: dict[str, Any], sockets: Path, secrets: dict[str, str], namespaces: None
) -> None:
    config["steps"] = 100_000
    configs, prefixes = in_namespaces(config, secrets)
    with trainers_on_hosts(configs, {"dp": 2}, prefixes) as started:
        for trainer in started:
            trainer.until("step")
        nodes = [pid for pid, name in processes_of(sockets).items() if name.endswith("-node")]
        told = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in nodes}
        [follower] = [pid for pid, words in told.items() if b"wire.leads=1" not in words]
        os.kill(follower, signal.SIGTERM)
        for trainer in started:
            word = trainer.until("end", seconds=30)
            assert (word["end"], word["error"]) == ("bad", "UnavailableError")
            assert "was told to end (SIGTERM)" in word["text"]
    until_nothing_left(sockets)
