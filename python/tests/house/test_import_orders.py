"""Overlord, torch, Ray, pyarrow (with Flight) and NumPy in one process, imported in any order."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import made_up_documents, two_sources

# Of any two modules each comes first once: the second order is the first one backwards.
ORDERS = [
    ("torch", "overlord", "ray", "pyarrow.flight", "numpy"),
    ("numpy", "pyarrow.flight", "ray", "overlord", "torch"),
]
# Each module is used a little: Arrow decodes, torch multiplies, and our engine reads Parquet.
READ = """
import importlib, json, sys
config, order = json.loads(sys.argv[1]), sys.argv[2].split()
for name in order:
    importlib.import_module(name)
import overlord as ol
with ol.job(config, mesh="dp=2").train(rank=1) as loader:
    if "ray" in order:
        import ray
        assert ray.__version__
    batch = next(loader)
    assert int(batch.tokens.sum()) > 0 and batch.num_docs > 0
    if "torch" in order:
        import torch
        tensors = batch.torch()
        assert tensors["tokens"].data_ptr() == batch.tokens.__array_interface__["data"][0]
        assert (torch.ones(64, 64) @ torch.ones(64, 64)).sum() == 64**3
    import pyarrow.parquet
    path = config["sources"]["lists"]["files"][0]
    assert pyarrow.parquet.read_table(path).num_rows == 120
    if "pyarrow.flight" in order:
        import pyarrow.flight
        pyarrow.flight.Ticket(b"x").serialize()
    print(batch.step, int(batch.tokens.sum()), len(list(zip(range(20), loader))))
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job over Parquet, JSONL and .bin, as JSON; indexed by whoever comes first."""
    folder = tmp_path_factory.mktemp("imports")
    corpus = two_sources(folder)
    lists = pa.array([d.tolist() for d in made_up_documents(120)], pa.list_(pa.int32()))
    pq.write_table(pa.table({"t": lists}), folder / "lists.parquet", compression="zstd")
    corpus.sources["lists"] = {"files": "lists.parquet", "tokens": "t"}
    return json.dumps(corpus.config(at_end="repeat"))


def read_with(order: tuple[str, ...], config: str, tmp_path: Path) -> str:
    absent = [name for name in order if importlib.util.find_spec(name.split(".")[0]) is None]
    if absent:
        pytest.skip(f"{absent[0]} is not installed here")
    environment = {**os.environ, "HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", READ, config, " ".join(order)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, f"{order}: {run.stderr[-2000:]}"
    return run.stdout


@pytest.fixture(scope="module")
def alone(config: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a process that imports only Overlord reads."""
    return read_with(("overlord",), config, tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_all_together(order: tuple[str, ...], config: str, alone: str, tmp_path: Path) -> None:
    assert read_with(order, config, tmp_path) == alone and alone.endswith(" 20\n")


def test_importing_costs_nothing(tmp_path: Path) -> None:
    """`import overlord` alone loads neither the engine nor any large package."""
    large = "('torch', 'ray', 'pyarrow', 'overlord._core')"
    check = f"import sys, overlord; print([name for name in {large} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert run.stdout == "[]\n"


def test_the_engine_needs_no_torch(config: str) -> None:
    """Reading imports neither torch nor Ray."""
    check = READ + "\nprint([name for name in ('torch', 'ray') if name in sys.modules])"
    command = [sys.executable, "-c", check, config, "overlord"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.endswith("[]\n")
