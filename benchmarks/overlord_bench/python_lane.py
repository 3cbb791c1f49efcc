"""How a user's Python scales in its lane: a function that holds the GIL in 1 to 8 workers.

Rows of text go through a transform of pure Python and are counted where a trainer gets them, for a
while after the start. `scaling_per_worker` is the rate of as many workers as there are cores over
that many times the rate of one. `hop_us` is the way of a batch to a worker and back: requests of 64
rows to a real worker whose function gives back what it got, over the socket that the engine uses.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from itertools import accumulate
from pathlib import Path
from typing import Any

from overlord_bench import _contract
from overlord_bench._contract import Figures

_MODULE = "overlord_bench._lane_function"
_ROW_BYTES = 2048
_ROWS = 40_000  # no run comes to the end: the second pass would be read from the cache
_BATCH = 64
_HOPS = 300


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench python_lane")
    parser.add_argument("--rounds", type=int, default=3, help="runs of every contender, in turn")
    parser.add_argument("--seconds", type=float, default=3.0, help="measured, of every run")
    parser.add_argument("--warm", type=float, default=2.0, help="seconds before that")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    return parser.parse_args(arguments)


def _texts() -> list[str]:
    import numpy as np

    dice = np.random.default_rng(11)
    letters = dice.integers(97, 123, (_ROWS, _ROW_BYTES), dtype=np.uint8)
    return [bytes(row).decode() for row in letters]


def _job(folder: Path, transform: dict[str, Any] | None) -> dict[str, Any]:
    source: dict[str, Any] = {"files": str(folder / "a.parquet"), "text": "text"}
    source |= {"tokenizer": "bytes", "workers": 4, "window_rows": 256}
    if transform is not None:
        source["transform"] = {**transform, "check_every": 0}
    return {
        "job": "python_lane",
        "seed": 3,
        "at_end": "repeat",
        "context": 4096,
        "bins": 16,
        "vocabulary": 256,
        "index_dir": str(folder / "index"),
        "sources": {"web": source},
        "mixture": {"weights": {"web": 1}},
        "runtime": {"prefetch": 1, "runway": 2, "payload_budget": "64MiB"},
    }


def _rows_per_second(config: dict[str, Any], options: argparse.Namespace) -> Figures:
    import overlord as ol

    loader = ol.job(config).train(rank=0, engine="embedded")
    try:
        batches = iter(loader)
        next(batches)
        begin = time.perf_counter()
        while time.perf_counter() - begin < options.warm:
            next(batches)
        rows, begin = 0, time.perf_counter()
        while (spent := time.perf_counter() - begin) < options.seconds:
            rows += next(batches).num_docs
        return {"rows_per_s": rows / spent}
    finally:
        loader.close()


def _request(texts: list[str]) -> bytes:
    data = [text.encode() for text in texts]
    ends = array("Q", accumulate(map(len, data)))
    size = sum(map(len, data))
    return b"".join((b"OVTK", struct.pack("<IQ", len(data), size), ends.tobytes(), *data))


def hop_microseconds(texts: list[str], hops: int = _HOPS) -> float:
    """The median time of one batch to a worker that does nothing, and back."""
    from overlord._workers.transform_worker import worker_command

    command = worker_command(f"{_MODULE}:nothing", "text", [p or os.getcwd() for p in sys.path])
    ours, its = socket.socketpair()
    with ours, subprocess.Popen(command, stdin=its.fileno(), stdout=its.fileno()) as worker:
        its.close()
        stream = ours.makefile("rwb", buffering=1 << 20)
        _, size = struct.unpack("<4sI", stream.read(8))
        stream.read(size)
        request, times = _request(texts), []
        for _ in range(hops):
            begin = time.perf_counter()
            stream.write(request)
            stream.flush()
            _, rows, text_bytes, tokens = struct.unpack("<4sIQQ", stream.read(24))
            stream.read(5 * rows + text_bytes + 4 * tokens)
            times.append(time.perf_counter() - begin)
        ours.shutdown(socket.SHUT_RDWR)
        stream.close()
        worker.wait(10)
    return statistics.median(times) * 1e6


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure all contenders in turn."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    options = _parse(arguments)
    host = _contract.machine()
    cores = len(os.sched_getaffinity(0))
    workers = sorted({*options.workers, 1, cores})
    texts = _texts()
    with tempfile.TemporaryDirectory(prefix="ol-lane-") as name:
        folder = Path(name)
        pq.write_table(pa.table({"text": texts}), folder / "a.parquet", row_group_size=512)
        contenders: dict[str, dict[str, Any] | None] = {
            f"process_{count}": {"function": f"{_MODULE}:busy", "workers": count}
            for count in workers
        }
        contenders["thread_2"] = {"function": f"{_MODULE}:busy_thread", "workers": 2}
        contenders["nothing_2"] = {"function": f"{_MODULE}:nothing", "workers": 2}
        contenders["no_transform"] = None
        runs: dict[str, list[Figures]] = {key: [] for key in contenders}
        for _ in range(options.rounds):
            for key, transform in contenders.items():
                runs[key].append(_rows_per_second(_job(folder, transform), options))
                print(f"{key} {runs[key][-1]}", file=sys.stderr, flush=True)
    found = {key: _contract.medians(past) for key, past in runs.items()}
    one = found["process_1"]["rows_per_s"]
    figures: Figures = {
        "scaling_per_worker": found[f"process_{cores}"]["rows_per_s"] / one / cores,
        "hop_us": hop_microseconds(texts[:_BATCH]),
        "rows_per_s_per_worker": one,
    }
    for count in workers:
        rate = found[f"process_{count}"]["rows_per_s"]
        figures[f"of_linear_{count}"] = rate / one / min(count, cores)
    settings = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "batch": _BATCH,
        "row_bytes": _ROW_BYTES,
        "cores": cores,
    }
    return _contract.report("python_lane", figures, found, settings, host)
