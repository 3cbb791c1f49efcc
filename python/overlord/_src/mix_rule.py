"""A user's mixing rule: called once a step with what was reported; what it says is quantised."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from overlord._src.config.streams import ResolvedStream
from overlord._src.config.weights import WEIGHT_ONE, fixed_point
from overlord._src.errors import Problem

Weights = Mapping[str, float]
Metrics = Mapping[str, tuple[float, int]]
LossRow = tuple[int, int, int]  # source, loss sum in units of 2**-12, tokens
_LOSS_ONE = 2**12


@dataclass(frozen=True)
class Rule:
    """A function (step, weights, metrics) -> weights, and the version of what it does."""

    function: Callable[[int, Weights, Metrics], Weights]
    version: int

    def decide(self, step: int, weights: Weights, metrics: Metrics) -> dict[str, int]:
        """The function's weights as the engine counts them; an error says what is wrong."""
        answer = self.function(step, weights, metrics)
        where = f"the mixing rule, asked after step {step},"
        if not isinstance(answer, Mapping):
            raise TypeError(f"{where} gave {type(answer).__name__}, not a mapping of weights")
        for name, weight in answer.items():
            if name not in weights:
                raise ValueError(f"{where} gave a weight to {name!r}; sources: {list(weights)}")
            if not math.isfinite(weight) or weight < 0:
                raise ValueError(f"{where} gave source {name} the weight {weight}")
        if not any(weight > 0 for weight in answer.values()):
            raise ValueError(f"{where} gave no source a weight above 0")
        return fixed_point(answer)


def rule(function: Callable[[int, Weights, Metrics], Weights], *, version: int) -> Rule:
    """A mixing rule for `ol.job(..., rule=...)` and `schedule: {kind: rule, version: ...}`.

    `function(step, weights, metrics)` is called once a step, when every reporter has reported it:
    with the newest weights and, by source, the mean loss and the tokens. Its weights are quantised
    and logged, and count from `step + delay` on. Raise `version` when the function changes: it is
    part of the config's digest.
    """
    return Rule(function, version)


class RuleDesk:
    """Gathers the reports of a step; whoever brings the last one gets the rule's weights along."""

    def __init__(self, decides: Rule, names: Sequence[str], reporters: Sequence[int]) -> None:
        self._rule = decides
        self._names = list(names)
        self._reporters = set(reporters)
        self._lock = threading.Lock()
        self._weights: dict[str, int] = {}
        self._parts: dict[int, dict[int, list[LossRow]]] = {}
        self._next = 0

    def begin(self, step: int, weights: Mapping[str, int]) -> None:
        """Start at a step, with the newest weights of the state."""
        with self._lock:
            self._next = step
            self._weights = dict(weights)
            self._parts.clear()

    def weights_after(self, step: int, rank: int, part: list[LossRow]) -> list[int]:
        """The weights to send with this report; empty where it is not the last of its step."""
        with self._lock:
            if step < self._next or rank not in self._reporters:
                return []
            parts = self._parts.setdefault(step, {})
            parts.setdefault(rank, part)
            if set(parts) != self._reporters:
                return []
            shares = {name: self._weights.get(name, 0) / WEIGHT_ONE for name in self._names}
            decided = self._rule.decide(step, shares, self._metrics(parts))
            self._weights = {name: decided.get(name, 0) for name in self._names}
            self._next = step + 1
            for done in [item for item in self._parts if item <= step]:
                del self._parts[done]
            return [self._weights[name] for name in self._names]

    def _metrics(self, parts: Mapping[int, list[LossRow]]) -> dict[str, tuple[float, int]]:
        losses, tokens = [0] * len(self._names), [0] * len(self._names)
        for rank in sorted(parts):
            for source, loss, count in parts[rank]:
                losses[source] += loss
                tokens[source] += count
        return {
            name: (losses[index] / _LOSS_ONE / tokens[index], tokens[index])
            for index, name in enumerate(self._names)
            if tokens[index]
        }


def rule_problems(stream: ResolvedStream, rule: Rule | None) -> list[Problem]:
    """What keeps a stream's mixture and the rule that was passed from fitting together."""
    schedule = stream.mixture.schedule
    if schedule is None or schedule.kind != "rule":
        return []
    path = (*stream.path_of("mixture"), "schedule")
    if rule is None:
        return [
            Problem(
                path,
                "a schedule of kind rule needs the function",
                advice="pass rule=ol.mix.rule(function, version=...) to ol.job",
            )
        ]
    if rule.version != schedule.version:
        return [
            Problem(
                (*path, "version"),
                f"the rule that was passed has version {rule.version}",
                schedule.version,
                advice="a changed rule is another mixture: raise both versions together",
            )
        ]
    return []
