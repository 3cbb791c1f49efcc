"""What tracing costs: our loop through a node, with the trace on and off in turn.

Two ways. Events that a step notes, times what one costs alone, over the CPU time of a step: this is
what counts, it hardly spreads. And each pair of windows is a measurement of its own: CPU time per
step of all processes, the loop's among them, with the trace on over the same with it off. CPU time,
because wall time on a shared machine says more about the machine; pairs next to each other, because
everything else drifts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overlord_bench import _fleet
from overlord_bench._contenders.loop import touch
from overlord_bench._contenders.overlord_loader import job_config, name_fields

_PAIRS = 16
_WINDOW_S = 1.0
_EVENTS = 1_000_000
_SWITCH_S = 1.3  # processes look at the switch once a second at least


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Percent of CPU time that tracing adds, both ways."""
    import overlord as ol

    with tempfile.TemporaryDirectory(prefix="ol-trace-", dir="/tmp") as folder:
        config = job_config(work)
        config["runtime"] = {**config["runtime"], "processes": {"directory": folder}}
        with ol.job(config).train(rank=0, engine="processes") as loader:
            for _ in range(work["warmup"]):
                next(loader)
            pids = [os.getpid(), *_fleet.members(set(), folder)]
            costs, plain, per_step = _pairs(loader, pids, _job_folder(Path(folder)), work)
        _fleet.wait_until_served_by_none(folder)
    quarters = statistics.quantiles(costs, n=4)
    return {
        "version": ol.__version__,
        "trace_cost_percent": 100 * per_step * _event_seconds() / plain,
        "traced_events_per_step": per_step,
        "paired_trace_cost_percent": statistics.median(costs),
        # Half of the distance between the quartiles, over the root of their number: what the median
        # may be off by.
        "paired_trace_cost_error_percent": (quarters[2] - quarters[0]) / 2 / len(costs) ** 0.5,
        "cpu_us_per_step": 1e6 * plain,
    }


def _event_seconds() -> float:
    """CPU time of one event, noted alone."""
    from overlord_bench._native import measure_program

    told = subprocess.run(
        [str(measure_program()), "tracing", str(_EVENTS)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(told.stdout)["cpu_ns"]) / 1e9


def _job_folder(folder: Path) -> Path:
    """Where the processes of the job look for the switch: beside the node's socket."""
    return next(path.parent for path in folder.rglob("node") if path.is_socket())


def _pairs(
    loader: Iterator[Any], pids: list[int], folder: Path, work: dict[str, Any]
) -> tuple[list[float], float, float]:
    """What each pair says in percent; CPU seconds of a step without trace; events of one with."""
    costs, plain, traced, events = [], [], 0, 0
    for pair in range(work.get("pairs", _PAIRS)):
        cpu: dict[bool, float] = {}
        for on in (True, False) if pair % 2 == 0 else (False, True):
            switched = _switch(loader, folder, on)
            cpu[on], steps = _window(loader, pids)
            if on:
                traced += switched + steps
        events += _forget_events(loader, folder)
        costs.append(100 * (cpu[True] / cpu[False] - 1))
        plain.append(cpu[False])
    return costs, statistics.median(plain), events / max(1, traced)


def _switch(loader: Iterator[Any], folder: Path, on: bool) -> int:
    """Has all processes trace or not; the steps that passed until they did."""
    wanted = folder / "trace-wanted"
    wanted.touch(mode=0o600) if on else wanted.unlink(missing_ok=True)
    return _run(loader, _SWITCH_S)


def _run(loader: Iterator[Any], seconds: float) -> int:
    steps, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        touch(name_fields(next(loader)))
        steps += 1
    return steps


def _window(loader: Iterator[Any], pids: list[int]) -> tuple[float, int]:
    """CPU seconds per step of all processes."""
    before = sum(_fleet.cpu_seconds(pid) for pid in pids)
    steps = _run(loader, _WINDOW_S)
    return (sum(_fleet.cpu_seconds(pid) for pid in pids) - before) / max(1, steps), steps


def _forget_events(loader: Iterator[Any], folder: Path) -> int:
    """Ends the trace; how many events the processes had kept."""
    _switch(loader, folder, on=False)
    kept = 0
    for path in folder.glob("trace-of-*"):
        if not path.name.endswith("~"):
            kept += len(path.read_text(errors="replace").splitlines())
            path.unlink()
    return kept
