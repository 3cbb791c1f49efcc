"""What a trainer must come to: a plain loop over one rank, every document fed alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from drive import RATE, seen, tiny_llama
from packed_job import documents

import overlord as ol


def expected_steps(
    folder: Path, steps: int, make: Callable[[], Any] = tiny_llama
) -> dict[int, tuple[tuple[str, ...], float]]:
    """Rows and loss of every step."""
    torch.set_num_threads(1)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    found = {}
    with ol.job(folder / "mix.yaml").train(0, engine="embedded") as loader:
        for batches in islice(loader.steps(), steps):
            total, rows, targets = 0.0, [], 0
            for batch in batches:
                told = seen(batch)
                rows += told["rows"]
                targets += told["targets"]
                loss = sum(
                    (
                        torch.nn.functional.cross_entropy(
                            model(torch.tensor(tokens[None]).long(), use_cache=False).logits[0],
                            torch.tensor(goals).long(),
                            reduction="none",
                        )
                        * torch.tensor(weights)
                    ).sum()
                    for tokens, goals, weights in documents(batch)
                )
                (loss / batch.step_target_tokens).backward()
                total += float(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
            found[batches[0].step] = (tuple(rows), total / targets)
    return found
