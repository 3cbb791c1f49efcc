"""What is wrong with the schedule of a mixture, beside its weights."""

from __future__ import annotations

from collections.abc import Mapping

from overlord._src.config.refusals import did_you_mean
from overlord._src.errors import KeyPath, Problem
from overlord.config import MixtureConfig, ScheduleConfig, StageConfig

_NEEDS = {
    "linear": ("start", "steps"),
    "cosine": ("start", "steps"),
    "curriculum": ("order", "steps"),
    "odm": (),
    "ado": (),
    "rule": ("version",),
}
_OPTIONAL = {"curriculum": ("transition", "transition_steps")}
_SHAPES = ("start", "steps", "order", "transition", "transition_steps", "version")


def schedule_problems(
    mixture: MixtureConfig, sources: Mapping[str, object], path: KeyPath
) -> list[Problem]:
    """Keys that are missing, too many, or name no source."""
    problems: list[Problem] = []
    for name in mixture.max_passes:
        if name not in sources:
            problems.append(_no_such_source((*path, "max_passes", name), name, sources))
    problems += _epoch_problems(mixture, sources, (*path, "epoch"))
    if mixture.feedback is not None and not mixture.metric_driven:
        problems.append(
            Problem(
                (*path, "feedback"),
                "nothing in this mixture follows reported losses",
                advice="add `schedule: {kind: odm}` or ado, or remove it",
            )
        )
    schedule = mixture.schedule
    if schedule is None:
        return problems
    path = (*path, "schedule")
    if mixture.stages is not None:
        problems.append(
            Problem(
                path,
                "stands beside `weights`, not beside `stages`",
                advice="give weights, or write the stages' own transitions",
            )
        )
    if schedule.metric_driven and mixture.grain != "step":
        problems.append(
            Problem(
                path,
                "reported losses move weights once a step",
                advice=f"remove `grain: {mixture.grain}`",
            )
        )
    problems += _form_problems(schedule, path)
    if schedule.order is not None:
        problems += _order_problems(mixture, schedule.order, (*path, "order"))
    return problems


def _epoch_problems(
    mixture: MixtureConfig, sources: Mapping[str, object], path: KeyPath
) -> list[Problem]:
    epoch = mixture.epoch
    if mixture.grain != "epoch":
        return [Problem(path, "needs `grain: epoch`")] if epoch is not None else []
    if epoch is None or (epoch.steps is None) == (epoch.source is None):
        return [
            Problem(
                path,
                "grain epoch needs to know what an epoch is",
                allowed="{steps: N}, or {source: NAME} for one pass over it",
            )
        ]
    if epoch.source is None:
        return []
    if epoch.source not in sources:
        return [_no_such_source((*path, "source"), epoch.source, sources)]
    if epoch.source not in mixture.source_names():
        return [Problem((*path, "source"), "the mixture does not read it", epoch.source)]
    return []


def _no_such_source(path: KeyPath, name: str, sources: Mapping[str, object]) -> Problem:
    return Problem(
        path,
        "no such source",
        allowed=", ".join(sources),
        advice=did_you_mean(name, sources) or "declare it under `sources`",
    )


def _form_problems(schedule: ScheduleConfig, path: KeyPath) -> list[Problem]:
    kind = schedule.kind
    problems: list[Problem] = []
    for key in _SHAPES:
        given = getattr(schedule, key) is not None
        if key in _NEEDS[kind] and not given:
            problems.append(Problem((*path, key), f"required for kind {kind}"))
        if given and key not in (*_NEEDS[kind], *_OPTIONAL.get(kind, ())):
            problems.append(Problem((*path, key), f"kind {kind} has no use for it"))
    if schedule.steps is not None and schedule.steps[1] is None:
        problems.append(Problem((*path, "steps"), "a change needs an end", advice="[first, end]"))
    if (schedule.transition is None) != (schedule.transition_steps is None):
        problems.append(_half_a_transition(path))
    return problems


def _half_a_transition(path: KeyPath) -> Problem:
    return Problem(
        path,
        "transition and transition_steps belong together",
        advice="give both, or neither for a change at once",
    )


def _order_problems(mixture: MixtureConfig, order: list[str], path: KeyPath) -> list[Problem]:
    weights = mixture.weights or {}
    if not order or len(set(order)) != len(order):
        return [Problem(path, "names each source once, and at least one", order)]
    unknown = [name for name in order if name not in weights]
    if unknown:
        return [_no_such_source(path, unknown[0], weights)]
    schedule = mixture.schedule
    if schedule is None or schedule.steps is None or schedule.steps[1] is None:
        return []
    length = (schedule.steps[1] - schedule.steps[0]) // len(order)
    least = max(schedule.transition_steps or 1, 1)
    if length < least:
        return [
            Problem(
                path,
                f"{len(order)} sources in {schedule.steps[1] - schedule.steps[0]} steps leave "
                f"{length} steps to each",
                allowed=f"at least {least} steps to each",
                advice="make the range of steps longer",
            )
        ]
    if all(ratio <= 0 for name, ratio in weights.items() if name not in order[1:]):
        return [Problem(path, "nothing is there before the second source joins")]
    return []


def stage_form_problems(mixture: MixtureConfig, path: KeyPath, substeps: int) -> list[Problem]:
    """Stages whose keys do not fit together."""
    problems: list[Problem] = []
    first = min((stage.steps[0] for stage in mixture.stages or []), default=0)
    for index, stage in enumerate(mixture.stages or []):
        here = (*path, index)
        problems += _transition_problems(stage, here, stage.steps[0] == first)
        if (stage.weights is None) == (stage.substep_weights is None):
            problems.append(Problem(here, "needs either weights or substep_weights"))
        rows = stage.substep_weights
        if rows is None:
            continue
        if mixture.grain != "substep":
            problems.append(
                Problem((*here, "substep_weights"), "need `grain: substep` in the mixture")
            )
        if len(rows) != substeps:
            problems.append(
                Problem(
                    (*here, "substep_weights"),
                    f"a step has {substeps} substeps",
                    len(rows),
                    f"{substeps} sets of weights",
                )
            )
    return problems


def _transition_problems(stage: StageConfig, path: KeyPath, is_first: bool) -> list[Problem]:
    if (stage.transition is None) != (stage.transition_steps is None):
        return [_half_a_transition(path)]
    if stage.transition is None:
        if stage.start is not None:
            return [Problem((*path, "start"), "only a transition starts from other weights")]
        return []
    if is_first and stage.start is None:
        return [
            Problem(
                (*path, "transition"),
                "there is no stage before the first",
                advice="give the weights it begins with as `start`",
            )
        ]
    end = stage.steps[1]
    if end is not None and (stage.transition_steps or 0) > end - stage.steps[0]:
        return [
            Problem(
                (*path, "transition_steps"),
                "longer than the stage",
                stage.transition_steps,
                f"at most {end - stage.steps[0]}",
            )
        ]
    return []
