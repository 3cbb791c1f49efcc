"""Weights of a mixture as exact numbers, and how far a transition is."""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from fractions import Fraction

from overlord._src.config.mixture_models import MixtureConfig, StageConfig, rows_of

Weights = Mapping[str, float]
_DIGITS = 60  # of roots; decimal arithmetic is the same on every machine


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
