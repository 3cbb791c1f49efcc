"""TransformThreads: threads that call transforms of lane thread for an embedded engine.

One call per batch of rows, or of media items. Daemons, with nothing native below the functions on
their stacks: one that never returns ends the stream, which says so, and the process can end all the
same.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from overlord._src.functions.transforms import ThreadTransform
from overlord._src.native import core

_IDLE_SECONDS = 3600.0
_CLOSE_SECONDS = 1.0


class TransformThreads:
    """Takes batches until it is closed."""

    def __init__(self, transforms: Mapping[str, ThreadTransform]) -> None:
        self.native = core.TransformDesk()
        count = sum(transform.workers for transform in transforms.values())
        self._threads = [
            threading.Thread(
                target=_serve,
                args=(weakref.ref(self), dict(transforms)),
                name=f"overlord-transform-{i}",
                daemon=True,
            )
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """No batch is taken any more. A function that runs is given a moment, then left alone."""
        self.native.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))


def _serve(owner: weakref.ref[TransformThreads], transforms: dict[str, ThreadTransform]) -> None:
    """Calls functions until the desk is closed."""
    while (threads := owner()) is not None and not threads.native.closed:
        desk = threads.native
        del threads
        taken = desk.take(_IDLE_SECONDS)
        if taken is None:
            continue
        number, key, texts = taken
        own: Any = transforms[key]
        try:
            desk.answer(number, own.answer(texts))
        except BaseException as error:
            desk.fail(number, f"raised {type(error).__name__}: {error}")
