"""Bytes between hosts over the wire, next to bare TCP sockets in the same run.

A sender and a taker, each a process, over loopback and, where they can be made, between two network
namespaces joined by veth. Both ways move the same batches in the same slices over as many
connections into buffers of the same kind of pool: the wire as loaders and constructors of other
hosts use it, bare TCP with nothing but `send` and `recv`. Namespaces stand for hosts, so the wire
is encrypted there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlord._version import __version__

from overlord_bench import _contract
from overlord_bench._contract import Figures

MB = 1_000_000
ADDRESSES = ("10.78.0.1", "10.78.0.2")
COUNTED_STREAMS = 4  # of the figures
COUNTED_BYTES = 16 * MB  # and more


@dataclass(frozen=True)
class Case:
    """One thing to measure, over the wire and over bare TCP."""

    place: str  # loopback, namespaces
    tls: bool
    streams: int
    size: int  # of a batch

    @property
    def name(self) -> str:
        """As the report has it."""
        return (
            f"{self.place}/{'tls' if self.tls else 'plain'}/{self.streams}_streams/"
            f"{self.size // MB}_mb"
        )


@dataclass(frozen=True)
class Place:
    """Where the two processes run."""

    address: str
    sender: Sequence[str] = ()  # words before their commands
    taker: Sequence[str] = ()


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="overlord bench transport")
    parser.add_argument("--sizes", default="1,16,128", help="of batches, in MB")
    parser.add_argument("--streams", default="1,4")
    parser.add_argument("--tls-sizes", default="16", help="with TLS, at four streams")
    parser.add_argument("--slice", type=float, default=8.0, help="MiB of one slice")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of one run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-namespaces", action="store_true")
    parser.add_argument(
        "--full", action="store_true", help="1 to 500 MB, 1 to 8 streams, all with TLS too, 8 GB"
    )
    options = parser.parse_args(arguments)
    if options.full:
        options.sizes, options.streams, options.gigabytes = "1,4,16,64,128,500", "1,2,4,8", 8.0
        options.tls_sizes = "1,16,128,500"
    return options


def cases_of(options: argparse.Namespace, places: Sequence[str], tls: bool) -> list[Case]:
    """What is measured, in order."""
    sizes = [int(word) * MB for word in options.sizes.split(",") if word]
    streams = [int(word) for word in options.streams.split(",") if word]
    encrypted = [int(word) * MB for word in options.tls_sizes.split(",") if word]
    cases = [Case("loopback", False, count, size) for count in streams for size in sizes]
    if tls and options.full:
        cases += [Case("loopback", True, count, size) for count in streams for size in sizes]
    elif tls:
        cases += [Case("loopback", True, COUNTED_STREAMS, size) for size in encrypted]
    if tls and "namespaces" in places:
        cases += [Case("namespaces", True, COUNTED_STREAMS, size) for size in encrypted]
    return cases


@contextlib.contextmanager
def namespaces() -> Iterator[Place | None]:
    """Two hosts that see nothing but each other; None where they cannot be made."""
    names = [f"ol-{side}-{os.getpid()}" for side in ("a", "b")]
    links = [f"ol{side}{os.getpid() % 10_000_000}" for side in ("a", "b")]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    made: Place | None = None
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", links[0], "type", "veth", "peer", "name", links[1])
        for name, link, address in zip(names, links, ADDRESSES, strict=True):
            ip("link", "set", link, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        inside = [("ip", "netns", "exec", name) for name in names]
        made = Place(ADDRESSES[0], *inside)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no network namespaces: {error}", file=sys.stderr)
    try:
        yield made
    finally:
        for name in names:
            with contextlib.suppress(OSError):
                subprocess.run(["ip", "netns", "del", name], capture_output=True)


def make_secrets(folder: Path) -> list[str] | None:
    """A certificate for our addresses, and a token, as options; None without openssl."""
    if shutil.which("openssl") is None:
        return None
    names = ",".join(f"IP:{address}" for address in ("127.0.0.1", *ADDRESSES))
    certificate, key, token = (folder / name for name in ("cert.pem", "key.pem", "token"))
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=overlord bench", "-addext", f"subjectAltName={names}"]
    words += ["-keyout", str(key), "-out", str(certificate)]
    if subprocess.run(words, capture_output=True).returncode != 0:
        return None
    token.write_text("of a measurement")
    for path in (key, token):
        path.chmod(0o600)
    return [
        f"wire.certificate={certificate}",
        f"wire.key={key}",
        f"wire.authority={certificate}",
        f"wire.token=file:{token}",
    ]


def measure(case: Case, way: str, place: Place, words: Sequence[str], shape: Any) -> Figures:
    """One run; `way` is wire or raw."""
    from overlord_bench._native import measure_program

    batches = max(4, round(shape.gigabytes * 1e9 / case.size))
    told = [str(case.size), str(batches), str(case.streams), str(round(shape.slice * 2**20))]
    told += words if way == "wire" and case.tls else []
    program = [str(measure_program()), "transport"]
    sender = subprocess.Popen(
        [*place.sender, *program, "send", way, f"{place.address}:0", *told],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert sender.stdout is not None
        address = sender.stdout.readline().strip()
        if not address:
            return {"failed": "the sender ended"}
        taken = subprocess.run(
            [*place.taker, *program, "take", way, address, *told],
            capture_output=True,
            text=True,
            timeout=600,
        )
        if taken.returncode != 0:
            return {"failed": taken.stderr.strip()}
        took = json.loads(taken.stdout)
        sent = json.loads(sender.communicate(timeout=60)[0])
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return {"failed": str(error)}
    finally:
        sender.kill()
        sender.wait()
    gigabytes = took["bytes"] / 1e9
    return {
        "gb_per_s": gigabytes / took["wall_s"],
        "cpu_per_gb": (took["cpu_s"] + sent["cpu_s"]) / gigabytes,
        "taker_cpu_per_gb": took["cpu_s"] / gigabytes,
    }


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure every case, the two ways in turn."""
    options = parse(arguments)
    host = _contract.machine()
    found: dict[str, Figures] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ol-wire-")))
        secrets = make_secrets(folder)
        places = {"loopback": Place("127.0.0.1")}
        if secrets is not None and not options.no_namespaces:
            apart = stack.enter_context(namespaces())
            places |= {"namespaces": apart} if apart is not None else {}
        for case in cases_of(options, list(places), secrets is not None):
            place = places[case.place]
            runs: dict[str, list[Figures]] = {"wire": [], "raw": []}
            for turn in range(options.rounds):
                for way in ("raw", "wire") if turn % 2 == 0 else ("wire", "raw"):
                    runs[way].append(measure(case, way, place, secrets or [], options))
            found[case.name] = merged(runs)
            print(f"{case.name}: {found[case.name]}", file=sys.stderr, flush=True)
    settings = {
        "slice_bytes": round(options.slice * 2**20),
        "gigabytes": options.gigabytes,
        "rounds": options.rounds,
    }
    return _contract.report("transport", figures_of(found), found, settings, host)


