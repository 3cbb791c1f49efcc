"""Runs of trainers as their pages show them, and what a plain loop over one rank gives."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from own_rank import started
from packed_job import packed_job

import overlord as ol

HERE = Path(__file__).parent
Steps = dict[int, tuple[tuple[str, ...], float]]  # rows of a step, and its loss


def prepare(folder: Path, **more: Any) -> Path:
    """A folder with data and mix.yaml, indexed."""
    config = packed_job(folder, **more)
    (folder / "mix.yaml").write_text(yaml.safe_dump(config))
    ol.job(config).open_stream()
    return folder


def drive(
    folder: Path, page: str, ranks: int, *words: str, restarts: int = 0, dies: bool = False
) -> None:
    """torchrun over drive.py, to its end; `dies`: a rank dies on the way, as it was told to."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    paths = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    run = subprocess.run(
        [
            *torchrun,
            *(f"--nproc-per-node={ranks}", f"--max-restarts={restarts}"),
            *(str(HERE / "drive.py"), page, str(folder), *words),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    ended = "exitcode  : 9 " in run.stderr if dies else run.returncode == 0
    assert ended, run.stdout[-3000:] + run.stderr[-6000:]


def drive_warm(folder: Path, page: str, ranks: int, *words: str, dies: bool = False) -> None:
    """The same for a fraction of the cost: ranks that are forked, and no torchrun beside them."""
    store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port_for_a_store()), "LOCAL_RANK": "0"}
    started_ranks = [
        started(
            *("drive.py", page, str(folder), *words),
            environment={**store, "RANK": str(rank), "WORLD_SIZE": str(ranks)},
        )
        for rank in range(ranks)
    ]
    try:
        assert started_ranks[0].wait(240) == (9 if dies else 0)
        for process in started_ranks[1:]:
            if dies:  # it waits for the one that died
                process.kill()
            assert process.wait(240) == (-signal.SIGKILL if dies else 0)
    finally:
        for process in started_ranks:
            process.kill()
            process.wait()


def port_for_a_store() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def steps_of(folder: Path) -> Steps:
    """What the steps held and lost, of all attempts; those that several have must be the same."""
    attempts: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for file in sorted((folder / "seen").glob("*.jsonl")):
        attempt = file.stem.partition("-")[2]
        for line in file.read_text().splitlines():
            record = json.loads(line)
            attempts[record["at"][0], attempt].append(record)
    bins = yaml.safe_load((folder / "mix.yaml").read_text())["bins"]
    found: Steps = {}
    for (step, _), records in sorted(attempts.items()):
        records.sort(key=lambda record: record["at"])
        rows = tuple(row for record in records for row in record["rows"])
        if len(rows) < bins:
            continue  # it died in this step
        loss = sum(r["loss"] for r in records) / sum(r["targets"] for r in records)
        if step in found:
            assert found[step][0] == rows and abs(found[step][1] / loss - 1) < 1e-5
        found[step] = (rows, loss)
    return found


def same(found: Steps, expected: Steps, steps: Sequence[int]) -> None:
    """Rows bit for bit, losses within 1e-5."""
    assert sorted(found) == list(steps)
    for step in steps:
        assert found[step][0] == expected[step][0], f"step {step} has other rows"
        ratio = found[step][1] / expected[step][1]
        assert abs(ratio - 1) < 1e-5, f"step {step}: {found[step][1]} for {expected[step][1]}"
