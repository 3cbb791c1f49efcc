"""Hosts as network namespaces: addresses of their own, joined by a bridge; nothing else is seen."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from warm_python import door_of_parent

PREFIX = "ovl-"
HOSTS = 4
NAMES = tuple(f"{PREFIX}{number}-{os.getpid()}" for number in range(HOSTS))
ADDRESSES = tuple(f"10.77.0.{number + 1}" for number in range(HOSTS))
LINKS = tuple(f"ov{number}x{os.getpid()}" for number in range(HOSTS))  # inside each
_SWITCH = f"{PREFIX}s-{os.getpid()}"


def run(*words: str) -> None:
    """A command of the system that must succeed."""
    subprocess.run(words, check=True, capture_output=True)


def _remove() -> None:
    """Ours, and those of processes that were killed before they could."""
    found = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for name in (line.split()[0] for line in found.splitlines() if line.startswith(PREFIX)):
        owner = name.rpartition("-")[2]
        if owner == str(os.getpid()) or not Path(f"/proc/{owner}").exists():
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@contextlib.contextmanager
def network(count: int) -> Iterator[None]:
    """The first so many of NAMES; skips the test where namespaces cannot be made."""
    try:
        _remove()
        run("ip", "netns", "add", _SWITCH)
        run("ip", "-n", _SWITCH, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", _SWITCH, "link", "set", "bridge", "up")
        for name, link, address in list(zip(NAMES, LINKS, ADDRESSES, strict=True))[:count]:
            run("ip", "netns", "add", name)
            port = link.replace("ov", "op")
            run("ip", "-n", _SWITCH, "link", "add", port, "type", "veth", "peer", "name", link)
            run("ip", "-n", _SWITCH, "link", "set", link, "netns", name)
            run("ip", "-n", _SWITCH, "link", "set", port, "master", "bridge")
            run("ip", "-n", _SWITCH, "link", "set", port, "up")
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
            run("ip", "-n", name, "link", "set", link, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        with contextlib.suppress(OSError):
            _remove()
        pytest.skip(f"no network namespaces here: {error}")
    try:
        yield
    finally:
        door_of_parent.cache_clear()  # of the same name there may be others
        _remove()


@contextlib.contextmanager
def private_mounts(count: int, folders: Sequence[Path]) -> Iterator[list[list[str]]]:
    """Words that start a command on each host, where these folders are its own and empty."""
    mounts = "".join(f"mount -t tmpfs -o mode=700 none {folder} && " for folder in folders)
    script = f"{mounts} mount -t tmpfs none /dev/shm && echo ready && exec sleep infinity"
    holders = []
    try:
        for name in NAMES[:count]:
            command = ["ip", "netns", "exec", name, "unshare", "-m", "sh", "-c", script]
            holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            holders.append(holder)
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
        yield [["nsenter", "-t", str(holder.pid), "-m", "-n"] for holder in holders]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
