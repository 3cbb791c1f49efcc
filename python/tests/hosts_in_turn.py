"""Hosts without ranks that may lead a job, one after another, and how all of one die at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from namespaces import ADDRESSES, network, private_mounts
from overlord._src.node.watch import ask
from trainers import in_time, processes_of

import overlord as ol

MESH = {"dp": 2}


def in_turn(config: dict[str, Any], addresses: Sequence[str], folder: Path) -> dict[str, Any]:
    """A job of several loader groups that these addresses may lead from; `folder` is shared."""
    folder.mkdir(mode=0o700)
    config["runtime"]["processes"] |= {"loaders": 4, "recovery_seconds": 600}
    for source in config["sources"].values():
        source["loaders"] = 2
        source["workers"] = 64  # more than any host has cores: all are used
    config["runtime"] |= {
        "wire": {"planner": list(addresses), "host": "127.0.0.1"},
        "journal": str(folder),
        "prefetch": 2,
    }
    return config


def written(config: dict[str, Any], path: Path) -> str:
    path.write_text(yaml.safe_dump(config))
    return str(path)


class Host:
    """`overlord serve` on a host without ranks, with all that it starts."""

    def __init__(self, path: str, folder: Path, at: str, *, prefix: Sequence[str] = ()) -> None:
        self.directory, self.at, self.prefix = folder, at, prefix
        command = [sys.executable, "-m", "overlord", "serve", path, "--mesh", "dp=2", "--hash"]
        command += ["--at", at, "--directory", str(folder)]
        self.log = folder.with_suffix(".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*prefix, *command], stdout=log, stderr=log)

    def look(self) -> dict[str, Any]:
        """What its node tells; nothing while it leads nobody."""
        with contextlib.suppress(ol.OverlordError):
            return ask(str(self.directory), 0.5)
        return {}

    def leads(self) -> bool:
        return bool(self.look().get("serving"))

    def stands_by(self, lead: Host) -> bool:
        """The lead knows that it may take over."""
        hosts = lead.look().get("hosts", [])
        return any(item["gives"]["leads_at"] == self.at and not item["lost"] for item in hosts[1:])

    def lose(self) -> None:
        """As if it had lost power: nobody has time to say a word."""
        doomed = [self.process.pid, *processes_of(self.directory)]
        doomed += [child for pid in doomed for child in children(pid)]
        if self.prefix:
            doomed += inhabitants(self.prefix)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in doomed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.process.wait()
        in_time(lambda: not processes_of(self.directory), "all of it is gone")

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


def inhabitants(prefix: Sequence[str]) -> list[int]:
    """All processes of a namespace but the one that holds it."""
    holder = prefix[prefix.index("-t") + 1]
    space = os.readlink(f"/proc/{holder}/ns/net")
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "ns/net") == space:
                found.append(int(entry.name))
    return [pid for pid in found if pid != int(holder)]


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        text = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
        return [int(word) for word in text.split()]
    return []


@contextlib.contextmanager
def ended_at_last(hosts: list[Host]) -> Iterator[None]:
    """Whatever is in the list at the end; with what they have said where a test fails."""
    try:
        yield
    except BaseException as error:
        for log in {host.log for host in hosts}:
            error.add_note(f"{log.name}: {log.read_text(errors='replace')[-3000:]}")
        raise
    finally:
        for host in hosts:
            host.lose()


class ThreeHosts:
    """One has the ranks, two have none and may lead: namespaces with private mounts."""

    def __init__(
        self, config: dict[str, Any], folder: Path, secrets: dict[str, str], prefixes: Any
    ) -> None:
        self.addresses = [f"{address}:7400" for address in ADDRESSES[1:3]]
        self.prefixes, self.folder = prefixes, folder
        in_turn(config, self.addresses, folder / "journal")
        self.paths = []
        for address in ADDRESSES[:3]:
            config["runtime"]["wire"] = {**secrets, "planner": self.addresses, "host": address}
            self.paths.append(written(config, folder / f"{address}.yaml"))
        self.started: list[Host] = []

    def start(self, number: int) -> Host:
        """`overlord serve` on one of those without ranks, 0 or 1."""
        host = Host(
            self.paths[number + 1],
            self.folder / f"host-{number}",
            self.addresses[number],
            prefix=self.prefixes[number + 1],
        )
        self.started.append(host)
        return host


@contextlib.contextmanager
def three_hosts(
    config: dict[str, Any], sockets: Path, folder: Path, secrets: dict[str, str]
) -> Iterator[ThreeHosts]:
    with network(3), private_mounts(3, [sockets]) as prefixes:
        made = ThreeHosts(config, folder, secrets, prefixes)
        with ended_at_last(made.started):
            yield made
