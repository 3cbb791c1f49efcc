"""Whether the machine did something else while a contender ran."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

MOST_OTHERS = 0.2  # cores that other processes may take from a run that counts
_LOOK_S = 0.5


def _system_busy() -> float:
    """CPU seconds of everything on the machine that was not idle."""
    first = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(text) for text in first[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _ours() -> float:
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@dataclass(frozen=True)
class Moment:
    """Clocks at one moment."""

    wall: float
    system: float
    ours: float


def now() -> Moment:
    """The clocks now."""
    return Moment(time.perf_counter(), _system_busy(), _ours())


def others_since(moment: Moment) -> float:
    """Cores that other processes took since then."""
    end = now()
    others = (end.system - moment.system) - (end.ours - moment.ours)
    return max(0.0, others / max(end.wall - moment.wall, 1e-9))


class Patience:
    """Seconds that a benchmark may spend on waiting for a quiet machine and on running again."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @property
    def lasts(self) -> bool:
        """Whether any is left."""
        return self._left > 0

    def spend(self, seconds: float) -> None:
        """Time that went by for nothing."""
        self._left -= seconds

    def wait(self) -> None:
        """Return when the machine is quiet, or when patience is at its end."""
        while self.lasts:
            moment = now()
            time.sleep(_LOOK_S)
            if others_since(moment) <= MOST_OTHERS:
                return
            self.spend(_LOOK_S)
