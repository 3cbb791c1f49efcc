"""Losses that ranks report and a rule that follows them: functions of step and rank alone."""

from __future__ import annotations

from collections.abc import Mapping


def losses(step: int, rank: int) -> dict[str, tuple[float, int]]:
    """What a rank reports of a step: other numbers for every source, rank and step."""
    found = {}
    for number, name in enumerate(("code", "web")):
        tokens = 50 + 7 * rank + number
        found[name] = ((9.0 - 4 * number) / (1 + step) * tokens + number * (step % 5), tokens)
    return found


def more_of_the_worst(
    step: int, weights: Mapping[str, float], metrics: Mapping[str, tuple[float, int]]
) -> dict[str, float]:
    """A mixing rule: the source with the highest mean loss gets more."""
    worst = max(metrics, key=lambda name: metrics[name][0])
    return {**weights, worst: weights[worst] * 1.3}


def tired(
    step: int, weights: Mapping[str, float], metrics: Mapping[str, tuple[float, int]]
) -> dict[str, float]:
    """A mixing rule that fails after a few steps."""
    if step == 3:
        raise ZeroDivisionError("no more")
    return dict(weights)
