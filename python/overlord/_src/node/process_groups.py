"""Sources that live apart from the others, and what it costs to have several share a process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from overlord._src.config.columns import base_name
from overlord._src.config.mixture_models import MixtureConfig
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.schedule import stage_shares
from overlord._src.config.source_models import SourceConfig
from overlord._src.config.streams import ResolvedStream

_LEAST_MOVE = 0.01  # of a step: less than that is no change of a group's work


def lists_of(isolate: Sequence[str | list[str]]) -> list[list[str]]:
    """Every entry as a list: of sources that share a process of their own."""
    return [[entry] if isinstance(entry, str) else list(entry) for entry in isolate]


def names_in(isolate: Sequence[str | list[str]]) -> list[str]:
    """All sources that it names."""
    return [name for entry in lists_of(isolate) for name in entry]


def runs_python(source: SourceConfig) -> bool:
    """Whether rows of a source go through a user's code, as the engine sees it."""
    media = source.media.values()
    return source.transform is not None or any(one.function is not None for one in media)


def python_processes(loaded: LoadedConfig) -> int:
    """Processes that sources with users' Python have by rule beside the others: 0 or 1."""
    placing = loaded.config.runtime.processes
    declared = {base_name(name) for name in names_in(placing.isolate)}
    left = [one for name, one in loaded.config.sources.items() if name not in declared]
    kinds = {runs_python(source) for source in left}
    return int(placing.isolate_by_rule and len(kinds) == 2)


def group_costs(
    loaded: LoadedConfig, stream: ResolvedStream, millicores: Mapping[str, int]
) -> Iterator[str]:
    """What it costs that sources share a process while their weights change; one line a group.

    Where weights are the same at every step it costs nothing: the process is as large as they
    need. `millicores`: what loaders kept busy in the run before, for sources with a profile.
    """
    mixture, names = stream.mixture, set(stream.mixture.source_names())
    for group in lists_of(loaded.config.runtime.processes.isolate):
        members = [name for name in group if name in names]
        if len(members) < 2:
            continue
        told = f"{' and '.join(members)} share a process (runtime.processes.isolate)"
        if mixture.metric_driven:
            yield (
                f"{told}, and their weights follow losses: nobody knows how much of it each will "
                "need, and slots that the scaler adds to one take it from the others"
            )
            continue
        moves = [*_moves(mixture, members)]
        if moves:
            step, before, after = max(moves, key=lambda move: abs(move[2] - move[1]))
            cores = _cores(members, millicores)
            yield (
                f"{told}, and their weights change: together they are asked for {before:.0%} of a "
                f"step before step {step} and for {after:.0%} from it on{cores}; slots that the "
                "scaler adds to one take it from the others"
            )


def _shares(mixture: MixtureConfig) -> Iterator[tuple[int, dict[str, float]]]:
    for stage in mixture.stage_list():
        shares = stage_shares(mixture, stage)
        yield stage.steps[0], {name: float(share) for name, share in shares.items()}


def _moves(mixture: MixtureConfig, members: Sequence[str]) -> Iterator[tuple[int, float, float]]:
    """Steps at which some member's share changes, with the group's before and after."""
    for (_, before), (step, after) in itertools.pairwise(_shares(mixture)):
        if any(abs(after.get(one, 0) - before.get(one, 0)) > _LEAST_MOVE for one in members):
            was, is_now = (
                sum(shares.get(one, 0.0) for one in members) for shares in (before, after)
            )
            yield step, was, is_now


def _cores(members: Sequence[str], millicores: Mapping[str, int]) -> str:
    """What the process was busy with in the run before, where all of them are measured."""
    if any(not millicores.get(name) for name in members):
        return ""
    parts = ", ".join(f"{name} {millicores[name] / 1000:.1f}" for name in members)
    return f" (cores kept busy in the run before: {parts})"
