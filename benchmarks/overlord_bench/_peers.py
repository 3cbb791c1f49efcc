"""Runs contenders, each in a process of its own: ours with this Python, peers with theirs."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import overlord
from overlord_bench import _quiet
from overlord_bench._contract import Figures, medians
from overlord_bench._quiet import Patience

ENVIRONMENT = ".venv-peers"
NO_ENVIRONMENT = f"no environment {ENVIRONMENT} here: `make peers` makes it"
_MARK = "overlord-bench-result "
_WORKERS = "overlord_bench._contenders"
_PATIENCE_S = 900.0


@dataclass(frozen=True)
class Contender:
    """One way to do the work: a module of `_contenders`, and how it is set up."""

    key: str
    module: str
    setup: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    is_peer: bool = True


@dataclass(frozen=True)
class Place:
    """Where a process runs: words before its command, and the cores it is pinned to (any)."""

    prefix: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()

    def enter(self) -> None:
        """In the new process, before it becomes the command."""
        if self.cores:
            os.sched_setaffinity(0, self.cores)


HERE = Place()


@dataclass(frozen=True)
class Pythons:
    """The interpreters: ours, and that of the peers where there is one."""

    ours: str
    peers: str | None

    def of(self, contender: Contender) -> str | None:
        """Who runs a contender."""
        return self.peers if contender.is_peer else self.ours


def add_options(parser: argparse.ArgumentParser, *, rounds: int = 3) -> None:
    """What every benchmark can be told."""
    parser.add_argument("--rounds", type=int, default=rounds, help="runs of every contender")
    parser.add_argument("--peers", default=None, help="the peers' environment, or its Python")
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="to wait for a quiet machine, and to run again what was disturbed",
    )


def find_pythons(peers: str | None) -> Pythons:
    """`peers` is an interpreter or an environment's folder; without it the usual places."""
    root = Path(__file__).resolve().parents[2]
    wanted = [Path(peers)] if peers else [Path(ENVIRONMENT), root / ENVIRONMENT]
    for place in wanted:
        program = place / "bin" / "python" if place.is_dir() else place
        if program.is_file():
            return Pythons(sys.executable, str(program.absolute()))
    return Pythons(sys.executable, None)


@contextlib.contextmanager
def package_folder() -> Iterator[str]:
    """A folder with Overlord, the benchmarks and nothing else, to put on a peer's path."""
    with tempfile.TemporaryDirectory(prefix="overlord-bench-") as folder:
        for package in (Path(overlord.__file__).parent, Path(__file__).resolve().parent):
            (Path(folder) / package.name).symlink_to(package)
        yield folder


def run_once(
    pythons: Pythons,
    contender: Contender,
    work: Mapping[str, Any],
    path: str,
    patience_s: float = _PATIENCE_S,
    place: Place = HERE,
) -> Figures:
    """One run; its figures, or `missing` or `failed` with the reason."""
    program = pythons.of(contender)
    if program is None:
        return {"missing": NO_ENVIRONMENT}
    words = [program, "-m", _WORKERS, contender.module, json.dumps({**work, **contender.setup})]
    # Ours may have its packages from there; peers have them in their own environment.
    inherited = "" if contender.is_peer else os.environ.get("PYTHONPATH", "")
    paths = os.pathsep.join(filter(None, [path, inherited]))
    environment = {**os.environ, **contender.environment, "PYTHONPATH": paths}
    try:
        done = subprocess.run(
            [*place.prefix, *words],
            capture_output=True,
            text=True,
            timeout=patience_s,
            env=environment,
            preexec_fn=place.enter,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {patience_s:.0f} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            figures: Figures = json.loads(line.removeprefix(_MARK))
            return figures
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    return {"failed": f"exit status {done.returncode}: {last}"}


def run_undisturbed(
    pythons: Pythons,
    contender: Contender,
    work: Mapping[str, Any],
    path: str,
    patience: Patience,
) -> Figures:
    """One run that nothing else disturbed, while patience lasts; says what others took of it."""
    while True:
        patience.wait()
        before = _quiet.now()
        figures = run_once(pythons, contender, work, path)
        others = _quiet.others_since(before)
        if not is_measured(figures):
            return figures
        if others <= _quiet.MOST_OTHERS or not patience.lasts:
            return {**figures, "others_cpu": round(others, 3)}
        say(f"    again: other processes took {others:.2f} cores")
        patience.spend(time.perf_counter() - before.wall)


def interleave(
    pythons: Pythons,
    contenders: Sequence[Contender],
    work: Mapping[str, Any],
    rounds: int,
    patience: Patience | None = None,
) -> dict[str, Figures]:
    """Run all contenders in turn, `rounds` times over; medians of each by its key."""
    patience = patience or Patience(0)
    runs: dict[str, list[Figures]] = {contender.key: [] for contender in contenders}
    with package_folder() as path:
        for turn in range(rounds):
            for contender in contenders if turn % 2 == 0 else list(reversed(contenders)):
                past = runs[contender.key]
                if past and not is_measured(past[-1]):
                    continue
                say(f"{turn + 1}/{rounds} {contender.key}")
                past.append(run_undisturbed(pythons, contender, work, path, patience))
                say(f"    {_brief(past[-1])}")
    return {key: _merge(past) for key, past in runs.items()}


def is_measured(figures: Mapping[str, Any]) -> bool:
    """Whether a contender ran."""
    return "missing" not in figures and "failed" not in figures


def _merge(runs: list[Figures]) -> Figures:
    return medians(runs) if is_measured(runs[-1]) else runs[-1]


def _brief(figures: Mapping[str, Any]) -> str:
    shown = [
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in figures.items()
    ]
    return " ".join(shown)


def say(text: str) -> None:
    """Tell who waits what goes on."""
    print(text, file=sys.stderr, flush=True)


def print_result(figures: Mapping[str, Any]) -> None:
    """What a contender's process says at its end."""
    print(_MARK + json.dumps(figures), flush=True)
