"""The folder of a job's indexes: where it cannot be used, the config key that names it is told."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from overlord._src.config.reading import LoadedConfig
from overlord._src.errors import Problem

_ADVICE = "set index_dir to a folder that you may write to"


def folder_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """Why no index can lie there: known before anything is read."""
    folder = loaded.index_dir
    try:
        there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    except (StopIteration, OSError):
        return  # whoever makes the folder finds out
    if not there.is_dir():
        yield _problem(loaded, f"{there} is not a folder")
        return
    # One that is there may be for reading only: its indexes were built elsewhere.
    if there != folder and not os.access(there, os.W_OK | os.X_OK):
        yield _problem(loaded, f"it does not exist, and {there} may not be written to")


@contextlib.contextmanager
def told_by_key(loaded: LoadedConfig) -> Iterator[None]:
    """What the system refuses inside of it is an error about `index_dir`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise loaded.refuse(
            _problem(loaded, f"{error.filename or loaded.index_dir}: {reason}")
        ) from error


def _problem(loaded: LoadedConfig, wrong: str) -> Problem:
    return Problem(
        ("index_dir",),
        f"the folder of the indexes cannot be made: {wrong}",
        loaded.config.index_dir,
        advice=_ADVICE,
    )
