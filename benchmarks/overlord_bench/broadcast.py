"""Ranks that read, against ranks that are served by `ol.torch.broadcast`: CPU and bytes of a step.

Tensor-parallel groups of one host want the same microbatches. `read`: every rank reads what the
node has laid into memory that all share. `served`: one rank of each group reads and hands on.
CPU is that of all ranks and of the node's processes; bytes are those that went from rank to rank.
Ranks train nothing, and are forked from one process so that many fit on a host.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlord_bench import _contract

SKIPPED = 5  # steps before anything is measured
CONTEXT, MICROBATCHES = 4096, 4


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench broadcast")
    parser.add_argument("--ranks", default="8,16,32,64", help="numbers of ranks, by commas")
    parser.add_argument("--tp", type=int, default=8, help="ranks that want the same")
    parser.add_argument("--steps", type=int, default=40, help="that are measured")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is told")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure both ways for every number of ranks, in turn."""
    options = _parse(arguments)
    host = _contract.machine()
    import torch.distributed  # noqa: F401  before the ranks are forked

    figures: dict[str, Any] = {}
    for ranks in map(int, options.ranks.split(",")):
        runs: dict[str, list[dict[str, float]]] = {"read": [], "served": []}
        for _ in range(options.rounds):
            for way in runs:
                runs[way].append(_measured(way, ranks, options))
        for way, found in runs.items():
            middle = _contract.medians(found)
            figures |= {f"{way}_{key}_{ranks}": middle[key] for key in found[0]}
    settings = {"tp": options.tp, "steps": options.steps, "rounds": options.rounds}
    settings |= {"context": CONTEXT, "microbatches": MICROBATCHES}
    return _contract.report("broadcast", figures, {}, settings, host)


def _config(folder: Path, way: str, groups: int, steps: int) -> dict[str, Any]:
    path = folder / "text.parquet"
    if not path.exists():
        dice = np.random.default_rng(1)
        tokens = [dice.integers(1, 30_000, dice.integers(100, 4000)) for _ in range(2000)]
        pq.write_table(pa.table({"t": pa.array(tokens, pa.list_(pa.int32()))}), path)
    return {
        "job": f"broadcast-{way}",
        "seed": 1,
        "context": CONTEXT,
        "bins": groups * MICROBATCHES,
        "steps": steps,
        "vocabulary": 30_000,
        "at_end": "repeat",
        "index_dir": str(folder / "index"),
        "mixture": {"weights": {"text": 1}},
        "sources": {"text": {"files": str(path), "tokens": "t"}},
        "delivery": {"broadcast": ["tp"], "readers": "fields"} if way == "served" else {},
        "runtime": {"processes": {"directory": str(folder)}},
    }


def _measured(way: str, ranks: int, options: argparse.Namespace) -> dict[str, float]:
    # Not below a long folder: addresses of sockets have at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="ol-") as name:
        folder, forks = Path(name), multiprocessing.get_context("fork")
        groups = ranks // options.tp
        told = _config(folder, way, groups, SKIPPED + options.steps)
        results: Any = forks.Queue()
        started = [
            forks.Process(target=_rank, args=(told, rank, ranks, options, str(folder), results))
            for rank in range(ranks)
        ]
        for process in started:
            process.start()
        for process in started:
            process.join()
        if any(process.exitcode for process in started):
            raise RuntimeError(f"{ranks} ranks, {way}: some ended with an error, see above")
        found = [results.get() for _ in started]
    wall = max(rank["wall"] for rank in found)
    return {
        "cpu_ms_per_step": sum(rank["cpu"] for rank in found) / options.steps * 1e3,
        "node_cpu_ms_per_step": sum(rank["node"] for rank in found) / options.steps * 1e3,
        "sent_bytes_per_step": sum(rank["sent"] for rank in found) / options.steps,
        "steps_per_s": options.steps / wall,
    }


def _rank(
    told: dict[str, Any],
    rank: int,
    ranks: int,
    options: argparse.Namespace,
    folder: str,
    results: Any,
) -> None:
    import torch
    import torch.distributed as dist
    from overlord.torch import broadcast

    import overlord as ol

    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "TORCHELASTIC_RUN_ID": folder,
    }
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/m", rank=rank, world_size=ranks)
    job = ol.job(told, mesh=ol.mesh(dp=ranks // options.tp, tp=options.tp))
    served = bool(told["delivery"])
    stream: Any = broadcast(job, engine="processes") if served else job.train(rank)
    _read(stream, SKIPPED)
    dist.barrier()
    sent, node = getattr(stream, "sent_bytes", 0), _node_cpu(folder) if rank == 0 else 0.0
    cpu, wall = time.process_time(), time.perf_counter()
    _read(stream, options.steps)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    dist.barrier()
    node = _node_cpu(folder) - node if rank == 0 else 0.0
    sent = getattr(stream, "sent_bytes", 0) - sent
    dist.barrier()
    results.put({"cpu": cpu, "wall": wall, "node": node, "sent": sent})
    stream.close()
    dist.destroy_process_group()


def _read(stream: Any, steps: int) -> None:
    for _ in range(steps):
        while True:
            batch = next(stream)
            fields = batch.torch()
            assert fields["tokens"].shape[1] == CONTEXT
            if batch.last_in_step:
                break


def _node_cpu(folder: str) -> float:
    """Seconds of all processes that serve the job whose sockets lie in this folder."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and folder.encode() in (entry / "cmdline").read_bytes():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:  # it has ended
            continue
    return ticks / os.sysconf("SC_CLK_TCK")
