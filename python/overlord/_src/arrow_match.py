"""Does the installed pyarrow carry the Arrow libraries that the engine was built with?"""

from __future__ import annotations


def check_arrow(built: str, running: str) -> None:
    """Arrow's libraries have one soname per minor version: both sides must agree on it."""
    wanted = ".".join(built.split(".")[:2])
    if built and wanted != ".".join(running.split(".")[:2]):
        raise ImportError(
            f"overlord was built with Arrow {built}, but pyarrow {running} is installed; "
            f"run `pip install 'pyarrow=={wanted}.*'`, or build overlord anew"
        )
