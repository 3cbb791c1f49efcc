"""Does the installed pyarrow carry the Arrow libraries that the engine was built with?"""

from __future__ import annotations

import re


def check_arrow(built: str, running: str) -> None:
    """Arrow's libraries have one soname per minor version: both sides must agree on it."""
    wanted = ".".join(built.split(".")[:2])
    if built and wanted != ".".join(running.split(".")[:2]):
        raise ImportError(
            f"overlord was built with Arrow {built}, but pyarrow {running} is installed; "
            f"run `pip install 'pyarrow=={wanted}.*'`, or build overlord anew"
        )


def explain_failed_import(error: ImportError, running: str) -> ImportError:
    """The loader's word on why the native module is not there, with what to do about it."""
    # Arrow 25.0 is libarrow.so.2500.
    soname = re.search(r"\blib(?:arrow|parquet)\w*\.so\.(\d+)(\d\d)\b", str(error))
    if soname:
        try:
            check_arrow(f"{int(soname[1])}.{int(soname[2])}", running)
        except ImportError as mismatch:
            return mismatch
    return ImportError(
        f"the native module overlord._core cannot be loaded: {error}. In a checkout `make build` "
        "builds it; elsewhere `pip install --force-reinstall overlord-data` brings all it needs"
    )
