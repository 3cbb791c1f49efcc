"""A trainer as its page in docs/trainers shows it, over a tiny model: one rank of torchrun.

Usage: drive.py PAGE FOLDER [--die-at N] [--model tiny_gpt]. What a user has before (a
model, arguments, an optimizer) is made here; the page's last block is run as it stands. Every
forward is recorded: which rows it saw, and the sum of its losses, so that runs can be compared
whatever a trainer logs.
At its N-th forward rank 0 dies as if it were killed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import sys
from collections import deque
from pathlib import Path
from typing import Any

import torch
from overlord._src.loader.loader import Loader
from overlord_bench._pages import blocks
from packed_job import VOCABULARY

import overlord as ol

RATE = 0.05
RANK = int(os.environ.get("RANK", "0"))


def tiny_gpt() -> Any:
    from tiny_gpt import TinyGPT

    torch.manual_seed(0)
    return TinyGPT()


def tiny_llama(**more: Any) -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        **more,
    )
    return transformers.LlamaForCausalLM(config)


class Recorder:
    """Writes down what every forward of a model saw, and dies where it is told to."""

    def __init__(self, folder: Path, die_at: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        attempt = len(list(folder.glob(f"{RANK}-*.jsonl")))
        self.file = (folder / f"{RANK}-{attempt}.jsonl").open("w")
        restarted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        self.die_at = 0 if restarted else die_at
        self.forwards = 0
        self.pulled: deque[Any] = deque()
        read = Loader.__next__

        def recorded(loader: Loader) -> Any:
            batch = read(loader)
            self.pulled.append(batch)
            return batch

        Loader.__next__ = recorded  # type: ignore[method-assign]

    def watch(self, model: Any) -> None:
        model.register_forward_hook(self._forward)

    def _forward(self, model: Any, args: Any, output: Any) -> None:
        if not model.training:
            self.pulled.clear()
            return
        batch = self._next()
        self._write({**seen(batch), "loss": summed_loss(batch, output)})

    def _next(self) -> Any:
        self.forwards += 1
        if self.forwards == self.die_at and RANK == 0:
            os._exit(9)
        return self.pulled.popleft()

    def _write(self, record: dict[str, Any]) -> None:
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()

    def around(self, train_step: Any) -> Any:
        """A step whose loss is one number for all ranks: rank 0 has it."""

        def recorded(*words: Any) -> Any:
            batch = self._next()
            params, loss = train_step(*words)
            total = float(loss) * batch.step_target_tokens if RANK == 0 else 0.0
            self._write({**seen(batch), "loss": total})
            return params, loss

        return recorded


def seen(batch: Any) -> dict[str, Any]:
    """Where a microbatch stands, and digests of its rows."""
    columns = zip(batch.tokens, batch.targets, batch.loss_weights, batch.positions, strict=True)
    rows = [
        hashlib.sha256(b"".join(part.tobytes() for part in row)).hexdigest()[:16] for row in columns
    ]
    counted = int((batch.loss_weights > 0).sum())
    return {"at": [batch.step, batch.microbatch, RANK], "rows": rows, "targets": counted}


def summed_loss(batch: Any, output: Any) -> float:
    if getattr(output, "logits", None) is None:  # of heads that are computed with their loss
        return -float(output.log_probs.detach().sum())
    fields = batch.torch()
    losses = torch.nn.functional.cross_entropy(
        output.logits.detach().flatten(0, -2), fields["targets"].long().flatten(), reduction="none"
    )
    return float((losses * fields["loss_weights"].flatten()).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--die-at", type=int, default=0)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--model", default="tiny_llama")
    told = parser.parse_args()
    torch.set_num_threads(1)
    os.chdir(told.folder)
    recorder = Recorder(told.folder / "seen", told.die_at)
    model = globals()[told.model]()
    recorder.watch(model)
    had = importlib.import_module("what_users_have")
    names = getattr(had, told.page.replace("-", "_"))(model, told.steps, RATE)
    if "train_step" in names:
        names["train_step"] = recorder.around(names["train_step"])
    source = blocks(told.page)[-1]
    exec(compile(source, f"{told.page}.md", "exec"), {"ol": ol, **names})
    sys.stdout.flush()


if __name__ == "__main__":
    main()
