"""A user's mixing rule: called once a step with what was reported; what it says is quantised."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from overlord._src.config.reading import LoadedConfig
from overlord._src.config.streams import ResolvedStream, resolve_stream, stream_names
from overlord._src.config.weights import WEIGHT_ONE, fixed_point
from overlord._src.errors import Problem

Weights = Mapping[str, float]
Metrics = Mapping[str, tuple[float, int]]
LossRow = tuple[int, int, int]  # source, loss sum in units of 2**-12, tokens
_LOSS_ONE = 2**12


class RuleError(ValueError):
    """A rule gave what are no weights."""


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
            raise RuleError(f"{where} gave {type(answer).__name__}, not a mapping of weights")
        for name, weight in answer.items():
            if name not in weights:
                raise RuleError(f"{where} gave a weight to {name!r}; sources: {list(weights)}")
            if not math.isfinite(weight) or weight < 0:
                raise RuleError(f"{where} gave source {name} the weight {weight}")
        if not any(weight > 0 for weight in answer.values()):
            raise RuleError(f"{where} gave no source a weight above 0")
        return fixed_point(answer)


def rule(function: Callable[[int, Weights, Metrics], Weights], *, version: int) -> Rule:
    """A mixing rule for `ol.job(..., rule=...)` and `schedule: {kind: rule, version: ...}`.

    `function(step, weights, metrics)` is called once a step, when every reporter has reported it:
    with the newest weights and, by source, the mean loss and the tokens. Its weights are quantised
    and logged, and count from `step + delay` on. Raise `version` when the function changes: it is
    part of the config's digest.
    """
    return Rule(function, version)


def rule_of_trainers(loaded: LoadedConfig) -> Rule | None:
    """Stands for the rule where trainers, who are elsewhere, bring it along and are asked."""

    def elsewhere(step: int, weights: Weights, metrics: Metrics) -> Weights:
        raise NotImplementedError("a node asks the rule in a trainer's process")

    for name in stream_names(loaded.config):
        schedule = resolve_stream(loaded.config, name).mixture.schedule
        if schedule is not None and schedule.kind == "rule":
            return Rule(elsewhere, schedule.version or 0)
    return None


class RuleAnswers:
    """Answers the planner's questions to a rule; on a thread of its own."""

    def __init__(self, decides: Rule, names: Sequence[str]) -> None:
        self._rule = decides
        self._names = list(names)
        self.failure: BaseException | None = None  # the rule decides nothing any more

    def __call__(self, question: tuple[int, list[LossRow], list[int]]) -> list[int] | str:
        """Weights in the order of sources, or a text that says why there are none."""
        step, losses, newest = question
        weights = dict(zip(self._names, (weight / WEIGHT_ONE for weight in newest), strict=True))
        metrics = {
            self._names[source]: (loss / _LOSS_ONE / tokens, tokens)
            for source, loss, tokens in losses
        }
        try:
            decided = self._rule.decide(step, weights, metrics)
        except RuleError as error:
            self.failure = error
            return str(error)
        except BaseException as error:  # SystemExit too: the stream ends, and says why
            self.failure = error
            return f"the mixing rule, asked after step {step}, raised {_named(error)}"
        return [decided.get(name, 0) for name in self._names]


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def rule_problems(stream: ResolvedStream, rule: Rule | None) -> Iterator[Problem]:
    """What keeps a stream's mixture and the rule that was passed from fitting together."""
    schedule = stream.mixture.schedule
    if schedule is None or schedule.kind != "rule":
        return
    path = (*stream.path_of("mixture"), "schedule")
    if rule is None:
        yield Problem(
            path,
            "a schedule of kind rule needs the function",
            advice="pass rule=ol.mix.rule(function, version=...) to ol.job",
        )
        return
    if rule.version != schedule.version:
        yield Problem(
            (*path, "version"),
            f"the rule that was passed has version {rule.version}",
            schedule.version,
            advice="a changed rule is another mixture: raise both versions together",
        )
