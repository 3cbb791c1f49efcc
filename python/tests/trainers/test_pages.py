"""Trainers as their pages show them: train, die, and go on with another number of ranks.

`make trainers` runs all of them with the real packages; `make test` those of test_small_pages.py.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from runs import drive, prepare, same, steps_of

pytestmark = [pytest.mark.trainers, pytest.mark.deadline(600)]

PAGES = {
    "ddp": "transformers",
    "fsdp2": "transformers",
    "hf": "transformers",
    "sft": "trl",
    "accelerate": "accelerate",
    "lightning": "lightning",
}
STEPS = 20


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}: make trainers")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[tuple[str, ...], float]]:
    needs("transformers")
    from reference import expected_steps

    return expected_steps(prepare(tmp_path_factory.mktemp("whole"), steps=STEPS), STEPS)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_goes_on_with_other_ranks(tmp_path: Path, page: str, expected: object) -> None:
    """Four ranks die inside step 7, two inside step 12, one goes on to the end."""
    needs(PAGES[page])
    folder = prepare(tmp_path, steps=STEPS)
    drive(folder, page, 4, "--steps", str(STEPS), "--die-at", "16", dies=True)
    assert 7 not in steps_of(folder)
    drive(folder, page, 2, "--steps", str(STEPS), "--die-at", "27", dies=True)
    assert 12 not in steps_of(folder)
    drive(folder, page, 1, "--steps", str(STEPS))
    same(steps_of(folder), expected, range(STEPS))


@pytest.mark.parametrize("microbatch", range(4))
def test_a_death_in_any_microbatch_restarts_at_the_last_step(
    tmp_path: Path, microbatch: int, expected: object
) -> None:
    """torchrun starts all ranks again; what they hold is what was saved last, nothing between."""
    folder = prepare(tmp_path, steps=STEPS)
    die_at = 5 * 4 + microbatch + 1  # of two ranks, four microbatches each: step 5
    words = ["--steps", str(STEPS), "--die-at", str(die_at)]
    drive(folder, "hf", 2, *words, restarts=1)
    same(steps_of(folder), expected, range(STEPS))


def test_two_processes_of_jax_go_on_as_one(tmp_path: Path) -> None:
    needs("jax")
    whole, cut = (tmp_path / name for name in ("whole", "cut"))
    for folder in (whole, cut):
        folder.mkdir()
        prepare(folder, steps=STEPS)
    drive(whole, "jax", 1)
    drive(cut, "jax", 2, "--die-at", "8", dies=True)
    drive(cut, "jax", 1)
    same(steps_of(cut), steps_of(whole), range(STEPS))
