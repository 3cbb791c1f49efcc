"""Sequences of a step: a number, or stages of steps; and the values that would do on a mesh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter

from overlord._src.config.field_types import ConfigModel, Count32, StepRange
from overlord._src.errors import KeyPath


class BinsStageConfig(ConfigModel):
    """So many sequences in each of a range of steps."""

    steps: StepRange = Field(description="[first, end], end not included; null: no end")
    bins: Count32 = Field(description="sequences of each of these steps, over the whole job")


Stages = Annotated[list[BinsStageConfig], Field(min_length=1)]
_NUMBER: TypeAdapter[int] = TypeAdapter(Count32)
_STAGES: TypeAdapter[list[BinsStageConfig]] = TypeAdapter(Stages)


def _one_of_two(value: Any) -> Any:
    """What is wrong with a number is said of it as a number, and nothing of stages."""
    if isinstance(value, list | tuple):
        return _STAGES.validate_python(list(value), strict=True)
    return _NUMBER.validate_python(value, strict=True)


Bins = Annotated[Count32 | Stages, BeforeValidator(_one_of_two)]


def bins_by_step(bins: int | list[BinsStageConfig]) -> dict[int, int]:
    """Sequences of a step by the first step that has them; the first is 0."""
    if isinstance(bins, int):
        return {0: bins}
    return {stage.steps[0]: stage.bins for stage in sorted(bins, key=lambda one: one.steps[0])}


def path_of_bins(path: KeyPath, bins: int | list[BinsStageConfig], step: int) -> KeyPath:
    """Where a config says how many there are from this step on."""
    if isinstance(bins, int):
        return path
    index = next(i for i, stage in enumerate(bins) if stage.steps[0] == step)
    return (*path, index, "bins")


def show_bins(stages: Mapping[int, int]) -> str:
    """For people."""
    first, *later = stages.items()
    return f"{first[1]}" + "".join(f", {bins} from step {step} on" for step, bins in later)
