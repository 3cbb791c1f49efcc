"""The mixture as typed models, and the stages that its short forms stand for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from overlord._src.config.field_types import BoundReasons, ConfigModel, Count32, StepRange, Text
from overlord._src.config.weight_groups import Weights

Transition = Literal["linear", "cosine"]
Share = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[
    float,
    Field(ge=0.01, le=1000),
    BoundReasons(
        "below it the largest weight takes everything: give that source alone",
        "above it all weights are equal: write them so",
    ),
]


class StageConfig(ConfigModel):
    """Weights that hold for a range of steps."""

    steps: StepRange = Field(description="[first, end], end not included; null: no end")
    weights: Weights | None = Field(
        default=None, description="ratio of each source; they are normalised"
    )
    substep_weights: list[Weights] | None = Field(
        default=None, description="instead of `weights`: those of each substep of a step"
    )
    transition: Transition | None = Field(
        default=None, description="how the weights before go over into these; absent: at once"
    )
    transition_steps: Count32 | None = Field(
        default=None, description="steps of the transition, from the stage's first on"
    )
    start: Weights | None = Field(
        default=None,
        description="weights that the transition begins with; absent: those of the stage before",
    )


class ScheduleConfig(ConfigModel):
    """How the weights move: a warm-up, a curriculum, or after reported losses."""

    kind: Literal["linear", "cosine", "curriculum", "odm", "ado", "rule"] = Field(
        description="linear, cosine: from `start` to the weights over `steps`; curriculum: sources "
        "join in `order`; odm, ado, rule: the weights are a prior that reported losses move"
    )
    start: Weights | None = Field(default=None, description="linear, cosine: the weights before")
    steps: StepRange | None = Field(
        default=None, description="linear, cosine, curriculum: [first, end] of the change"
    )
    order: list[str] | None = Field(
        default=None, description="curriculum: sources that join one after another; others are in"
    )
    transition: Transition | None = Field(
        default=None, description="curriculum: how a source joins; absent: at once"
    )
    transition_steps: Count32 | None = Field(
        default=None, description="curriculum: steps of each transition"
    )
    smoothing: Share = Field(default=0.9, description="odm: how much of the old reward stays")
    history_rate: Share = Field(
        default=0.1, description="ado: how fast the memory of shares follows"
    )
    follow_rate: Share = Field(default=0.1, description="ado: how far shares follow the preference")
    history_exponent: Share = Field(
        default=0.5, description="ado: how much having been served counts"
    )
    floor: Share = Field(default=0.01, description="ado: least share, at most half an equal one")
    fit_every: Count32 = Field(default=1000, description="ado: steps between fits of a loss curve")
    fit_after: int = Field(
        default=500, ge=0, le=2**32 - 1, description="ado: first steps, which are not fitted"
    )
    version: Count32 | None = Field(
        default=None, description="rule: of the function that `ol.job(..., rule=...)` is given"
    )

    @property
    def metric_driven(self) -> bool:
        """Whether reported losses move the weights."""
        return self.kind in ("odm", "ado", "rule")


class FeedbackConfig(ConfigModel):
    """Reports that a metric-driven mixture waits for."""

    delay: int = Field(
        default=8,
        ge=1,
        le=4096,
        description="what is reported of step k counts from step k + delay on; more than "
        "`runtime.prefetch`, or batches wait for reports",
    )
    reporters: Literal["rank0", "last_stage", "all"] | list[int] = Field(
        default="rank0",
        description="who reports: rank 0 with the sums of the whole job, the last pipeline stage's "
        "ranks with tp 0 each with its own part, all ranks, or a list of ranks",
    )


class EpochConfig(ConfigModel):
    """What an epoch of the mixture is, with `grain: epoch`."""

    steps: Count32 | None = Field(default=None, description="so many steps make one")
    source: Text | None = Field(
        default=None,
        description="one pass over this source makes one; the step in which it ends belongs to it",
    )


class MixtureConfig(ConfigModel):
    """How much of each source a step asks for: `weights`, or `stages` of weights over steps."""

    unit: Literal["tokens", "samples", "bytes"] = Field(
        default="tokens",
        description="what the weights count; bytes: of the text, ready tokens count four each",
    )
    quota: Literal["exact", "multinomial"] = Field(
        default="exact",
        description="exact: rounding errors are carried over; multinomial: drawn by the seed",
    )
    weights: Weights | None = Field(
        default=None,
        description="ratio of each source, the same at every step; `NAME: {weight: RATIO, of: "
        "{source: RATIO, ...}}` is a group",
    )
    stages: list[StageConfig] | None = Field(
        default=None, description="ranges of steps, without gap or overlap, each with its weights"
    )
    schedule: ScheduleConfig | None = Field(
        default=None, description="beside `weights`: how they move; absent: they do not"
    )
    temperature: Temperature | None = Field(
        default=None,
        description="every weight p counts as p ** (1 / temperature): above 1 evens them out",
    )
    max_passes: dict[str, Annotated[float, Field(gt=0, lt=2**32)]] = Field(
        default={},
        description="a source is dropped after so many passes, like 0.5 or 3; more than one where "
        "it repeats",
    )
    grain: Literal["step", "substep", "epoch"] = Field(
        default="step",
        description="how often weights may change; substep: also inside a step; epoch: only "
        "between epochs, and `steps` of stages and schedules count epochs",
    )
    epoch: EpochConfig | None = Field(
        default=None, description="with `grain: epoch`: what an epoch is"
    )
    feedback: FeedbackConfig | None = Field(
        default=None, description="who reports losses, and from when on they count"
    )

    def stage_list(self) -> list[StageConfig]:
        """The stages, sorted; constant weights are one stage without end."""
        return _expand(self)

    def source_names(self) -> list[str]:
        """Every source that some stage names, sorted."""
        return sorted(
            {name for stage in self.stage_list() for row in weight_sets(stage) for name in row}
        )

    @property
    def metric_driven(self) -> bool:
        """Whether reported losses move the weights."""
        return self.schedule is not None and self.schedule.metric_driven

    @property
    def follows_rule(self) -> bool:
        """Whether a function of the user's moves the weights."""
        return self.schedule is not None and self.schedule.kind == "rule"


