"""Time from a finished microbatch to the view of it in another process of the host.

Two processes talk as a constructor and a rank do: bytes lie in the maker's shared memory, their
description and a lease travel over a Unix socket, and a waiting thread of the taker gets the view
and reads its first and last bytes. The two share a clock, so the way there is measured alone.
Nothing may be copied: `copies` counts bytes that travelled instead of being shared. `own` figures
leave out the time in which a thread of the taker was ready to run and had no core.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from typing import Any

from overlord_bench import _contract
from overlord_bench._contract import Figures

SIZES = (64_000, 1_000_000, 16_000_000, 128_000_000, 500_000_000)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench handover")
    parser.add_argument("--rounds", type=int, default=3, help="runs of every size")
    parser.add_argument("--handovers", type=int, default=5000, help="of every run")
    parser.add_argument("--full", action="store_true", help="ten times as many")
    return parser.parse_args(arguments)


def name_of(size: int) -> str:
    """A size in words."""
    return f"{size // 1000}_kb" if size < 1_000_000 else f"{size // 1_000_000}_mb"


def measure(size: int, handovers: int) -> Figures:
    """One run of one size."""
    from overlord_bench._native import measure_program

    with tempfile.TemporaryDirectory(prefix="ol-hand-") as folder:
        words = [str(measure_program()), "handover", folder, str(size), str(handovers)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return {"failed": done.stderr.strip() or f"exit status {done.returncode}"}
    figures: Figures = json.loads(done.stdout)
    return figures


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure all sizes in turn."""
    options = _parse(arguments)
    host = _contract.machine()
    handovers = options.handovers * (10 if options.full else 1)
    runs: dict[int, list[Figures]] = {size: [] for size in SIZES}
    for _ in range(options.rounds):
        for size in SIZES:
            runs[size].append(measure(size, handovers))
            print(f"{name_of(size)} {runs[size][-1]}", file=sys.stderr, flush=True)
    found = {
        name_of(size): _contract.medians(past) if "failed" not in past[-1] else past[-1]
        for size, past in runs.items()
    }
    measured = [value for value in found.values() if "failed" not in value]
    figures: Figures = {
        "p50_us": max((value["p50_us"] for value in measured), default=None),
        "p99_us": max((value["p99_us"] for value in measured), default=None),
        "own_p50_us": max((value["own_p50_us"] for value in measured), default=None),
        "own_p99_us": max((value["own_p99_us"] for value in measured), default=None),
        "copies": sum(value["inline_bytes"] for value in measured),
    }
    for name, value in found.items():
        figures[f"p50_us_{name}"] = value.get("p50_us")
        figures[f"p99_us_{name}"] = value.get("p99_us")
        figures[f"own_p99_us_{name}"] = value.get("own_p99_us")
    settings = {"handovers": handovers, "rounds": options.rounds, "sizes": list(SIZES)}
    return _contract.report("handover", figures, found, settings, host)
