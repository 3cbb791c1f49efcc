"""FunctionDesk: the thread that calls users' functions for a running planner.

A thread of its own, so that no role waits for Python: a function that never returns holds up the
stream, which says so, and nothing else. It is a daemon and nothing native lies below the functions
on its stack, so that even then the process can end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from overlord._src.callouts import AnyFunction, answer_request
from overlord._src.native import core

_IDLE_SECONDS = 3600.0
_CLOSE_SECONDS = 5.0


class FunctionDesk:
    """Takes the planner's questions until it is closed."""

    def __init__(self, functions: Mapping[str, AnyFunction], sources: Sequence[str]) -> None:
        self.native = core.CalloutDesk()
        self._functions = dict(functions)
        self._sources = list(sources)
        self._calling = False
        self._thread = threading.Thread(target=self._serve, name="overlord-functions", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self.native.closed:
            taken = self.native.take(_IDLE_SECONDS)
            if taken is None:
                continue
            number, request = taken
            self._calling = True
            try:
                answer = answer_request(request, self._functions, self._sources)
            except BaseException as error:  # SystemExit too: the stream ends, and says why
                answer = f"raised {type(error).__name__}: {error}"
            self._calling = False
            if isinstance(answer, str):
                self.native.fail(number, answer)
            else:
                self.native.answer(number, answer)

    def close(self) -> None:
        """No question is taken any more. A function that runs is left to itself."""
        self.native.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        if threading.current_thread() is self._thread:
            return
        while self._thread.is_alive() and not self._calling and time.monotonic() < deadline:
            self._thread.join(0.01)
