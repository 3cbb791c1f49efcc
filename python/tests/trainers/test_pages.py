"""Trainers as their pages show them: train, die, and go on with another number of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import drive, prepare, same, steps_of

pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_the_hf_trainer_goes_on_with_other_ranks(tmp_path: Path) -> None:
    """Two ranks die in the third microbatch of step 3, one goes on from the end of step 1."""
    from reference import expected_steps

    folder = prepare(tmp_path)
    expected = expected_steps(folder, 6)
    drive(folder, "hf", 2, "--die-at", "15", dies=True)
    assert 3 not in steps_of(folder)
    drive(folder, "hf", 1)
    same(steps_of(folder), expected, range(6))
