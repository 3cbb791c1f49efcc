"""The example that trains: its losses are those of an uninterrupted run, on whatever mesh."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Looked for, not imported: only the trainers need it.
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "train_tiny.py"


def train(folder: Path, ranks: int, tp: int, *words: str) -> dict[int, float]:
    """The losses of a run, by step."""
    losses = folder / f"losses-of-{ranks}.json"
    sizes = ["--context", "64", "--bins", "4", "--width", "16", "--layers", "1"]
    run = subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *(f"--nproc-per-node={ranks}", str(EXAMPLE), "--folder", str(folder)),
            *("--losses", str(losses), "--tp", str(tp), "--steps", "6", *sizes, *words),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert run.wait() == 0
    finally:
        run.terminate()
        run.wait()
    lines = [json.loads(line) for line in losses.read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines}


# Each rank imports torch, which is most of what it does. In `make test` stands for it what loops
# with FSDP2 are told to write (test_small_pages.py).
@pytest.mark.soak
def test_a_run_goes_on_on_another_mesh_with_the_same_losses(tmp_path: Path) -> None:
    whole = train(tmp_path, 4, 2, "--save-every", "3")
    assert list(whole) == list(range(6))
    assert len(set(whole.values())) == 6
    rest = train(tmp_path, 2, 1, "--resume", str(tmp_path / "step-3.pt"))
    assert rest == pytest.approx({step: whole[step] for step in (3, 4, 5)}, rel=1e-5)
