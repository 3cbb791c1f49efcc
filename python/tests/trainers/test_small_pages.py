"""Two trainers as their pages show them, small: test_pages.py has all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import drive_warm, prepare, same, steps_of

pytest.importorskip("torch")


def test_fsdp2_goes_on_with_other_ranks(tmp_path: Path) -> None:
    """Two ranks die in the third microbatch of step 3; one goes on from the end of step 1."""
    from drive import tiny_gpt
    from reference import expected_steps

    folder = prepare(tmp_path, steps=5)
    small = ["--model", "tiny_gpt"]
    drive_warm(folder, "fsdp2", 2, *small, "--die-at", "15", dies=True)
    assert 3 not in steps_of(folder)
    drive_warm(folder, "fsdp2", 1, *small)
    same(steps_of(folder), expected_steps(folder, 5, tiny_gpt), range(5))


class Killed(Exception):
    pass


def test_the_trainer_of_transformers_goes_on_where_it_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies in the middle of an accumulation, and the next one of this process goes on."""
    pytest.importorskip("transformers")
    import drive as drives
    import what_users_have
    from reference import expected_steps
    from transformers import TrainerCallback

    import overlord as ol

    folder = prepare(tmp_path, steps=4, streams={"valid": {"steps": 1}})
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    losses = {}

    class Dying(TrainerCallback):  # type: ignore[misc]
        def __init__(self, at: int) -> None:
            self.left = at

        def on_substep_end(self, *_: Any, **__: Any) -> None:
            self.left -= 1
            if self.left == 0:
                raise Killed

        def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
            if "loss" in logs:
                losses[state.global_step - 1] = float(logs["loss"])

    def train(die_at: int) -> Any:
        had = what_users_have.hf(drives.tiny_llama(), 4, drives.RATE)
        had["args"].local_rank = -1
        trainer = type("Ours", (ol.hf.TrainerMixin, had["Trainer"]), {})(
            had["model"],
            had["args"],
            data=ol.job("mix.yaml", mesh=ol.mesh.from_env()),
            callbacks=[Dying(die_at)],
            eval_dataset="valid",
        )
        trainer.train(resume_from_checkpoint=had["last_checkpoint"])
        return trainer

    with pytest.raises(Killed):
        train(7 * 3 + 4)  # seven microbatches of a step are substeps, the eighth ends it
    assert set(losses) == {0, 1, 2}  # saved after step 1; step 2 was trained and is lost
    trainer = train(0)
    evaluated = [trainer.evaluate()["eval_loss"] for _ in range(2)]  # whole, each time
    assert evaluated[0] == evaluated[1] > 0
    expected = {step: loss for step, (_, loss) in expected_steps(folder, 4).items()}
    assert losses == pytest.approx(expected, abs=1e-3)  # as it logs them, rounded
