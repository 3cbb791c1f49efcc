"""One run of `overlord bench scaling`: contenders in processes of their own, within a time."""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from overlord_bench import _peers
from overlord_bench._contract import Figures
from overlord_bench._peers import HERE, Contender, Place

_TRAINER = "scaling.trainer"
_LEAST_S = 5.0  # that anybody gets


class Bench:
    """What was found so far, by contender, and how much time is left."""

    def __init__(self, options: argparse.Namespace, path: str) -> None:
        self.options, self.path = options, path
        self.pythons = _peers.find_pythons(options.peers)
        self.found: dict[str, Figures] = {}
        self._ends: float = time.monotonic() + options.limit

    def left_s(self) -> float:
        """Until the bench has to end."""
        return self._ends - time.monotonic()

    def measure(
        self, key: str, what: str, config: Mapping[str, Any], place: Place = HERE, **work: Any
    ) -> Figures:
        """Run a trainer of this job; what it said is kept under its key."""
        with written_job(config) as job:
            return self.measure_written(key, what, job, place, **work)

    def measure_written(
        self, key: str, what: str, job: Mapping[str, str], place: Place = HERE, **work: Any
    ) -> Figures:
        """The same of a job that lies in a file; `job` has what `written_job` says."""
        if (left_s := self.left_s()) < _LEAST_S:
            return self.keep(key, {"failed": f"no time left of --limit {self.options.limit:g} s"})
        told = {**job, "mesh": {"dp": 1}, **work, "measure": what}
        contender = Contender(key, _TRAINER, is_peer=False)
        return self.keep(
            key, _peers.run_once(self.pythons, contender, told, self.path, left_s, place)
        )

    def keep(self, key: str, told: Figures) -> Figures:
        """Under its key, and on the terminal."""
        self.found[key] = told
        shown = {name: value for name, value in told.items() if not isinstance(value, list | dict)}
        say(f"{key}: {shown} ({self.left_s():.0f} s left)")
        return told


def say(text: str) -> None:
    """On the terminal, at once."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def written_job(config: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """A job as a file, and a folder for its sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="ol-sc-", dir="/tmp") as folder:
        yield {"config": write_job(config, Path(folder)), "directory": folder}


def write_job(
    config: Mapping[str, Any], folder: Path, name: str = "job.yaml", sockets: Path | None = None
) -> str:
    """A job's file in a folder where its sockets lie too, or elsewhere."""
    runtime = dict(config.get("runtime", {}))
    directory = str(sockets or folder)
    runtime["processes"] = {**runtime.get("processes", {}), "directory": directory}
    Path(directory).mkdir(exist_ok=True)
    path = folder / name
    path.write_text(yaml.safe_dump({**config, "runtime": runtime}))
    return str(path)


def partition(bench: Bench, config: Mapping[str, Any], cores: int, *words: str) -> dict[str, Any]:
    """What `overlord partition` says of a job that has run; it also leaves it for `auto`."""
    with written_job(config) as job:
        command = [sys.executable, "-m", "overlord", "partition", job["config"], "--mesh", "dp=1"]
        command += ["--cores", str(cores), "--json", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=bench.left_s())
    if done.returncode != 0:
        raise RuntimeError(f"overlord partition: {done.stderr.strip()}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told
