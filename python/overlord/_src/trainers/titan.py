"""A torchtitan dataloader over a job. Imports torchtitan, whose base class it has."""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torchtitan.components.dataloader import BaseDataLoader

from overlord._src.errors import refused
from overlord._src.job.job import job
from overlord._src.mesh import Mesh

_LOG = logging.getLogger("overlord")
_KEY = "overlord"


class DataLoader(BaseDataLoader):  # type: ignore[misc]
    """What `config.dataloader` builds: `(inputs, labels)`, rows or folded as the trainer asks.

    Its state is the same on every rank, and loads under any number of them.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):  # type: ignore[misc]
        job: str = ""
        """The job's config file."""

        stream: str = "train"
        """Which of its streams; `valid` for a validator."""

        overrides: dict[str, Any] = field(default_factory=dict)
        """Dotted keys of the job's config that are replaced."""

        inputs: dict[str, Any] = field(default_factory=dict)
        """Options of `batch.model_inputs("torchtitan")`: mrope, special_tokens."""

        engine: str = "auto"
        """As of `job.train`."""

    def __init__(
        self,
        config: Config,
        *,
        dp_world_size: int,
        dp_rank: int,
        tokenizer: Any = None,
        **told: Any,
    ) -> None:
        context, rows, self._folded = _shape(told)
        mesh = _mesh(dp_world_size, dp_rank)
        forced = {"delivery.microbatch_size": rows}
        opened = job(config.job, mesh=mesh, overrides={**config.overrides, **forced})
        if opened.config.context != context:
            raise opened.loaded.refused(
                ("context",),
                f"torchtitan trains sequences of {context} tokens",
                opened.config.context,
                str(context),
                "give training.seq_len and this key the same value",
            )
        self._options = dict(config.inputs)
        self._loader = opened.stream(config.stream, mesh.rank, engine=config.engine)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Any]]:
        for batch in self._loader:
            inputs = batch.model_inputs("torchtitan", folded=self._folded, **self._options)
            labels = inputs.pop("labels")
            yield inputs, labels

    def state_dict(self) -> dict[str, Any]:
        """The state after what was iterated over, under one key that all ranks share."""
        state = self._loader.state_dict()
        if state["microbatch"]:
            _LOG.warning(
                "the state of the dataloader lies inside step %d of the stream, and loads on the "
                "same mesh alone: set bins of the job to training.global_batch_size",
                state["step"],
            )
        return {_KEY: json.dumps(state)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state. An empty one is that of a start."""
        if not state_dict:
            return
        if _KEY not in state_dict:
            raise refused(
                ("dataloader",),
                "a state of another dataloader",
                ", ".join(map(str, state_dict)),
                _KEY,
                "begin with the data anew: exclude dataloader from what the checkpoint loads",
            )
        self._loader.load_state_dict(json.loads(state_dict[_KEY]))

    def close(self) -> None:
        """Stop the engine."""
        self._loader.close()


def _shape(told: Mapping[str, Any]) -> tuple[int, int, bool]:
    """Tokens of a sequence, rows, and whether they are folded, by the names of what is told."""
    if "num_tokens_per_batch" in told:
        context, tokens = int(told["max_context_length"]), int(told["num_tokens_per_batch"])
        if tokens % context:
            raise refused(
                ("num_tokens_per_batch",),
                f"not whole sequences of max_context_length = {context}",
                tokens,
                f"multiples of {context}",
            )
        return context, tokens // context, True
    if "seq_len" in told and "local_batch_size" in told:
        return int(told["seq_len"]), int(told["local_batch_size"]), False
    raise refused(
        ("dataloader",),
        "this torchtitan builds its dataloader with other words",
        ", ".join(sorted(told)),
        "seq_len and local_batch_size, or max_context_length and num_tokens_per_batch",
    )


def _mesh(groups: int, group: int) -> Mesh:
    """Of all ranks: pipeline stages outside, context and tensor peers inside the data groups."""
    torch: Any = importlib.import_module("torch.distributed")
    if not torch.is_initialized() or torch.get_world_size() == 1:
        return Mesh(dp=groups, rank=group)
    everybody: list[int] = [0] * torch.get_world_size()
    torch.all_gather_object(everybody, group)
    return mesh_of_groups(everybody, groups, torch.get_rank())


def mesh_of_groups(everybody: Sequence[int], groups: int, rank: int) -> Mesh:
    """A mesh whose rank r is in data group everybody[r]; the others of a group see the same."""
    world = len(everybody)
    inner = next((r for r, other in enumerate(everybody) if other != everybody[0]), world)
    if world % (groups * inner) == 0:
        sizes = [("outer", world // (groups * inner)), ("dp", groups), ("inner", inner)]
        mesh = Mesh.from_axes(sizes, rank)
        if [mesh.coordinate(each, "dp") for each in range(world)] == list(everybody):
            return mesh
    raise refused(
        ("mesh",),
        f"the {groups} data groups of the ranks are in no regular order",
        list(everybody),
        "stages outside, then data groups, then context and tensor peers",
    )
