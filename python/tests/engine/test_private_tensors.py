"""Tensors of a batch are its own: they may be written to, and nobody else sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from delivered import content

import overlord as ol

torch = pytest.importorskip("torch")
ENGINES = ["embedded", "processes"]

SPOILER = """
import json, sys
import numpy as np
import overlord as ol

def spoil(batch):
    for tensor in batch.torch().values():
        tensor.zero_()
        tensor.sub_(7)

job = ol.job(json.loads(sys.argv[1]))
held = []
with job.train(engine=sys.argv[2]) as loader, job.train(engine="embedded") as clean:
    for number, (batch, untouched) in enumerate(zip(loader, clean, strict=True)):
        for name, array in batch.arrays().items():
            assert np.array_equal(array, untouched.arrays()[name]), (number, name)
        spoil(batch)
        if number % 7 == 0:
            held.append(batch.torch())
assert len(held) > 20
for tensors in held:  # long after their memory would have been used again
    for name, tensor in tensors.items():
        written = np.array(0, tensor.numpy().dtype) - np.array(7, tensor.numpy().dtype)
        assert (tensor == written).all(), name
print("alive", number)
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_in_place_writes_stay_in_their_batch(config: dict[str, Any], engine: str) -> None:
    """Every tensor of every batch is overwritten, and what comes later is what was to come."""
    # A pool of few pages, used again and again.
    config |= {"steps": 60, "context": 1024, "bins": 4}
    config["runtime"] |= {"constructor_budget": "256KiB", "prefetch": 2, "runway": 4}
    run = subprocess.run(
        [sys.executable, "-c", SPOILER, json.dumps(config), engine],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (run.returncode, run.stderr, run.stdout) == (0, "", "alive 239\n")


@pytest.mark.parametrize("engine", ENGINES)
def test_peers_do_not_see_each_others_writes(config: dict[str, Any], engine: str) -> None:
    """Ranks of one process whose arrays are the same bytes."""
    config |= {"steps": 4}
    with ol.job(config, mesh="tp=2").train(ranks="all", engine=engine) as loaders:
        for batches in islice(loaders.rounds(), 20):
            mine, theirs = batches[0], batches[1]
            before = content(theirs)
            tensors = mine.torch()
            for tensor in tensors.values():
                tensor.fill_(3)
            assert content(theirs) == before
            for name, tensor in theirs.torch().items():
                assert np.array_equal(tensor.numpy(), theirs.arrays()[name])
            assert int(mine.torch()["tokens"].sum()) == 3 * tensors["tokens"].numel()


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_refuse_writes_in_python(config: dict[str, Any], engine: str) -> None:
    with ol.job(config).train(engine=engine) as loader:
        for array in next(loader).arrays().values():
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_a_rank_maps_only_private_pages_for_writing(config: dict[str, Any]) -> None:
    def maps() -> list[list[str]]:
        lines = Path("/proc/self/maps").read_text().splitlines()
        return [line.split() for line in lines if "memfd:overlord-constructors" in line]

    with ol.job(config).train(engine="processes") as loader:
        batch = next(loader)
        assert {fields[1] for fields in maps()} == {"r--s", "rw-p"}
        before = len(maps())
        for _ in islice(loader, 100):
            pass
        assert len(maps()) <= before + 8, "maps go with their batches"
        assert content(batch)


def test_tensors_on_another_device(config: dict[str, Any]) -> None:
    with ol.job(config).train(engine="embedded") as loader:
        batch = next(loader)
    moved = batch.torch("meta")
    assert {name: tuple(tensor.shape) for name, tensor in moved.items()} == {
        name: array.shape for name, array in batch.arrays().items()
    }
    assert all(tensor.device.type == "meta" for tensor in moved.values())
    assert batch.torch("cpu")["tokens"].data_ptr() == batch.torch()["tokens"].data_ptr()