def merged(runs: dict[str, list[Figures]]) -> Figures:
    """Medians of both ways, and their ratio, as one contender; of a run that failed, why."""
    for past in runs.values():
        for one in past:
            if "failed" in one:
                return one
    wire, raw = (_contract.medians(runs[way]) for way in ("wire", "raw"))
    return {
        "version": __version__,
        **wire,
        "raw_gb_per_s": raw["gb_per_s"],
        "raw_cpu_per_gb": raw["cpu_per_gb"],
        "fraction_of_raw_tcp": wire["gb_per_s"] / raw["gb_per_s"],
    }


def figures_of(found: dict[str, Figures]) -> Figures:
    """The figures of the report: the worst of what counts, and every case."""
    counted = [
        value
        for name, value in found.items()
        if name.startswith(f"loopback/plain/{COUNTED_STREAMS}_streams/")
        and int(name.rpartition("/")[2].partition("_")[0]) * MB >= COUNTED_BYTES
        and "failed" not in value
    ]
    figures: Figures = {
        "fraction_of_raw_tcp": min((one["fraction_of_raw_tcp"] for one in counted), default=None),
        "gb_per_s": min((one["gb_per_s"] for one in counted), default=None),
        "cpu_per_gb": max((one["cpu_per_gb"] for one in counted), default=None),
        "raw_gb_per_s": min((one["raw_gb_per_s"] for one in counted), default=None),
        "raw_cpu_per_gb": max((one["raw_cpu_per_gb"] for one in counted), default=None),
    }
    for name, value in found.items():
        for key in ("fraction_of_raw_tcp", "gb_per_s"):
            figures[f"{key}_{name.replace('/', '_')}"] = value.get(key)
    return figures
