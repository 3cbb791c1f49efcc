"""CPU and waiting time of a fetch, from one client to thousands of one job.

All clients read through the node of their host. They are emulated: some processes host many ranks
each. Eight ranks (tensor parallel) see the same batch, which a constructor makes once for all of
them. `unshared` is the same mesh without it (`runtime.ablation.sharing: false`): every rank fetches
and lays out its batch for itself. In `alone` every client is data parallel, so that there is
nothing to share. A fetch is one rank's `next()`; its CPU is that of all processes, the clients'
Python among it. Batches are small (one sequence of 512 tokens), so that clients count and not
bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _fleet, _peers, _web_corpus
from overlord_bench._contract import Figures

PROGRAM = "overlord_bench._contenders.many_clients"
SHARE = 8  # ranks that see one batch


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench fanout")
    parser.add_argument("--clients", default="1,64,512,4096")
    parser.add_argument("--unshared", default="64,512,4096", help="without sharing")
    parser.add_argument("--alone", default="1,64,512", help="with nobody to share with")
    parser.add_argument("--processes", type=int, default=2, help="that host the clients")
    parser.add_argument("--fetches", type=int, default=8192, help="of all clients together")
    parser.add_argument("--full", action="store_true", help="8 processes, 8 times the fetches")
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    return parser.parse_args(arguments)


def mesh_of(clients: int, kind: str) -> dict[str, int]:
    """Tensor parallel ranks see the same; alone, everybody is data parallel."""
    share = min(SHARE, clients) if kind != "alone" else 1
    return {"dp": clients // share, "tp": share}


def measure(place: Path, path: str, clients: int, kind: str, options: Any) -> Figures:
    """One count of clients: shared, unshared or alone."""
    processes = min(options.processes, clients)
    steps = max(16, options.fetches // clients)
    with tempfile.TemporaryDirectory(prefix="ol-fan-", dir="/tmp") as folder:
        started = []
        try:
            for part in range(processes):
                work = {
                    "folder": str(place),
                    "directory": folder,
                    "mesh": mesh_of(clients, kind),
                    "sharing": kind != "unshared",
                    "context": 512,
                    "engine": "processes",
                    "warmup": 4,
                    "steps": steps,
                    "ranks": list(range(part, clients, processes)),
                }
                environment = {
                    **os.environ,
                    "PYTHONPATH": path,
                    "RANK": str(part),
                    "LOCAL_RANK": str(part),
                    "WORLD_SIZE": str(clients),
                    "LOCAL_WORLD_SIZE": str(clients),
                    "TORCHELASTIC_RUN_ID": "fanout",
                }
                started.append(
                    subprocess.Popen(
                        [sys.executable, "-m", PROGRAM, json.dumps(work)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        env=environment,
                        text=True,
                    )
                )
            return _figures(started, folder, clients, steps)
        finally:
            for process in started:
                process.kill()
            for process in started:
                process.wait()
            _fleet.wait_until_served_by_none(folder)


def _figures(
    started: list[subprocess.Popen[str]], folder: str, clients: int, steps: int
) -> Figures:
    for process in started:
        if not _line(process).startswith("ready"):
            return {"failed": "a process of clients ended"}
    servers = list(_fleet.members(set(), folder))
    before = sum(_fleet.cpu_seconds(pid) for pid in servers)
    for process in started:
        _go(process)
    told = []
    for process in started:
        line = _line(process)
        if not line.startswith("done "):
            return {"failed": "a process of clients ended"}
        told.append(json.loads(line.removeprefix("done ")))
    serving = sum(_fleet.cpu_seconds(pid) for pid in servers) - before
    for process in started:
        _go(process)
    fetches = clients * steps
    waits = sorted(wait for part in told for wait in part["waits"])
    taking = sum(part["cpu"] for part in told)
    return {
        "cpu_us_per_fetch": (serving + taking) / fetches * 1e6,
        "serving_cpu_us_per_fetch": serving / fetches * 1e6,
        "client_cpu_us_per_fetch": taking / fetches * 1e6,
        "p50_ms": statistics.median(waits) / 1e3,
        "p99_ms": waits[int(0.99 * (len(waits) - 1))] / 1e3,
        "fetches_per_s": fetches / max(part["wall"] for part in told),
        "steps": steps,
    }


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure every count of clients, with and without sharing."""
    options = _parse(arguments)
    if options.full:
        options.processes, options.fetches = 8, 8 * options.fetches
    host = _contract.machine()
    place = _web_corpus.prepare(_web_corpus.WebCorpus(tokens=16_000_000), options.data)
    found: dict[str, Figures] = {}
    with _peers.package_folder() as path:
        for words, kind in (
            (options.clients, "shared"),
            (options.unshared, "unshared"),
            (options.alone, "alone"),
        ):
            for clients in (int(word) for word in words.split(",") if word):
                key = f"{kind}/{clients}"
                found[key] = measure(place, path, clients, kind, options)
                print(f"{key}: {found[key]}", file=sys.stderr, flush=True)
    figures = figures_of(found)
    settings = {"processes": options.processes, "fetches": options.fetches, "share": SHARE}
    return _contract.report("fanout", figures, found, settings, host)


def figures_of(found: dict[str, Figures]) -> Figures:
    """The figures of the report; None where a count was not measured."""

    def over(one: str, other: str) -> float | None:
        a, b = (found.get(key, {}).get("cpu_us_per_fetch") for key in (one, other))
        return a / b if a and b else None

    def ratio(name: str, many: int, few: int) -> float | None:
        return over(f"{name}/{many}", f"{name}/{few}")

    figures: Figures = {
        "cpu_per_fetch_4096_vs_64": ratio("shared", 4096, 64),
        "cpu_per_fetch_512_vs_64": ratio("shared", 512, 64),
        "alone_cpu_per_fetch_512_vs_64": ratio("alone", 512, 64),
        "unshared_cpu_per_fetch_4096_vs_64": ratio("unshared", 4096, 64),
        "unshared_vs_shared_cpu_512": over("unshared/512", "shared/512"),
        "unshared_vs_shared_cpu_4096": over("unshared/4096", "shared/4096"),
    }
    for key, value in found.items():
        for name in ("cpu_us_per_fetch", "p50_ms", "p99_ms"):
            figures[f"{name}_{key.replace('/', '_')}"] = value.get(name)
    return figures
