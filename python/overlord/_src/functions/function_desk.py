"""FunctionDesk: a thread that calls users' functions for a running planner.

A thread of its own, so that no role waits for Python: a function that never returns holds up the
stream, which says so, and nothing else. It is a daemon and nothing native lies below the functions
on its stack, so that even then the process can end.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from overlord._src.native import core

_IDLE_SECONDS = 3600.0
_CLOSE_SECONDS = 5.0


class FunctionDesk:
    """Takes the planner's questions until it is closed."""

    def __init__(
        self, native: core.CalloutDesk | core.RuleDesk, answer: Callable[[Any], Any]
    ) -> None:
        self.native = native
        self.calling = False
        self._thread = threading.Thread(
            target=_serve,
            args=(weakref.ref(self), answer),
            name="overlord-functions",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """No question is taken any more. A function that runs is left to itself."""
        self.native.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        if threading.current_thread() is self._thread:
            return
        while self._thread.is_alive() and not self.calling and time.monotonic() < deadline:
            self._thread.join(0.01)

    def take(self) -> tuple[int, Any] | None:
        """The next question; None when it is time to look whether the desk is closed."""
        taken = self.native.take(_IDLE_SECONDS)
        self.calling = taken is not None
        return taken

    def give(self, number: int, answer: Any) -> None:
        """An answer, or a text that says why there is none."""
        self.calling = False
        if isinstance(answer, str):
            self.native.fail(number, answer)
        else:
            self.native.answer(number, answer)


def _serve(desk_of: weakref.ref[FunctionDesk], answer_to: Callable[[Any], Any]) -> None:
    """Calls functions until the desk is closed. Holds nothing of it while a function runs."""
    while (desk := desk_of()) is not None and not desk.native.closed:
        taken = desk.take()
        del desk
        if taken is None:
            continue
        number, request = taken
        del taken
        try:
            answer: Any = answer_to(request)
        except BaseException as error:  # SystemExit too: the stream ends, and says why
            answer = f"raised {type(error).__name__}: {error}"
        if (desk := desk_of()) is not None:
            desk.give(number, answer)
