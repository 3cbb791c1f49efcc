"""What is wrong with the schedule of a mixture, beside its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from overlord._src.config.mixture_models import MixtureConfig, ScheduleConfig, StageConfig
from overlord._src.config.refusals import did_you_mean
from overlord._src.errors import KeyPath, Problem

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
) -> Iterator[Problem]:
    """Keys that are missing, too many, or name no source."""
    for name in mixture.max_passes:
        if name not in sources:
            yield no_such_source((*path, "max_passes", name), name, sources)
    yield from _epoch_problems(mixture, sources, (*path, "epoch"))
    if mixture.feedback is not None and not mixture.metric_driven:
        yield Problem(
            (*path, "feedback"),
            "nothing in this mixture follows reported losses",
            advice="add `schedule: {kind: odm}` or ado, or remove it",
        )
    schedule = mixture.schedule
    if schedule is None:
        return
    path = (*path, "schedule")
    if mixture.stages is not None:
        yield Problem(
            path,
            "stands beside `weights`, not beside `stages`",
            advice="give weights, or write the stages' own transitions",
        )
    if schedule.metric_driven and mixture.grain != "step":
        yield Problem(
            path,
            "reported losses move weights once a step",
            advice=f"remove `grain: {mixture.grain}`",
        )
    yield from _form_problems(schedule, path)
    if schedule.order is not None:
        yield from _order_problems(mixture, schedule.order, (*path, "order"))


def _epoch_problems(
    mixture: MixtureConfig, sources: Mapping[str, object], path: KeyPath
) -> Iterator[Problem]:
    epoch = mixture.epoch
    if mixture.grain != "epoch":
        if epoch is not None:
            yield Problem(path, "needs `grain: epoch`")
    elif epoch is None or (epoch.steps is None) == (epoch.source is None):
        yield Problem(
            path,
            "grain epoch needs to know what an epoch is",
            allowed="{steps: N}, or {source: NAME} for one pass over it",
        )
    elif epoch.source is not None and epoch.source not in sources:
        yield no_such_source((*path, "source"), epoch.source, sources)
    elif epoch.source is not None and epoch.source not in mixture.source_names():
        yield Problem((*path, "source"), "the mixture does not read it", epoch.source)


def no_such_source(path: KeyPath, name: str, sources: Mapping[str, object]) -> Problem:
    """A name in a mixture that no source has."""
    return Problem(
        path,
        "no such source",
        allowed=", ".join(sources),
        advice=did_you_mean(name, sources) or "declare it under `sources`",
    )


def _form_problems(schedule: ScheduleConfig, path: KeyPath) -> Iterator[Problem]:
    kind = schedule.kind
    for key in _SHAPES:
        given = getattr(schedule, key) is not None
        if key in _NEEDS[kind] and not given:
            yield Problem((*path, key), f"required for kind {kind}")
        if given and key not in (*_NEEDS[kind], *_OPTIONAL.get(kind, ())):
            yield Problem((*path, key), f"kind {kind} has no use for it")
    if schedule.steps is not None and schedule.steps[1] is None:
        yield Problem((*path, "steps"), "a change needs an end", advice="[first, end]")
    if (schedule.transition is None) != (schedule.transition_steps is None):
        yield _half_a_transition(path)


def _half_a_transition(path: KeyPath) -> Problem:
    return Problem(
        path,
        "transition and transition_steps belong together",
        advice="give both, or neither for a change at once",
    )


def _order_problems(mixture: MixtureConfig, order: list[str], path: KeyPath) -> Iterator[Problem]:
    weights = mixture.weights or {}
    if not order or len(set(order)) != len(order):
        yield Problem(path, "names each source once, and at least one", order)
        return
    unknown = [name for name in order if name not in weights]
    if unknown:
        yield no_such_source(path, unknown[0], weights)
        return
    schedule = mixture.schedule
    if schedule is None or schedule.steps is None or schedule.steps[1] is None:
        return
    length = (schedule.steps[1] - schedule.steps[0]) // len(order)
    least = max(schedule.transition_steps or 1, 1)
    if length < least:
        yield Problem(
            path,
            f"{len(order)} sources in {schedule.steps[1] - schedule.steps[0]} steps leave "
            f"{length} steps to each",
            allowed=f"at least {least} steps to each",
            advice="make the range of steps longer",
        )
        return
    if all(ratio <= 0 for name, ratio in weights.items() if name not in order[1:]):
        yield Problem(path, "nothing is there before the second source joins")


def stage_form_problems(mixture: MixtureConfig, path: KeyPath, substeps: int) -> Iterator[Problem]:
    """Stages whose keys do not fit together."""
    first = min((stage.steps[0] for stage in mixture.stages or []), default=0)
    for index, stage in enumerate(mixture.stages or []):
        here = (*path, index)
        yield from _transition_problems(stage, here, stage.steps[0] == first)
        if (stage.weights is None) == (stage.substep_weights is None):
            yield Problem(here, "needs either weights or substep_weights")
        rows = stage.substep_weights
        if rows is None:
            continue
        if mixture.grain != "substep":
            yield Problem((*here, "substep_weights"), "need `grain: substep` in the mixture")
        if len(rows) != substeps:
            yield Problem(
                (*here, "substep_weights"),
                f"a step has {substeps} substeps",
                len(rows),
                f"{substeps} sets of weights",
            )


def _transition_problems(stage: StageConfig, path: KeyPath, is_first: bool) -> Iterator[Problem]:
    if (stage.transition is None) != (stage.transition_steps is None):
        yield _half_a_transition(path)
        return
    if stage.transition is None:
        if stage.start is not None:
            yield Problem((*path, "start"), "only a transition starts from other weights")
            return
        return
    if is_first and stage.start is None:
        yield Problem(
            (*path, "transition"),
            "there is no stage before the first",
            advice="give the weights it begins with as `start`",
        )
        return
    end = stage.steps[1]
    if end is not None and (stage.transition_steps or 0) > end - stage.steps[0]:
        yield Problem(
            (*path, "transition_steps"),
            "longer than the stage",
            stage.transition_steps,
            f"at most {end - stage.steps[0]}",
        )
