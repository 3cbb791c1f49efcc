"""Ours: loader processes that die or hang while their slots have shadows, or have none."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from overlord_bench._contenders.recovery.trainer import WARMUP, PacedTrainer, Run, started

LOOK_S = 0.002  # between two looks at the status
PATIENCE_S = 60.0


class Watched:
    """The node of a run, as `overlord top` sees it."""

    def __init__(self, run: Run, work: dict[str, Any]) -> None:
        [folder] = run.sockets.iterdir()
        self.folder = str(folder)
        self._slots = work["sources"] if work.get("shadow") else 0

    def status(self) -> dict[str, Any]:
        """What it tells."""
        from overlord._src.node.watch import ask

        return ask(self.folder)

    def is_whole(self, status: dict[str, Any]) -> bool:
        """Every process is there, and every slot that should have a shadow has a living one."""
        here = all(item["connected"] for item in status["processes"])
        return here and status["shadowed"] == self._slots and not status["unprotected"]

    def victims(self, count: int) -> list[dict[str, Any]]:
        """So many loader processes with active slots, spread evenly: no two stand behind another.

        The shadow of a slot is in the process behind its own.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not self.is_whole(status := self.status()):
            if time.monotonic() > deadline:
                raise TimeoutError("some slots have no living shadow")
            time.sleep(LOOK_S)
        loaders = [one for one in status["processes"] if one["name"].startswith("loaders")]
        active = [one for one in loaders if one["roles"]]
        return [active[number * len(active) // count] for number in range(count)]


class Promotions:
    """Notes when the status shows each further promotion, from now until all are there."""

    def __init__(self, watched: Watched, wanted: int) -> None:
        self._watched, self._wanted = watched, wanted
        self._before = watched.status()["promotions"]
        self.began = time.perf_counter()
        self._seconds: list[float] = []
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while len(self._seconds) < self._wanted:
            if (now := time.perf_counter() - self.began) > PATIENCE_S:
                return
            more = self._watched.status()["promotions"] - self._before
            self._seconds += [now] * (more - len(self._seconds))
            time.sleep(LOOK_S)

    def seconds(self) -> list[float]:
        """Of each, since this began."""
        self._thread.join()
        if len(self._seconds) < self._wanted:
            raise TimeoutError(f"{len(self._seconds)} promotions of {self._wanted}")
        return self._seconds


def _signal(victims: list[dict[str, Any]], number: int) -> None:
    for victim in victims:
        os.kill(victim["pid"], number)


def first_answers(work: dict[str, Any]) -> dict[str, Any]:
    """Time from the kill of many loader processes to the next answer of each slot that was there.

    A trace tells every answer to a constructor. The loop does not train, so every slot is asked
    again and again.
    """
    from overlord._src.node.trace import TraceEvent, record

    found: list[TraceEvent] = []
    with started(work) as run:
        rounds = run.loaders.rounds()
        for _ in range(WARMUP):
            next(rounds)
        watched = Watched(run, work)
        tracing = threading.Thread(
            target=lambda: found.extend(record(watched.folder, work["traced_s"])[0])
        )
        tracing.start()
        begin = time.monotonic()
        victims, killed_ns, promotions, waits = [], 0, None, list[float]()
        while tracing.is_alive():
            # A second into the window, which begins 2.5 s after it was asked for.
            if promotions is None and time.monotonic() - begin > 3.5:
                victims = watched.victims(work["killed"])
                promotions = Promotions(watched, sum(one["roles"] for one in victims))
                killed_ns = time.monotonic_ns()
                _signal(victims, signal.SIGKILL)
            took = time.perf_counter()
            next(rounds)
            if promotions:
                waits.append(time.perf_counter() - took)
        tracing.join()
        promoted = promotions.seconds() if promotions else []
    names = {f"source{int(one['name'].rpartition('-')[2]):04}" for one in victims}
    answers = first_after(found, killed_ns, names)
    if missing := names - set(answers):
        return {"failed": f"no answer of {', '.join(sorted(missing))} in the trace"}
    return {
        "answers_ms": [round(value, 2) for value in answers.values()],
        "promotions_ms": [round(value * 1e3, 2) for value in promoted],
        "longest_wait_ms": max(waits) * 1e3,
        "median_wait_ms": sorted(waits)[len(waits) // 2] * 1e3,
    }


def first_after(events: Any, killed_ns: int, names: set[str]) -> dict[str, float]:
    """Milliseconds from the kill to the end of the first answer of each of these sources."""
    found: dict[str, float] = {}
    for event in sorted(events, key=lambda one: one.begin_ns):
        if event.what == "answer" and event.whose in names and event.begin_ns > killed_ns:
            found.setdefault(event.whose, (event.begin_ns + event.duration_ns - killed_ns) / 1e6)
    return found


def loader_waits(work: dict[str, Any]) -> dict[str, Any]:
    """How long `next()` took in every step; so many loader processes die after some of them."""
    with started(work) as run:
        trainer = PacedTrainer(run, work["pace_s"])
        for step in range(work["taken"]):
            trainer.step()
            if step in work["kill_after"]:
                _signal(Watched(run, work).victims(work["killed"]), signal.SIGKILL)
            trainer.train()
        status = Watched(run, work).status()
    told = {key: status[key] for key in ("promotions", "restarts")}
    return {"waits_ms": [round(wait * 1e3, 2) for wait in trainer.waits_s], **told}


MEASURES = (first_answers, loader_waits)
