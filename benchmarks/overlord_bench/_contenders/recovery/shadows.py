"""Ours: loader processes that die or hang while their slots have shadows, or have none."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from overlord_bench._contenders.recovery.trainer import WARMUP, PacedTrainer, Run, started
from overlord_bench._fleet import add_up

LOOK_S = 0.002  # between two looks at the status
PATIENCE_S = 60.0
REST_S = 2.0  # what runs ahead of the trainer comes to rest
BUSY_LOOPS = 4


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


class Watch:
    """Notes the times since its beginning at which the status shows what is waited for."""

    def __init__(self, watched: Watched, wanted: int, seen: Callable[[Any], int]) -> None:
        self._watched, self._wanted, self._seen = watched, wanted, seen
        self._began = time.perf_counter()
        self._seconds: list[float] = []
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while len(self._seconds) < self._wanted:
            if (now := time.perf_counter() - self._began) > PATIENCE_S:
                return
            more = self._seen(self._watched.status())
            self._seconds += [now] * (more - len(self._seconds))
            time.sleep(LOOK_S)

    def is_awaited(self) -> bool:
        """Something is still to come."""
        return self._thread.is_alive()

    def seconds(self) -> list[float]:
        """Of each, since this began."""
        self._thread.join()
        if len(self._seconds) < self._wanted:
            raise TimeoutError(f"{len(self._seconds)} of {self._wanted} within {PATIENCE_S:.0f} s")
        return self._seconds


def promotions(watched: Watched, victims: list[dict[str, Any]]) -> Watch:
    """Of all slots that these processes have."""
    before = watched.status()["promotions"]
    wanted = sum(one["roles"] for one in victims)
    return Watch(watched, wanted, lambda status: status["promotions"] - before)


def successors(watched: Watched, victim: dict[str, Any]) -> Watch:
    """The next process of a victim's name, once it is linked."""

    def linked(status: dict[str, Any]) -> int:
        return sum(
            one["name"] == victim["name"] and one["pid"] != victim["pid"] and one["connected"]
            for one in status["processes"]
        )

    return Watch(watched, 1, linked)


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
        victims, killed_ns, promoted, waits = [], 0, None, list[float]()
        while tracing.is_alive():
            # A second into the window, which begins 2.5 s after it was asked for.
            if promoted is None and time.monotonic() - begin > 3.5:
                victims = watched.victims(work["killed"])
                promoted = promotions(watched, victims)
                killed_ns = time.monotonic_ns()
                _signal(victims, signal.SIGKILL)
            took = time.perf_counter()
            next(rounds)
            if promoted:
                waits.append(time.perf_counter() - took)
        tracing.join()
        seconds = promoted.seconds() if promoted else []
    names = {f"source{int(one['name'].rpartition('-')[2]):04}" for one in victims}
    answers = first_after(found, killed_ns, names)
    if missing := names - set(answers):
        return {"failed": f"no answer of {', '.join(sorted(missing))} in the trace"}
    return {
        "answers_ms": [round(value, 2) for value in answers.values()],
        "promotions_ms": [round(value * 1e3, 2) for value in seconds],
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


def hang(work: dict[str, Any]) -> dict[str, Any]:
    """Seconds from stopping a loader process to the promotion of its slots, again and again."""
    seconds = []
    with started(work) as run:
        trainer = PacedTrainer(run, work["pace_s"])
        trainer.steps(WARMUP)
        watched = Watched(run, work)
        for _ in range(work["stops"]):
            victims = watched.victims(1)
            promoted = promotions(watched, victims)
            _signal(victims, signal.SIGSTOP)
            while promoted.is_awaited():
                trainer.steps(1)
            seconds.append(max(promoted.seconds()))
            trainer.steps(WARMUP)
    waits_ms = [round(wait * 1e3, 2) for wait in trainer.waits_s]
    return {"max_s": max(seconds), "seconds": seconds, "waits_ms": waits_ms}


@contextlib.contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def beside_busy_loops(work: dict[str, Any]) -> dict[str, Any]:
    """Promotions and restarts of a job that nobody disturbs, but that has little of its cores."""
    with started(work) as run, _busy_loops(BUSY_LOOPS):
        trainer = PacedTrainer(run, work["pace_s"])
        end = time.monotonic() + work["busy_s"]
        while time.monotonic() < end:
            trainer.steps(1)
        status = Watched(run, work).status()
    return {
        "promotions": status["promotions"],
        "restarts": status["restarts"],
        "steps": len(trainer.waits_s),
        "longest_wait_ms": max(trainer.waits_s[WARMUP:]) * 1e3,
    }


def memory(work: dict[str, Any]) -> dict[str, Any]:
    """PSS of all processes of the job, the trainer among them, once it rests."""
    with started(work) as run:
        PacedTrainer(run, 0.0).steps(work["taken"])
        time.sleep(REST_S)
        found = add_up({os.getpid()}, str(run.sockets))
    return {"pss_bytes": found.pss, "loaders_bytes": found.by_kind["loaders"]}


WORK = ("read_wait", "decode", "tokenise", "media")  # of a loader, by its status


def served_again(work: dict[str, Any]) -> dict[str, Any]:
    """The only loader process with active slots dies under a loop that does not train.

    Told are the times from each kill until the status has its successor's link (with a shadow: the
    promotion), the longest `next()` of the steps that were planned before the kill, all waits of
    the steps that follow, and, without a shadow, what the successor had done until those that were
    planned were there. Without `rest_s` before the kill a warm shadow lags behind such a loop, and
    has read little of what is asked of it.
    """
    told: dict[str, list[float]] = {}

    def tell(name: str, value_ms: float) -> None:
        told.setdefault(name, []).append(value_ms)

    with started(work) as run:
        trainer = PacedTrainer(run, 0.0)
        runway = work["prefetch"] + 2

        def take(word: str) -> dict[str, Any]:
            before = len(trainer.waits_s)
            trainer.steps(runway)
            status = watched.status()
            trainer.steps(work["steps_between"] - runway)
            waits = [wait * 1e3 for wait in trainer.waits_s[before:]]
            tell("runway_wait_ms" + word, max(waits[:runway]))
            tell("all_waits_ms" + word, sum(waits))
            return status

        trainer.steps(work["steps_between"])
        watched = Watched(run, work)
        for _ in range(work["kills"]):
            time.sleep(work["rest_s"])
            take("_undisturbed")
            time.sleep(work["rest_s"])
            victims = watched.victims(1)
            if work["shadow"]:
                follows = promotions(watched, victims)
            else:
                follows = successors(watched, victims[0])
            _signal(victims, signal.SIGKILL)
            status = take("")
            tell("linked_ms", max(follows.seconds()) * 1e3)
            for name in () if work["shadow"] else WORK:
                tell(f"{name}_ms", sum(one[f"{name}_ns"] for one in status["loaders"]) / 1e6)
    middle = {name: statistics.median(values) for name, values in told.items()}
    each = {name: [round(value, 1) for value in values] for name, values in told.items()}
    return {**middle, "each": each}


MEASURES = (first_answers, loader_waits, hang, beside_busy_loops, memory, served_again)
