"""What a user of each trainer has before Overlord comes: a function per page of docs/trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SAVE_EVERY = 2


def hf_arguments(kind: Any, steps: int, rate: float) -> Any:
    """Plain gradient descent, so that a gradient of another size gives other losses."""
    return kind(
        output_dir="out",
        max_steps=steps,
        learning_rate=rate,
        optim="sgd",
        lr_scheduler_type="constant",
        max_grad_norm=0,
        save_strategy="steps",
        save_steps=SAVE_EVERY,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )


def hf(model: Any, steps: int, rate: float) -> dict[str, Any]:
    from transformers import Trainer, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    args = hf_arguments(TrainingArguments, steps, rate)
    last = get_last_checkpoint("out") if Path("out").exists() else None
    return {"Trainer": Trainer, "args": args, "model": model, "last_checkpoint": last}
