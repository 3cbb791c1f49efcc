"""The one door to the native module: pyarrow first, which brings the Arrow libraries, then ours.

Import `core` from here and only from modules that need the engine.
"""

from __future__ import annotations

import atexit
import threading

import pyarrow

from overlord._src.arrow_match import check_arrow

try:
    import overlord._core as core
except ImportError as error:
    raise ImportError(
        f"the native module overlord._core cannot be loaded: {error}. In a checkout `make build` "
        f"builds it; an installed one needs pyarrow 25.0.* (found {pyarrow.__version__})"
    ) from error

check_arrow(core.arrow_version, pyarrow.__version__)


@atexit.register
def _excuse_threads_left_behind() -> None:
    """A daemon thread never lets go of what its stack holds: not a leak that anybody could mend."""
    if len(threading.enumerate()) > 1:
        core.set_leak_warnings(False)


__all__ = ["core"]
