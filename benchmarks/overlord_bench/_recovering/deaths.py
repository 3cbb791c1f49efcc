"""Deaths of the processes that serve a job: found by the folder of its sockets, killed, watched."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

from overlord._src.native import core

import overlord as ol

NODE, LOADERS, CONSTRUCTORS = KINDS = ("node", "loaders", "constructors")
_LOOK_S = 0.005  # between two looks into the journal
_PATIENCE_S = 120.0


def serving(sockets: Path) -> dict[int, str]:
    """The kind of every process that serves a job whose sockets lie there, by pid."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if any(str(sockets).encode() in word for word in words[1:]):
                name = words[0].decode(errors="replace")
                roles = (kind for kind in KINDS[1:] if f"overlord: {kind}" in name)
                found[int(entry.name)] = next(roles, NODE)
    return found


def kill(sockets: Path, kinds: tuple[str, ...]) -> int:
    """SIGKILL to all processes of these kinds; how many there were.

    A node that is to die with others is stopped first, so that it starts none of them again.
    """
    victims = [(pid, kind) for pid, kind in serving(sockets).items() if kind in kinds]
    signals = [(pid, signal.SIGSTOP) for pid, kind in victims if kind == NODE and len(kinds) > 1]
    signals += [(pid, signal.SIGKILL) for pid, kind in victims if kind != NODE]
    signals += [(pid, signal.SIGKILL) for pid, kind in victims if kind == NODE]
    for pid, number in signals:
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(pid, number)
    return len(victims)


def last_plan(journal: Path) -> int:
    """Step of the newest plan that a journal holds; -1 while it is not to be read."""
    with contextlib.suppress(ol.OverlordError, OSError):  # segments come and go meanwhile
        plans = core.journal_plans(str(journal))
        return plans[-1][0] if plans else -1
    return -1


class Death:
    """One death now, watched until the journal has a new plan."""

    def __init__(self, sockets: Path, journal: Path, kinds: tuple[str, ...]) -> None:
        self._seconds: float | None = None
        self.killed = kill(sockets, kinds)
        self._began = time.perf_counter()
        self._thread = threading.Thread(target=self._watch, args=(journal,))
        self._thread.start()

    def _watch(self, journal: Path) -> None:
        before = last_plan(journal)
        while time.perf_counter() - self._began < _PATIENCE_S:
            if 0 <= before < last_plan(journal):
                self._seconds = time.perf_counter() - self._began
                return
            before = last_plan(journal) if before < 0 else before
            time.sleep(_LOOK_S)

    def is_awaited(self) -> bool:
        """There is no new plan yet."""
        return self._thread.is_alive()

    def seconds_to_a_plan(self) -> float:
        """From the kill to the first new plan."""
        self._thread.join()
        if self._seconds is None:
            raise TimeoutError(f"no new plan within {_PATIENCE_S:.0f} s of a kill")
        return self._seconds


class ManyDeaths:
    """Kills processes of one kind again and again, at moments that nobody knows."""

    def __init__(self, sockets: Path, kind: str, every_s: float) -> None:
        self.kills = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, args=(sockets, kind, every_s))

    def _go_on(self, sockets: Path, kind: str, every_s: float) -> None:
        chance = random.Random(7)
        pause_s = 1.0
        while not self._end.wait(pause_s):
            self.kills += kill(sockets, (kind,)) > 0
            pause_s = every_s * chance.uniform(0.5, 1.5)

    def __enter__(self) -> ManyDeaths:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
