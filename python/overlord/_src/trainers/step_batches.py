"""StepBatches: whole steps as single batches, for trainers that divide them themselves."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from overlord._src.errors import refused
from overlord._src.job.job import Job


class StepBatches:
    """What verl's SFT trainer reads as its `train_dataloader`, of known length.

    A batch has the documents of one step that this data-parallel rank gets. verl gathers their
    lengths over all ranks and so wants as many everywhere: the job packs none (`packing: pad`).
    """

    def __init__(self, job: Job, stream: str = "train", **options: Any) -> None:
        if job.config.packing.method != "pad":
            raise refused(
                ("packing", "method"),
                "every rank must have as many documents of a step",
                job.config.packing.method,
                "pad",
            )
        if job.config.steps is None:
            raise refused(("steps",), "needed: the trainer asks for the length", None, "a number")
        self._form = {name: options.pop(name) for name in _OWN if name in options}
        if self._form.get("padded"):  # microbatches of a step are laid together
            self._form.setdefault("max_length", job.config.context)
        self._steps = job.config.steps
        self._loader = job.stream(stream, **options)

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[dict[str, Any]]:
        torch: Any = importlib.import_module("torch")
        for batches in self._loader.steps():
            parts = [batch.model_inputs("verl", **self._form) for batch in batches]
            if "attention_mask" in parts[0]:
                yield {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
                continue
            yield {
                name: torch.nested.as_nested_tensor(
                    [row for part in parts for row in part[name].unbind()], layout=torch.jagged
                )
                for name in parts[0]
            }

    def set_epoch(self, epoch: int) -> None:
        """As samplers have it; the order of a stream is that of its passes."""

    def state_dict(self) -> dict[str, Any]:
        """The state after the last step."""
        state: dict[str, Any] = self._loader.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, with any number of ranks."""
        self._loader.load_state_dict(state)

    def close(self) -> None:
        """Stop the engine."""
        self._loader.close()


_OWN = ("padded", "pad_token", "max_length")