def _expand(mixture: MixtureConfig) -> list[StageConfig]:
    if mixture.stages is not None:
        return sorted(mixture.stages, key=lambda stage: stage.steps[0])
    weights = mixture.weights or {}
    schedule = mixture.schedule
    if schedule is not None and schedule.steps is not None:
        if schedule.kind in ("linear", "cosine"):
            return _warm_up(weights, schedule, *schedule.steps)
        if schedule.kind == "curriculum" and schedule.order:
            return _curriculum(weights, schedule, schedule.order, *schedule.steps)
    return [StageConfig(steps=(0, None), weights=weights)]


def _warm_up(
    weights: dict[str, float], schedule: ScheduleConfig, first: int, end: int | None
) -> list[StageConfig]:
    start = schedule.start or {}
    last = StageConfig(
        steps=(first, None),
        weights=weights,
        transition="cosine" if schedule.kind == "cosine" else "linear",
        transition_steps=(end or first + 1) - first,
        start=start,
    )
    return [StageConfig(steps=(0, first), weights=start), last] if first else [last]


def _curriculum(
    weights: dict[str, float],
    schedule: ScheduleConfig,
    order: list[str],
    first: int,
    end: int | None,
) -> list[StageConfig]:
    length = (end or first) - first
    begins = [first + length * index // len(order) for index in range(len(order))]
    begins[0] = 0
    stages: list[StageConfig] = []
    for index, begin in enumerate(begins):
        later = set(order[index + 1 :])
        stages.append(
            StageConfig(
                steps=(begin, begins[index + 1] if index + 1 < len(begins) else None),
                weights={name: ratio for name, ratio in weights.items() if name not in later},
                transition=schedule.transition if index else None,
                transition_steps=schedule.transition_steps if index else None,
            )
        )
    return stages


def weight_sets(stage: StageConfig) -> list[dict[str, float]]:
    """The weights a stage writes: one set, or one for every substep; and those it starts from."""
    return [*rows_of(stage), *([stage.start] if stage.start else [])]


def rows_of(stage: StageConfig) -> list[dict[str, float]]:
    """One set of weights, or one for every substep."""
    return stage.substep_weights if stage.substep_weights else [stage.weights or {}]
