"""The one door to the native module: pyarrow first, which brings the Arrow libraries, then ours.

Import `core` from here and only from modules that need the engine.
"""

from __future__ import annotations

import pyarrow

from overlord._src.arrow_match import check_arrow, explain_failed_import

try:
    import overlord._core as core
except ImportError as error:
    raise explain_failed_import(error, pyarrow.__version__) from error

check_arrow(core.arrow_version, pyarrow.__version__)

__all__ = ["core"]
