"""Rules of your own for a mixture: a Python function that sets the weights after every step."""

from __future__ import annotations

from overlord._src.functions.mix_rule import Metrics, Rule, Weights, rule

__all__ = ["Metrics", "Rule", "Weights", "rule"]
