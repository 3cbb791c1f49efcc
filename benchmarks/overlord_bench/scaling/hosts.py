"""Texts that are tokenised on 1, 2 and 4 CPU hosts for one trainer host: `hosts_efficiency`.

A CPU host is `overlord serve --join` on cores of its own. The trainer's host keeps planner,
constructor and trainer on its cores and runs no loader: its node has one core less than a CPU
host, and there is one process of loaders for each of those, so that none is better off on it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlord_bench._contract import Figures
from overlord_bench._peers import Place, is_measured
from overlord_bench.scaling._bench import Bench, say, write_job
from overlord_bench.scaling._network import PORT, Network, network
from overlord_bench.scaling._sources import Sources

AIMS = {"hosts_efficiency": ">= 0.85"}
_END_S = 10.0


@dataclass(frozen=True)
class Pinned:
    """Cores of the trainer's host and of every CPU host."""

    trainer: tuple[int, ...]
    hosts: tuple[tuple[int, ...], ...]
    overlap: bool  # there are too few: hosts share theirs


def pin(hosts: int, each: int) -> Pinned:
    """The last cores are the hosts', the rest is the trainer's."""
    usable = tuple(sorted(os.sched_getaffinity(0)))
    if len(usable) <= hosts * each:
        shared = usable[-each:]
        return Pinned(usable, (shared,) * hosts, overlap=True)
    own = usable[-hosts * each :]
    dealt = tuple(own[each * number : each * (number + 1)] for number in range(hosts))
    return Pinned(usable[: -hosts * each], dealt, overlap=False)


def job_of(sources: Sources, hosts: int, each: int, pinned: Pinned, bins: int) -> dict[str, Any]:
    """One job of all hosts; its name says how many, so that no index is shared with another."""
    texts = {f"web{number}": sources.text("web", number) for number in range(2)}
    for source in texts.values():
        source |= {"loaders": 2 * hosts, "workers": 4}
    share = (each - 0.9) / len(pinned.trainer)  # one core less, whatever rounding does
    runtime = {
        "threads": each,
        "tokenizer_processes": each,
        "prefetch": 4,
        "runway": 8,
        "payload_budget": "64MB",
        "processes": {"loaders": hosts, "cores_share": min(1.0, share)},
    }
    more = {"bins": bins, "delivery": {"microbatch_size": bins}, "runtime": runtime}
    return sources.job("hosts", texts, dict.fromkeys(texts, 1.0), **more)


class Host:
    """`overlord serve --join` as a process of a host."""

    def __init__(self, path: str, folder: Path, lead: str, place: Place) -> None:
        command = [sys.executable, "-m", "overlord", "serve", path, "--mesh", "dp=1"]
        command += ["--join", lead, "--cores", str(len(place.cores)), "--directory", str(folder)]
        self._log = open(folder.with_suffix(".log"), "wb")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*place.prefix, *command],
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            preexec_fn=place.enter,
        )

    def end(self) -> None:
        """In good order if it can, and in any case."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()


@contextlib.contextmanager
def joined(
    config: Mapping[str, Any], net: Network, pinned: Pinned, hosts: int, folder: Path
) -> Iterator[str]:
    """So many hosts that wait for the job's lead; the trainer's config."""
    lead = f"{net.addresses[0]}:{PORT}"
    runtime = config["runtime"]

    def write(number: int) -> str:
        wire = {**net.wire, "planner": lead, "host": net.addresses[number], "joinable": True}
        own = {**config, "runtime": {**runtime, "wire": wire}}
        return write_job(own, folder, f"host{number}.yaml", folder / "t")

    with contextlib.ExitStack() as stack:
        for number in range(hosts):
            place = Place(net.prefixes[number + 1], pinned.hosts[number])
            host = Host(write(number + 1), folder / f"h{number}", lead, place)
            stack.callback(host.end)
        yield write(0)


def measure(bench: Bench, sources: Sources, net: Network, hosts: int) -> Figures:
    """Tokens a second with so many hosts."""
    options = bench.options
    most = max(options.hosts)
    pinned = pin(most, options.host_cores)
    config = job_of(sources, hosts, options.host_cores, pinned, options.bins)
    busy = {f"host{n}": list(pinned.hosts[n]) for n in range(hosts)}
    with tempfile.TemporaryDirectory(prefix="ol-sc-", dir="/tmp") as folder:
        with joined(config, net, pinned, hosts, Path(folder)) as path:
            told = bench.measure_written(
                f"hosts/{hosts}",
                "rate",
                {"config": path, "directory": f"{folder}/t"},
                Place(net.prefixes[0], pinned.trainer),
                elsewhere=hosts,
                warmup_s=options.seconds / 2,
                seconds=options.seconds,
                busy={**busy, "trainer": list(pinned.trainer)},
            )
        if not is_measured(told):
            told["hosts_said"] = [last_words(path) for path in sorted(Path(folder).glob("*.log"))]
    told |= {"network": net.kind, "encrypted": bool(net.wire), "overlap": pinned.overlap}
    return told


def last_words(log: Path) -> str:
    """Of a host."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-5:])


def run(bench: Bench) -> Figures:
    """All numbers of hosts, on cores of the same size."""
    options = bench.options
    if options.host_cores < 2:
        raise SystemExit("--host-cores: a CPU host has one more than the trainer's node: 2 or more")
    sources = Sources(options.data, documents=options.documents, times=64)
    began = time.monotonic()
    sources.prepare()
    say(f"hosts: texts are there after {time.monotonic() - began:.1f} s")
    with network(1 + max(options.hosts), namespaces=options.namespaces) as net:
        found = {count: measure(bench, sources, net, count) for count in options.hosts}
    return figures_of(found)


def figures_of(found: Mapping[int, Figures]) -> Figures:
    """Rates over that of the fewest hosts, as often as there are more; the worst is the figure.

    Hosts that share their cores cannot be faster than one: then it is what spreading costs.
    """
    rates = {count: told["tokens_per_s"] for count, told in found.items() if is_measured(told)}
    figures: Figures = {f"hosts_{n}_tokens_per_s": rate for n, rate in rates.items()}
    fewest = min(found)
    more = [count for count in rates if count > fewest]
    if len(rates) < len(found) or not more:
        return figures
    if any(told.get("overlap") for told in found.values()):
        over = {f"hosts_{n}_on_the_same_cores": rates[n] / rates[fewest] for n in more}
        return figures | over
    linear = {n: rates[n] / (rates[fewest] * n / fewest) for n in more}
    figures |= {f"hosts_{n}_efficiency": share for n, share in linear.items()}
    return figures | {"hosts_efficiency": min(linear.values())}
