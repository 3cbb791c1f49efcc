"""Schedules of a mixture: what a config writes in short, as stages; and as exact numbers."""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from fractions import Fraction

from overlord.config import MixtureConfig, ScheduleConfig, StageConfig

Weights = Mapping[str, float]
_DIGITS = 60  # of roots; decimal arithmetic is the same on every machine


def expand(mixture: MixtureConfig) -> list[StageConfig]:
    """The stages of a mixture, sorted; constant weights are one stage without end."""
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


def normalise(weights: Weights, temperature: float | None = None) -> dict[str, Fraction]:
    """Ratios that sum to one. Exact: a float counts as the decimal number it prints as."""
    exact = {name: Fraction(repr(float(weight))) for name, weight in weights.items()}
    if temperature is not None and temperature != 1:
        total = sum(exact.values())
        exact = {name: _root(weight / total, temperature) for name, weight in exact.items()}
    total = sum(exact.values())
    return {name: weight / total for name, weight in exact.items()}


def _root(share: Fraction, temperature: float) -> Fraction:
    """share ** (1 / temperature), to many digits."""
    if share == 0:
        return share
    with decimal.localcontext(decimal.Context(prec=_DIGITS)):
        base = decimal.Decimal(share.numerator) / decimal.Decimal(share.denominator)
        return Fraction(base ** (1 / decimal.Decimal(repr(float(temperature)))))


def stage_shares(mixture: MixtureConfig, stage: StageConfig) -> dict[str, Fraction]:
    """The share of each source when the stage's transition is over; the mean over substeps."""
    rows = [normalise(row, mixture.temperature) for row in rows_of(stage)]
    shares: dict[str, Fraction] = {}
    for row in rows:
        for name, share in row.items():
            shares[name] = shares.get(name, Fraction(0)) + share / len(rows)
    return shares


def mean_progress(stage: StageConfig, begin: int, end: int) -> float:
    """How much of a stage's transition is done on average over the steps [begin, end)."""
    if stage.transition is None or stage.transition_steps is None:
        return 1.0
    length = stage.transition_steps
    last = min(end, stage.steps[0] + length)
    if last <= begin:
        return 1.0
    total = float(end - last)
    for step in range(begin, last, max(1, (last - begin) // 1000)):  # a thousand are enough
        part = (step - stage.steps[0]) / length
        risen = part if stage.transition == "linear" else (1 - math.cos(math.pi * part)) / 2
        total += risen * min(max(1, (last - begin) // 1000), last - step)
    return total / (end - begin)
