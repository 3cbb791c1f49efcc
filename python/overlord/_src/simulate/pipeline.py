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
