"""Whether a rank is on the keeper's host is found out by a descriptor that arrives there."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from namespaces import ADDRESSES, network, private_mounts
from overlord._src.node import keeper_place
from overlord._src.node.keeper_place import KeeperPlace
from trainers import (
    embedded_hashes,
    hashes_of,
    in_time,
    processes_of,
    trainers_on_hosts,
    until_paused,
)

MESH = {"dp": 2}
# What the keeper's actor does, without Ray, until its standard input ends.
KEEPER = """
import sys
import overlord as ol
from overlord._src.ray.keeper import LeadingNode
from overlord._src.ray.loader_host import Told

leading = LeadingNode(Told(sys.argv[1], ol.mesh(dp=2), "train", True), None, again=False)
print("leads", flush=True)
sys.stdin.read()
leading.node.end()
"""


@pytest.fixture
def place(sockets: Path) -> KeeperPlace:
    made = KeeperPlace.of("job", sockets)
    os.mkdir(made.path, 0o700)
    return made


@contextlib.contextmanager
def listener(place: KeeperPlace) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as door, place._address() as address:
        door.bind(address)
        door.listen()
        yield door


def test_a_descriptor_that_arrives_says_that_the_keeper_is_here(place: KeeperPlace) -> None:
    assert not KeeperPlace(f"{place.path}-none").is_here()
    assert not place.is_here()
    place.open_door()
    assert place.is_here()
    place.open_door()  # the next keeper's, where the one before has left its own
    assert place.is_here()


@pytest.mark.parametrize("sends", ["nothing", "words", "another"])
def test_a_folder_that_both_see_is_not_enough(place: KeeperPlace, sends: str) -> None:
    """What answers passes no descriptor, or one with something else behind it."""
    with listener(place) as door:

        def answer() -> None:
            with door.accept()[0] as caller:
                if sends == "words":
                    caller.sendall(bytes(16))
                if sends == "another":
                    memory = os.memfd_create("another")
                    os.write(memory, b"a" * 16)
                    socket.send_fds(caller, [b"b" * 16], [memory])

        thread = threading.Thread(target=answer)
        thread.start()
        assert not place.is_here()
        thread.join()


def test_a_keeper_that_died_here_is_waited_for(
    place: KeeperPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listener(place):
        pass  # its socket is left
    monkeypatch.setattr(keeper_place, "_COMES_AGAIN_SECONDS", 0.0)
    assert not place.is_here()
    monkeypatch.setattr(keeper_place, "_COMES_AGAIN_SECONDS", 100.0)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(place.is_here()))
    thread.start()
    place.open_door()
    thread.join()
    assert found == [True]


@contextlib.contextmanager
def keeper(path: str, prefix: Sequence[str]) -> Iterator[None]:
    command = [*prefix, sys.executable, "-c", KEEPER, path]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "leads\n"
        yield
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()


def test_only_a_rank_that_shares_memory_with_the_keeper_is_on_its_host(
    config: dict[str, Any], sockets: Path, tmp_path: Path, secrets: dict[str, str]
) -> None:
    """One has an address of its own and the keeper's mounts: the same host. The other has neither:
    it follows over TLS."""
    expected = embedded_hashes(config, MESH)
    with network(3), private_mounts(3, [sockets]) as prefixes:
        paths = []
        for address in ADDRESSES[:3]:
            wire = {**secrets, "planner": f"{ADDRESSES[0]}:7400", "host": address}
            config["runtime"]["wire"] = wire
            paths.append(tmp_path / f"{address}.yaml")
            paths[-1].write_text(yaml.safe_dump(config))
        told = [str(path) for path in paths]
        mounts = [word for word in prefixes[0] if word != "-n"]  # those of the keeper
        beside = [*mounts, *(word for word in prefixes[1] if word != "-m")]
        with (
            keeper(told[0], prefixes[0]),
            trainers_on_hosts(
                told[1:], MESH, [beside, prefixes[2]], engine="ray", pause_after=4
            ) as started,
        ):
            until_paused(started)
            found = list(processes_of(sockets).values())
            assert found.count("overlord: constructors-0 of processes") == 1
            assert found.count("overlord: h1-constructors-0 of processes") == 1
            for trainer in started:
                trainer.go()
            assert hashes_of(started) == expected
            for trainer in started:
                trainer.until("end")
        in_time(lambda: not processes_of(sockets), "nothing is left")
