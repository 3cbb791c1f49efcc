"""How far indexing is, as a line now and then: for logs, where no terminal shows a bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

LINE_SECONDS = 10.0
_MOST_SOURCES = 3


class LineProgress:
    """Says one line every ten seconds, the first after ten; nothing of what is done before."""

    def __init__(
        self, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._clock = clock
        self._begin = clock()
        self._next = self._begin + LINE_SECONDS

    def update(self, sources: Sequence[Any]) -> None:
        """Take how far each source is; say it if it is time to."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + LINE_SECONDS
        self._say(progress_line(sources, now - self._begin))


def progress_line(sources: Sequence[Any], seconds: float) -> str:
    """One line: what is done of all, and how far those are that are being indexed."""
    done = sum(item.finished for item in sources)
    going = [item for item in sources if item.bytes_total and not item.finished]
    shown = [
        f"{item.name} {item.bytes_done / item.bytes_total:.0%} of {_size(item.bytes_total)}"
        f" ({item.rows:,} rows)"
        for item in going[:_MOST_SOURCES]
    ]
    if len(going) > _MOST_SOURCES:
        shown.append(f"and {len(going) - _MOST_SOURCES} more")
    rest = f": {', '.join(shown)}" if shown else ""
    return f"indexing for {seconds:.0f} s, {done} of {len(sources)} sources done{rest}"


def _size(count: int) -> str:
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"
