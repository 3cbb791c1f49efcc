"""The native part of the benchmarks: built in a checkout, beside these files."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from overlord._src.native import core

_BUILD = "`make build` builds it (or `cmake --build build --target _bench_core overlord-measure`)"


def bench_core() -> Any:
    """The extension `_bench_core`, which takes and gives types of `overlord._core`."""
    try:
        return importlib.import_module("overlord_bench._bench_core")
    except ModuleNotFoundError as error:
        raise core.NotFoundError(f"_bench_core of the benchmarks is not built: {_BUILD}") from error


def measure_program() -> Path:
    """The program `overlord-measure`."""
    path = Path(__file__).with_name("overlord-measure")
    if not os.access(path, os.X_OK):
        raise core.NotFoundError(f"{path} is not built: {_BUILD}")
    return path
