"""Hosts of a bench: network namespaces joined by a bridge, or else addresses of loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from overlord_bench.scaling._bench import say

PORT = 7400
_OPENSSL = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")


@dataclass(frozen=True)
class Network:
    """Addresses of hosts, the first of them the trainers'; and what `runtime.wire` needs."""

    kind: str  # namespaces, or loopback
    addresses: tuple[str, ...]
    prefixes: tuple[tuple[str, ...], ...]
    wire: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def network(hosts: int, *, namespaces: bool = True) -> Iterator[Network]:
    """So many hosts; namespaces where they can be made, with encryption, which these need."""
    loopback = tuple(f"127.0.0.{number + 1}" for number in range(hosts))
    plain = Network("loopback", loopback, ((),) * hosts)
    if not namespaces or os.geteuid() != 0 or None in (shutil.which("ip"), shutil.which("openssl")):
        yield plain
        return
    with tempfile.TemporaryDirectory(prefix="ol-sc-") as folder, contextlib.ExitStack() as stack:
        addresses = tuple(f"10.78.0.{number + 1}" for number in range(hosts))
        try:
            names = stack.enter_context(_namespaces(addresses))
            wire = _secrets(Path(folder), addresses)
        except (OSError, subprocess.CalledProcessError) as error:
            say(f"no network namespaces: {error}")
            yield plain
            return
        prefixes = tuple(("ip", "netns", "exec", name) for name in names)
        yield Network("namespaces", addresses, prefixes, wire)


@contextlib.contextmanager
def _namespaces(addresses: tuple[str, ...]) -> Iterator[list[str]]:
    switch = f"ol-sc-{os.getpid()}-s"
    names = [f"ol-sc-{os.getpid()}-{number}" for number in range(len(addresses))]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for number, (name, address) in enumerate(zip(names, addresses, strict=True)):
            port, link = f"p{number}", f"h{number}"
            ip("netns", "add", name)
            ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", link)
            ip("-n", switch, "link", "set", link, "netns", name)
            ip("-n", switch, "link", "set", port, "master", "bridge")
            ip("-n", switch, "link", "set", port, "up")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in (*names, switch):
            with contextlib.suppress(OSError):
                subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _secrets(folder: Path, addresses: tuple[str, ...]) -> dict[str, str]:
    """A certificate for these addresses, and a token."""
    names = ",".join(f"IP:{address}" for address in addresses)
    certificate, key, token = (folder / name for name in ("cert.pem", "key.pem", "token"))
    words = [*_OPENSSL, "-subj", "/CN=overlord bench", "-addext", f"subjectAltName={names}"]
    words += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    token.write_text("of a measurement")
    for path in (key, token):
        path.chmod(0o600)
    return {
        "certificate": str(certificate),
        "key": str(key),
        "authority": str(certificate),
        "token": f"file:{token}",
    }
