"""Time of a step under the 1F1B schedule: forward and backward of microbatches through stages.

A stage runs its warm-up forwards, then one forward and one backward in turn, then the rest of its
backwards, and waits for what it needs. The recurrence is run for many pipelines at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
BACKWARD_SHARE = 2 / 3  # of forward and backward together
_SEARCH_ROUNDS = 12
_SEARCH_BUDGET = 40_000_000  # operations of one round of exchanges; beyond it no search is made


@lru_cache(maxsize=64)
def schedule(stages: int, microbatches: int) -> tuple[tuple[int, int, bool], ...]:
    """(stage, microbatch, is backward) of every operation, each after all it waits for."""
    queues = [_stage_order(stage, stages, microbatches) for stage in range(stages)]
    heads = [0] * stages
    done: set[tuple[int, int, bool]] = set()
    ordered: list[tuple[int, int, bool]] = []
    while len(ordered) < 2 * stages * microbatches:
        for stage in range(stages):
            while heads[stage] < len(queues[stage]):
                number, backward = queues[stage][heads[stage]]
                if not _ready(done, stage, stages, number, backward):
                    break
                done.add((stage, number, backward))
                ordered.append((stage, number, backward))
                heads[stage] += 1
    return tuple(ordered)


def _stage_order(stage: int, stages: int, microbatches: int) -> list[tuple[int, bool]]:
    warm_up = min(stages - stage - 1, microbatches)
    order = [(number, False) for number in range(warm_up)]
    for number in range(microbatches - warm_up):
        order += [(warm_up + number, False), (number, True)]
    return order + [(number, True) for number in range(microbatches - warm_up, microbatches)]


def _ready(
    done: set[tuple[int, int, bool]], stage: int, stages: int, number: int, backward: bool
) -> bool:
    if not backward:
        return stage == 0 or (stage - 1, number, False) in done
    if stage == stages - 1:
        return (stage, number, False) in done
    return (stage + 1, number, True) in done


def makespan(times: npt.NDArray[Any], stages: int) -> Reals:
    """How long each pipeline takes. `times[..., m]`: one stage's forward and backward of the m-th
    microbatch, in the order they are run."""
    shape, microbatches = times.shape[:-1], times.shape[-1]
    rows = np.ascontiguousarray(times.reshape(-1, microbatches).T, dtype=np.float64)
    if stages == 1:
        total: Reals = rows.sum(axis=0).reshape(shape)
        return total
    backward = rows * BACKWARD_SHARE
    forward = rows - backward
    free = np.zeros((stages, rows.shape[1]))  # when each stage has time again
    forward_end = np.zeros((stages, microbatches, rows.shape[1]))
    backward_end = np.zeros((stages, microbatches, rows.shape[1]))
    for stage, number, is_backward in schedule(stages, microbatches):
        if is_backward:
            last = stage == stages - 1
            needed = (forward_end[stage] if last else backward_end[stage + 1])[number]
            end, duration = backward_end[stage], backward
        else:
            needed = forward_end[stage - 1][number] if stage else free[0]
            end, duration = forward_end[stage], forward
        np.maximum(free[stage], needed, out=end[number])
        end[number] += duration[number]
        free[stage] = end[number]
    finished: Reals = free.max(axis=0).reshape(shape)
    return finished


def small_ends(times: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Order of each row's microbatches with the small ones at both ends, the largest in the middle.

    `order[g, k]` is the microbatch that pipeline g runs as its k-th.
    """
    descending = np.argsort(-times, axis=-1, kind="stable")
    return np.concatenate([descending[..., 0::2][..., ::-1], descending[..., 1::2]], axis=-1)


def search_order(times: npt.NDArray[Any], stages: int) -> npt.NDArray[np.int64]:
    """Small ends, or an order found from it by exchanging pairs, where that is affordable."""
    groups, microbatches = times.shape
    order = small_ends(times)
    if stages == 1 or microbatches < 3:
        return order
    best = makespan(np.take_along_axis(times, order, axis=1), stages)
    for candidate in (
        np.argsort(times, axis=1, kind="stable"),
        np.tile(np.arange(microbatches), (groups, 1)),
    ):
        found = makespan(np.take_along_axis(times, candidate, axis=1), stages)
        order = np.where((found < best)[:, None], candidate, order)
        best = np.minimum(found, best)
    first, second = np.triu_indices(microbatches, k=1)
    swaps = np.tile(np.arange(microbatches), (len(first), 1))
    swaps[np.arange(len(first)), first], swaps[np.arange(len(first)), second] = second, first
    for _ in range(_SEARCH_ROUNDS):
        # Only the slowest pipelines decide when the step ends.
        slow = np.flatnonzero(best >= np.quantile(best, 0.75))
        if slow.size * len(first) * stages * microbatches > _SEARCH_BUDGET:
            slow = slow[np.argsort(-best[slow], kind="stable")[:1]]
            if len(first) * stages * microbatches > _SEARCH_BUDGET:
                break
        tried = order[slow][:, swaps]  # [slow, pairs, microbatches]
        found = makespan(np.take_along_axis(times[slow][:, None, :], tried, axis=2), stages)
        choice = found.argmin(axis=1)
        gained = found[np.arange(len(slow)), choice]
        better = gained < best[slow] * (1 - 1e-9)
        if not better.any():
            break
        order[slow[better]] = tried[np.arange(len(slow)), choice][better]
        best[slow[better]] = gained[better]
    return order
