"""Deaths: what a run loses by them, how long its planner is away, what being ready for them costs.

One process trains all ranks of a job with engine `processes`; its node, or a role process, gets
SIGKILL. `ids_lost`, `ids_twice` and `wrong_bytes` compare what every rank got with an undisturbed
run of the same job. A restart is timed from the kill to the first new plan in the journal. A step
is stalled when its `next()` took more than 20 ms; training itself is a sleep.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overlord._version import __version__

from overlord_bench import (
    _contract,
    _mixed_sources,
    _peers,
    _web_corpus,
)
from overlord_bench._contract import Figures
from overlord_bench._peers import Contender
from overlord_bench._recovering import raw_sources, shadows, slow_sync
from overlord_bench._recovering.deaths import CONSTRUCTORS, KINDS, LOADERS, NODE
from overlord_bench._recovering.shadows import FIG16_KILL, STARTING, shadow_figures, stalled
from overlord_bench._stream_record import StreamRecord, compare

AIMS = {
    "ids_lost": "0",
    "ids_twice": "0",
    "wrong_bytes": "0",
    "planner_restart_s": "<= 0.6",
    "planner_cold_restart_s": "<= 2",
    "journal_bytes_per_plan": "<= 2000",
    "throughput_ratio": ">= 0.97",
    "stalled_steps": "0",
    **shadows.AIMS,
}
PARTS = (
    "ids",
    "restart",
    "restart_flat",
    "journal",
    "throughput",
    "stalls",
    "shadows",
    "shadow_stalls",
    "fig16",
    "hang",
    "empty",
)
MEAN_LENGTH = 200
BENCHMARK = "overlord_protocol_record_chain_benchmark"
CASES = {  # of that benchmark: how many of 306 sources a step draws from, and whose debts move
    "drawn:100/all_debts:0": "100_drawn",
    "drawn:306/all_debts:0": "306_drawn",
    "drawn:100/all_debts:1": "100_drawn_all_debts",
}
MANY = 306  # sources
WARMUP_STEPS = 12  # nobody dies in the first ones
PREFETCHES = (4, 2)
VICTIMS = {NODE: "", LOADERS: "_loaders", CONSTRUCTORS: "_constructors", "nobody": "_undisturbed"}
TAKEN, KILL_FIRST, KILL_EVERY = 65, 5, 15  # steps
FIG16_TAKEN, UNPACED_TAKEN = 60, 200
BINS = (64, 8)
SLOW_SYNC_MS = 5.0
MOST_LOADERS = 64
TRACED_S = 5.0
PATIENCE_S = 3600.0  # with one contender: a million ids, or twenty busy minutes
MOST_EMPTY_KILLS = 4  # a run reads no document twice
REST_S = 3.0  # in which a warm shadow reads what plans name
# A pause is half as long at least, and 9 deaths of a role within a minute end a job.
KILL_EVERY_S = {NODE: 3.0, LOADERS: 16.0, CONSTRUCTORS: 16.0}


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench recovery")
    parser.add_argument("--ids", type=float, default=80_000, help="samples to compare, by victim")
    parser.add_argument("--kills", type=int, default=20, help="of the node, to time its return")
    parser.add_argument("--cold-kills", type=int, default=10, help="of all processes at once")
    parser.add_argument("--plans", default="1e3,1e4", help="after which restarts are compared")
    parser.add_argument("--pace-ms", type=float, default=200.0, help="that a step trains")
    parser.add_argument("--pairs", type=int, default=16, help="windows with and without a journal")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a window")
    parser.add_argument("--busy-minutes", type=float, default=1.0, help="beside busy loops")
    parser.add_argument("--rounds", type=int, default=3, help="runs that count stalled steps")
    loaders = min(MOST_LOADERS, 4 * (os.cpu_count() or 1))
    parser.add_argument(
        "--loaders", type=int, default=loaders, help="loader processes that may have shadows"
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="what to measure")
    parser.add_argument("--quick", action="store_true", help="a look in a minute or two")
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    if "--quick" in arguments:
        parser.set_defaults(
            ids=10_000, kills=3, cold_kills=1, plans="500,1000", pairs=2, seconds=0.3, rounds=1
        )
        parser.set_defaults(busy_minutes=0.2)
    return parser.parse_args(arguments)


class _Bench:
    """One run: everybody in a process of its own, what was found by name."""

    def __init__(self, options: argparse.Namespace, path: str) -> None:
        self.options, self.found = options, dict[str, Figures]()
        self._path, self._pythons = path, _peers.find_pythons(None)
        corpus = _web_corpus.WebCorpus(tokens=16_000_000, mean_length=MEAN_LENGTH)
        self._web = _web_corpus.prepare(corpus, options.data, parquet=False)

    def measure(
        self, key: str, what: str, environment: Mapping[str, str] | None = None, /, **setup: Any
    ) -> Figures:
        """Run one contender; what it said is kept under its key."""
        work = {
            "folder": str(self._web),
            "sources": 2,
            "mesh": {"dp": 2},
            "context": 4096,
            "bins": 16,
            "prefetch": 4,
            "pace_s": self.options.pace_ms / 1e3,
            "measure": what,
        }
        contender = Contender(key, "recovery.trainer", setup, environment or {}, is_peer=False)
        told = _peers.run_once(self._pythons, contender, work, self._path, PATIENCE_S)
        self.found[key] = told
        shown = {name: value for name, value in told.items() if not isinstance(value, list)}
        print(f"{key}: {shown}", file=sys.stderr, flush=True)
        return told

    def ids(self) -> None:
        """The stream under kills of each kind against one that nobody disturbed."""
        steps = WARMUP_STEPS + math.ceil(self.options.ids * MEAN_LENGTH / (16 * 4096))
        with tempfile.TemporaryDirectory(prefix="ol-rec-") as folder:
            files = {kind: str(Path(folder) / f"{kind}.npz") for kind in ("nobody", *KINDS)}
            self.measure("ids/nobody", "stream", steps=steps, record=files["nobody"])
            if not Path(files["nobody"]).exists():
                return
            wanted = StreamRecord.load(Path(files["nobody"]))
            for kind in KINDS:
                setup = {"victim": kind, "kill_every_s": KILL_EVERY_S[kind], "steps": steps}
                told = self.measure(f"ids/{kind}", "stream", record=files[kind], **setup)
                if Path(files[kind]).exists():
                    told |= compare(wanted, StreamRecord.load(Path(files[kind])))
                    print(f"    {told}", file=sys.stderr, flush=True)

    def restart(self) -> None:
        """The way back of the node alone, and of everything."""
        for name, deaths in self._deaths().items():
            self.measure(f"restart/{name}", "restart", **deaths)
        key = f"restart/warm/{MANY}_sources"
        self.measure(key, "restart", **self._many(), **self._deaths()["warm"])

    def _deaths(self) -> dict[str, dict[str, Any]]:
        kills, cold = self.options.kills, self.options.cold_kills
        return {
            "warm": {"kinds": [NODE], "kills": kills, "steps_between": 8},
            "cold": {"kinds": list(KINDS), "kills": cold, "steps_between": 20},
        }

    def restart_flat(self) -> None:
        """The same after more and more plans, of steps so small that there are many."""
        plans = [int(float(count)) for count in self.options.plans.split(",")]
        job = {**self._many(), "context": 512, "bins": 1, "mesh": {"dp": 1}}
        self.measure("restart_flat", "restart_flat", **job, plans=plans, deaths=self._deaths())

    def _many(self) -> dict[str, Any]:
        mixed = _mixed_sources.MixedSources(sources=MANY)
        folder = str(_mixed_sources.prepare(mixed, self.options.data))
        return {"sources": MANY, "folder": folder, "bins": 64}

    def journal(self) -> None:
        """Bytes of a plan's record, and the time to make one."""
        self.measure("journal/run", "journal", plans=150, **self._many())
        self.found["journal/record_chain"] = record_chain()

    def throughput(self) -> None:
        """With a journal on a disk as it is, or slow, and without one; the first with shadows."""
        windows = {"pairs": self.options.pairs, "seconds": self.options.seconds}
        for bins in BINS:
            job = {"mesh": {"dp": 1}, "bins": bins, **windows}
            self.measure(f"throughput/{bins}_bins", "throughput", **job)
            with tempfile.TemporaryDirectory(prefix="ol-rec-") as folder:
                slow = slow_sync.environment(SLOW_SYNC_MS, Path(folder))
                self.measure(f"throughput/{bins}_bins/slow_sync", "throughput", slow, **job)
            job |= self._read_ahead()
            self.measure(f"throughput/{bins}_bins/shadows", "throughput", **job)

    def _read_ahead(self) -> dict[str, Any]:
        """A job whose shadows work: blocks are decoded, and all have room.

        Windows are so short that no block is asked for in a second pass, which the cache of a slot
        would answer, and that of its shadow not.
        """
        tokens = int(16e6 * max(1, self.options.pairs * self.options.seconds))
        corpus = _web_corpus.WebCorpus(tokens=tokens, mean_length=MEAN_LENGTH)
        folder = _web_corpus.prepare(corpus, self.options.data)
        sources = {
            f"web{half}": {
                "files": [f"{folder}/web-{shard:02}.parquet" for shard in range(half, 8, 2)],
                "tokens": _web_corpus.COLUMN,
            }
            for half in range(2)
        }
        return {
            "folder": str(folder),
            "named_sources": sources,
            "config": {"runtime": {"prefetch": 4, "runway": 6, "payload_budget": "1GB"}},
            "loader_processes": 2,
            "shadow": "warm",
            "seconds": self.options.seconds / 4,
        }

    def _loaders(self, *, shadow: str | None = "warm") -> dict[str, Any]:
        """A job with one slot in each loader process, all of which every step draws from."""
        count = self.options.loaders
        mixed = _mixed_sources.MixedSources(sources=count, least=2000, most=2001, row_group=128)
        folder = str(_mixed_sources.prepare(mixed, self.options.data))
        job = {"folder": folder, "sources": count, "bins": 64, "prefetch": 2}
        return {**job, "loader_processes": count, "shadow": shadow}

    def shadows(self) -> None:
        """A quarter of the loader processes dies at once."""
        many = {"killed": max(1, self.options.loaders // 4), "traced_s": TRACED_S}
        for number in range(self.options.rounds):
            key = f"shadows/first_answers/{number}"
            self.measure(key, "first_answers", **self._loaders(), **many)
        for word, shadow in (("with", "warm"), ("without", None)):
            job = self._loaders(shadow=shadow)
            self.measure(f"shadows/memory/{word}", "memory", taken=100, **job)

    def shadow_stalls(self) -> None:
        """Waits of every step, with deaths of loader processes that have shadows and without."""
        deaths = list(range(KILL_FIRST, TAKEN, KILL_EVERY))
        for number in range(self.options.rounds):
            for name, kill_after in (("one", deaths), ("nobody", [])):
                setup = {"taken": TAKEN, "kill_after": kill_after, "killed": 1}
                key = f"shadow_stalls/{name}/{number}"
                self.measure(key, "loader_waits", **self._loaders(), **setup)

    def fig16(self) -> None:
        """5 to 10 loader processes die at once, or as many as have no neighbour among them."""
        count = self.options.loaders
        killed = min(max(5, min(10, count // 8)), count // 2)
        setup = {"taken": FIG16_TAKEN, "kill_after": [FIG16_KILL], "killed": killed}
        for number in range(self.options.rounds):
            for word, shadow in (("with", "warm"), ("without", None)):
                job = {**self._loaders(shadow=shadow), **setup}
                self.measure(f"fig16/{word}/{number}", "loader_waits", **job)
                # As fast as it goes: nothing hides behind training.
                job |= {"pace_s": 0.0, "taken": UNPACED_TAKEN}
                self.measure(f"fig16_unpaced/{word}/{number}", "loader_waits", **job)

    def hang(self) -> None:
        """A loader process stands still; and a machine is so busy that one might think so."""
        self.measure("hang/stopped", "hang", stops=3, **self._loaders())
        busy_s = self.options.busy_minutes * 60
        self.measure("hang/busy", "beside_busy_loops", busy_s=busy_s, **self._loaders())

    def empty(self) -> None:
        """A loader process comes back empty, or its slot goes on in a shadow of either kind."""
        for name, job in raw_sources.jobs(self.options.data, self._pythons).items():
            for word, rest_s in (("rested", REST_S), ("pressed", 0.0)):
                for shadow in (None, "lean", "warm"):
                    kills = min(self.options.kills, MOST_EMPTY_KILLS)
                    setup = {"kills": kills, "shadow": shadow, "rest_s": rest_s}
                    key = f"empty/{name}/{word}/{shadow or 'none'}"
                    self.measure(key, "served_again", mesh={"dp": 1}, **job, **setup)

    def stalls(self) -> None:
        """Waits of every step, with deaths of each kind and without."""
        deaths = list(range(KILL_FIRST, TAKEN, KILL_EVERY))
        for number in range(self.options.rounds):
            for prefetch in PREFETCHES:
                for victim in VICTIMS:
                    setup = {"taken": TAKEN, "kill_after": deaths, "prefetch": prefetch}
                    key = f"stalls/{victim}/prefetch_{prefetch}/{number}"
                    self.measure(key, "waits", kinds=[victim], **setup)


def record_chain() -> Figures:
    """What the micro benchmark of the journal's records says, where it is built."""
    root = Path(__file__).resolve().parents[2]
    program = root / "build" / "bin" / BENCHMARK
    if not program.is_file():
        return {"missing": f"{program.name} is not built: `make bench` builds it"}
    words = [str(program), "--benchmark_format=json", "--benchmark_filter=write_plans"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return {"failed": done.stderr.strip() or f"exit status {done.returncode}"}
    rows = {row["name"]: row for row in json.loads(done.stdout)["benchmarks"]}
    told: Figures = {"version": __version__}
    for name, row in rows.items():
        case = CASES[name.partition("/")[2]]
        told[f"us_per_plan_{case}"] = row["seconds_per_plan"] * 1e6
        told[f"bytes_per_plan_{case}"] = row["bytes_per_plan"]
    return told


def figures_of(found: Mapping[str, Figures]) -> Figures:
    """The figures of the report; those that were not measured are left out."""
    figures: Figures = {}
    compared = [told for key, told in found.items() if key.startswith("ids/") and "ids" in told]
    for name in ("ids_lost", "ids_twice", "wrong_bytes", "ids", "bytes", "kills"):
        if len(compared) == len(KINDS):
            figures["ids_compared" if name == "ids" else name] = sum(t[name] for t in compared)
    if "bytes_per_plan" in found.get("journal/run", {}):
        figures["journal_bytes_per_plan"] = found["journal/run"]["bytes_per_plan"]
    chain = found.get("journal/record_chain", {})
    for key, value in chain.items():
        if key.startswith(("us_per_plan", "bytes_per_plan")):
            figures[f"journal_{key}"] = value
    for key, told in found.items():
        if key.startswith("throughput/") and "ratio" in told:
            suffix = key.removeprefix("throughput").removeprefix(f"/{BINS[0]}_bins")
            suffix = suffix.replace("/", "_")
            figures["throughput_ratio" + suffix] = told["ratio"]
            figures["throughput_sync_ms" + suffix] = told["sync_ms"]
    return figures | _restart_figures(found) | _stall_figures(found) | shadow_figures(found)


def _restart_figures(found: Mapping[str, Figures]) -> Figures:
    figures: Figures = {}
    flat = found.get("restart_flat", {})
    for kind, name in (("warm", "planner_restart"), ("cold", "planner_cold_restart")):
        for key in (f"restart/{kind}", f"restart/{kind}/{MANY}_sources"):
            if "median_s" in (told := found.get(key, {})):
                longer = name + key.removeprefix(f"restart/{kind}").replace("/", "_")
                figures[f"{longer}_s"] = told["median_s"]
                figures[f"{longer}_max_s"] = told["max_s"]
        for plans, seconds in flat.get(kind, {}).items():
            figures[f"{name}_s_after_{plans}"] = statistics.median(seconds)
    for plans, size in flat.get("journal_bytes", {}).items():
        figures[f"journal_bytes_after_{plans}"] = size
    return figures


def _stall_figures(found: Mapping[str, Figures]) -> Figures:
    figures: Figures = {}
    for victim, word in VICTIMS.items():
        for prefetch in PREFETCHES:
            begin = f"stalls/{victim}/prefetch_{prefetch}/"
            runs = [told for key, told in found.items() if key.startswith(begin)]
            if runs and all("waits_ms" in told for told in runs):
                suffix = word + ("" if prefetch == PREFETCHES[0] else f"_prefetch_{prefetch}")
                figures["stalled_steps" + suffix] = sum(map(stalled, runs))
                longest = max(max(told["waits_ms"][STARTING:]) for told in runs)
                figures["longest_wait_ms" + suffix] = longest
    return figures


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure the parts in turn."""
    options = _parse(arguments)
    parts = [part for part in options.parts.split(",") if part]
    if unknown := set(parts) - set(PARTS):
        raise SystemExit(f"--parts: there is no {', '.join(sorted(unknown))}; choose of {PARTS}")
    host = _contract.machine()
    with _peers.package_folder() as path:
        bench = _Bench(options, path)
        for part in parts:
            getattr(bench, part)()
    settings = {name: value for name, value in vars(options).items() if name != "data"}
    settings |= {"parts": parts, "aims": AIMS}
    return _contract.report("recovery", figures_of(bench.found), bench.found, settings, host)
