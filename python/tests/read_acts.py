"""What a rank does in tests of every engine: it reads streams in acts, one after another, and tells
of each all that must be the same on every engine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from reported import losses, more_of_the_worst

import overlord as ol

Act = dict[str, Any]
"""`config`; `stream`; `readings`: how often it is read; `steps`: after how many it ends, without
it at its end; `resumes`: goes on from the state of the act before, with the leaves of `allow`."""


def job_of(act: Act, told: Mapping[str, Any]) -> ol.Job:
    """With the functions that the strategy and the mixture name."""
    names = told.get("functions", ())
    rule = told.get("rule") and ol.mix.rule(more_of_the_worst, version=1)
    callouts = None
    if names:  # more imports than the rest of a rank takes
        import planned

        callouts = planned.functions(*names)
    return ol.job(act["config"], mesh=ol.mesh(**told["mesh"]), callouts=callouts, rule=rule)


def bad_rows(loader: Any) -> list[list[Any]]:
    return sorted([one["source"], one["row"], one["reason"]] for one in loader.quarantine())


def refusal(call: Callable[[], object]) -> str:
    """What a call says that is not carried out; empty: it was."""
    try:
        call()
    except ol.OverlordError as error:
        return str(error)
    return ""


def meet() -> None:
    """Wait for all ranks: they are told to go on at once."""
    print(json.dumps({"waits": True}), flush=True)
    sys.stdin.readline()


def read_act(
    act: Act,
    told: Mapping[str, Any],
    engine: str,
    ranks: Sequence[int] | str,
    state: Any = None,
    meet: Callable[[], None] = meet,
) -> dict[str, Any]:
    """Read it here, for one rank or for all; what must be the same, by rank, and the state."""
    job = job_of(act, told)
    loaders = job.stream(act["stream"], ranks=ranks, engine=engine, hash=True)
    reporters = [rank for rank in told.get("reports", ()) if rank in loaders]
    out: dict[str, Any] = {"hash": {str(rank): [] for rank in loaders}}
    with loaders:
        for reading in range(act.get("readings", 1)):
            meet()
            if act.get("resumes") and reading == 0:
                loaders.load_state_dict(state, act.get("allow", ()))
            for number, batches in enumerate(loaders.steps(), 1):
                step = next(iter(batches.values()))[-1].step
                for rank in reporters:
                    loaders[rank].report(step, losses(step, rank))
                for source, size in told.get("sizes", {}).items():
                    next(iter(loaders.values())).resize(source, size + number % 2)
                if number == 1 and told.get("rebuilds"):
                    out["rebuilds"] = [
                        refusal(lambda more=more: loaders.rebuild(told["rebuilds"], **more))
                        for more in ({}, {"ranks": [1, 0]})
                    ]
                if number == act.get("steps"):
                    break
            for rank, loader in loaders.items():
                out["hash"][str(rank)].append(loader.rank_hash())
        out |= {"state": loaders.state_dict(), "content": loaders.content_hash()}
        out["bad"] = bad_rows(loaders)
        return out


def read_here(acts: Sequence[Act], told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every act by all ranks in this process, in the embedded engine."""
    state = None
    for act in acts:
        done = read_act(act, told, "embedded", "all", state, lambda: None)
        state = done["state"]
        yield json.loads(json.dumps(done))


def main() -> None:
    """As a rank: told by the first argument, each act at a word of its own."""
    told = json.loads(sys.argv[1])
    state = None
    try:
        for number, act in enumerate(told["acts"]):
            # As a launcher that starts all ranks again: whoever comes is of a newer attempt.
            os.environ["TORCHELASTIC_RESTART_COUNT"] = str(number)
            done = read_act(act, told, told["engine"], [int(os.environ["RANK"])], state)
            state = done["state"]
            print(json.dumps({"told": number, **done}), flush=True)
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
        print(
            json.dumps({"waits": -1}) + "\n" + json.dumps({"told": -1, "error": said}), flush=True
        )
