"""Mixture weights: ratios from the config, checked, and as exact fixed-point numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from overlord._src.config.mixture_models import MixtureConfig, rows_of
from overlord._src.config.schedule import normalise, stage_shares
from overlord._src.config.schedule_checks import (
    no_such_source,
    schedule_problems,
    stage_form_problems,
)
from overlord._src.errors import KeyPath, Problem

WEIGHT_ONE = 2**32  # as in the engine


def show_steps(first: int, end: int | None) -> str:
    """A range of steps for people."""
    return f"steps {first} and later" if end is None else f"steps {first} to {end - 1}"


def stage_lines(mixture: MixtureConfig, *, transitions: bool) -> Iterator[str]:
    """The shares of every stage in words, and where it is asked for how it is gone over to."""
    for stage in mixture.stage_list():
        found = stage_shares(mixture, stage).items()
        shares = ", ".join(f"{name} {float(ratio):.2%}" for name, ratio in found)
        how = ""
        if transitions and stage.transition:
            how = f", {stage.transition} over {stage.transition_steps} steps"
        yield f"mixture by {mixture.unit}, {show_steps(*stage.steps)}{how}: {shares}"


def fixed_point(weights: Mapping[str, float], temperature: float | None = None) -> dict[str, int]:
    """Weights in units of 1 / WEIGHT_ONE that sum to it exactly; largest remainders round up."""
    shares = normalise(weights, temperature)
    scaled = {name: ratio * WEIGHT_ONE for name, ratio in shares.items()}
    result = {name: math.floor(value) for name, value in scaled.items()}
    missing = WEIGHT_ONE - sum(result.values())
    by_remainder = sorted(scaled, key=lambda name: (result[name] - scaled[name], name))
    for name in by_remainder[:missing]:
        result[name] += 1
    return result


def share_to_fixed(share: float) -> int:
    """A share between 0 and 1 in units of 1 / WEIGHT_ONE, rounded down."""
    return math.floor(Fraction(repr(float(share))) * WEIGHT_ONE)


def mixture_problems(
    mixture: MixtureConfig,
    sources: Mapping[str, object],
    path: KeyPath,
    steps: int | None,
    substeps: int,
) -> Iterator[Problem]:
    """What is wrong with a mixture whose config stands at `path`."""
    if (mixture.weights is None) == (mixture.stages is None):
        given = "both are given" if mixture.weights is not None else "neither is given"
        yield Problem(
            path,
            f"needs either weights or stages; {given}",
            advice="write `weights: {source: ratio, ...}`, or stages of them",
        )
        return
    temperature = mixture.temperature
    yield from schedule_problems(mixture, sources, path)
    if mixture.stages is not None:
        ranges = [stage.steps for stage in mixture.stage_list()]
        yield from range_problems(ranges, (*path, "stages"), last_step(mixture, steps))
        yield from stage_form_problems(mixture, (*path, "stages"), substeps)
        for index, stage in enumerate(mixture.stages):
            here = (*path, "stages", index)
            keys: list[KeyPath] = [(*here, "weights")]
            if stage.substep_weights:
                keys = [(*here, "substep_weights", i) for i in range(len(stage.substep_weights))]
            for key, row in zip(keys, rows_of(stage), strict=True):
                yield from _weight_problems(row, stage.steps, sources, key, temperature)
            if stage.start is not None:
                key = (*here, "start")
                yield from _weight_problems(stage.start, stage.steps, sources, key, temperature)
    else:
        span = (0, None)
        weights = mixture.weights or {}
        yield from _weight_problems(weights, span, sources, (*path, "weights"), temperature)
        start = mixture.schedule.start if mixture.schedule else None
        if start is not None:
            key = (*path, "schedule", "start")
            yield from _weight_problems(start, span, sources, key, temperature)


def last_step(mixture: MixtureConfig, steps: int | None) -> int | None:
    """How far stages must reach, in what they count: steps, or epochs."""
    if mixture.grain != "epoch" or steps is None:
        return steps
    length = mixture.epoch.steps if mixture.epoch is not None else None
    return -(-steps // length) if length else None


def _weight_problems(
    weights: Mapping[str, float],
    steps: tuple[int, int | None],
    sources: Mapping[str, object],
    path: KeyPath,
    temperature: float | None,
) -> Iterator[Problem]:
    span = show_steps(*steps)
    unknown = [name for name in weights if name not in sources]
    unusable = [name for name, weight in weights.items() if not 0 <= weight < math.inf]
    for name in weights:
        if name in unknown:
            yield no_such_source((*path, name), name, sources)
        if name in unusable:
            yield Problem(
                (*path, name),
                f"the weight of source {name} in {span} cannot be used",
                weights[name],
                "a finite number >= 0",
                "0 switches the source off",
            )
    if unknown or unusable:
        return
    if not any(weight > 0 for weight in weights.values()):
        yield Problem(
            path,
            f"no source has a weight above 0 at step {steps[0]} ({span})",
            dict(weights),
            "at least one weight > 0",
        )
        return
    sharpened = temperature is not None and temperature < 1
    for name, fixed in fixed_point(weights, temperature).items():
        if weights[name] > 0 and fixed == 0:
            yield Problem(
                (*path, name),
                f"too small beside the others in {span}",
                weights[name],
                "at least 2**-32 of the sum",
                "raise it, or set it to 0"
                + (f"; temperature {temperature} makes it so" if sharpened else ""),
            )


def range_problems(
    ranges: Sequence[tuple[int, int | None]], path: KeyPath, steps: int | None
) -> Iterator[Problem]:
    """Stages, by ascending first step, that leave steps out or overlap."""
    if not ranges:
        yield Problem(path, "empty", [], "at least one stage", "write one")
        return
    if ranges[0][0] != 0:
        yield Problem(
            path,
            f"steps 0 to {ranges[0][0] - 1} have no stage; the first is {show(ranges[0])}",
            advice="start the first stage at step 0",
        )
    for before, after in itertools.pairwise(ranges):
        both = f"{show(before)} and {show(after)}"
        if before[1] is None or after[0] < before[1]:
            yield Problem(
                path, f"stages overlap: {both}", advice="end each stage where the next begins"
            )
        elif after[0] > before[1]:
            yield Problem(
                path,
                f"steps {before[1]} to {after[0] - 1} have no stage, between {both}",
                advice="end each stage where the next begins",
            )
    last = ranges[-1][1]
    if last is not None and (steps is None or steps > last):
        end = (
            f"the stream has {steps} steps" if steps is not None else "the stream has no last step"
        )
        yield Problem(
            path,
            f"steps {last} and later have no stage; the last is {show(ranges[-1])} and {end}",
            advice="write null as the last stage's end",
        )


def show(steps: tuple[int, int | None]) -> str:
    """A stage's range as the config writes it."""
    return f"[{steps[0]}, {'null' if steps[1] is None else steps[1]}]"
