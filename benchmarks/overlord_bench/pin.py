"""How fast batches go to a CUDA device: memory that `pin=True` registered against the rest.

The same bytes are copied to the device from a batch of each engine read with `pin=True`, from one
read without, and from a tensor of `pin_memory()`, which is what a user would pick instead and
stands for the limit of the bus. Copies are asynchronous and timed by the device's own events.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from overlord._src.batch.tensors import as_tensor

from overlord_bench import _contract
from overlord_bench._contract import Figures

CONTEXT = 65_536
BINS = 64
VOCABULARY = 50_000


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench pin")
    parser.add_argument("--rounds", type=int, default=5, help="runs of every contender, in turn")
    parser.add_argument("--copies", type=int, default=50, help="of every run")
    return parser.parse_args(arguments)


def _corpus(folder: Path) -> dict[str, Any]:
    """One source of ready tokens, enough for a few steps, and a job over it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(5)
    rows = [rng.integers(0, VOCABULARY, 16_384, dtype=np.int32) for _ in range(600)]
    table = pa.table({"tokens": pa.array(rows, type=pa.list_(pa.int32()))})
    pq.write_table(table, folder / "a.parquet", row_group_size=64)
    return {
        "job": "pin",
        "seed": 7,
        "at_end": "repeat",
        "steps": 2,
        "context": CONTEXT,
        "bins": BINS,
        "vocabulary": VOCABULARY,
        "index_dir": str(folder / "index"),
        "sources": {"web": {"files": str(folder / "a.parquet"), "tokens": "tokens"}},
        "mixture": {"weights": {"web": 1}},
        "delivery": {"microbatch_size": BINS, "token_dtype": "int64"},
    }


def _gigabytes_per_second(host_tensor: Any, copies: int) -> float:
    import torch

    target = torch.empty(host_tensor.shape, dtype=host_tensor.dtype, device="cuda")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    target.copy_(host_tensor, non_blocking=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(copies):
        target.copy_(host_tensor, non_blocking=True)
    end.record()
    torch.cuda.synchronize()
    if not torch.equal(target.cpu(), host_tensor):
        raise AssertionError("the device has other bytes than the batch")
    moved = host_tensor.numel() * host_tensor.element_size() * copies
    return float(moved / begin.elapsed_time(end) / 1e6)


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure all contenders in turn."""
    import torch

    import overlord as ol

    options = _parse(arguments)
    host = _contract.machine()
    settings = {"rounds": options.rounds, "copies": options.copies, "bytes": CONTEXT * BINS * 8}
    if not torch.cuda.is_available():
        return _contract.report("pin", {}, {"failed": "no CUDA device here"}, settings, host)
    torch.cuda.init()
    with tempfile.TemporaryDirectory(prefix="ol-pin-") as folder:
        job = ol.job(_corpus(Path(folder)))
        contenders: dict[str, Any] = {}
        loaders = []
        for engine in ("embedded", "processes"):
            for pin in (False, True):
                loader = job.train(rank=0, engine=engine, pin=pin)
                loaders.append(loader)
                tensor = as_tensor(
                    next(loader).arrays()["tokens"]
                )  # as batch.torch(device) sends it
                contenders[f"{engine}_{'pinned' if pin else 'plain'}"] = tensor
                contenders.setdefault("pin_memory", tensor.clone().pin_memory())
                if pin and not tensor.is_pinned():
                    raise AssertionError(f"{engine}: torch does not see that a batch is pinned")
        runs: dict[str, list[Figures]] = {name: [] for name in contenders}
        for _ in range(options.rounds):
            for name, tensor in contenders.items():
                runs[name].append({"gb_per_s": _gigabytes_per_second(tensor, options.copies)})
                print(f"{name} {runs[name][-1]}", file=sys.stderr, flush=True)
        contenders.clear()
        for loader in loaders:
            loader.close()
    found = {name: _contract.medians(past) for name, past in runs.items()}
    best = found["pin_memory"]["gb_per_s"]
    figures: Figures = {
        f"{name}_vs_pin_memory": value["gb_per_s"] / best for name, value in found.items()
    }
    figures["gb_per_s"] = found["processes_pinned"]["gb_per_s"]
    return _contract.report("pin", figures, found, settings, host)
