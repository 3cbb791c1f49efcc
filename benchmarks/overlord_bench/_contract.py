"""What every benchmark's report has: the machine, the figures, and who else was measured."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from overlord._version import __version__

Figures = dict[str, Any]
_PACKAGES = ("numpy", "pyarrow")


def machine() -> dict[str, Any]:
    """The CPU, its cores, memory and the versions that numbers depend on."""
    return {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {"overlord": __version__, **{name: version_of(name) for name in _PACKAGES}},
        "load_before": round(os.getloadavg()[0], 2),
    }


def cpu_model() -> str:
    """What the kernel or the C library calls the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    fields = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
    if "model name" in fields:
        return fields["model name"]
    part = (fields.get("CPU implementer"), fields.get("CPU part"))
    known = {("0x41", "0xd0c"): "Neoverse-N1", ("0x41", "0xd40"): "Neoverse-V1"}
    known |= {("0x41", "0xd49"): "Neoverse-N2", ("0x41", "0xd4f"): "Neoverse-V2"}
    return known.get((part[0] or "", part[1] or ""), platform.processor() or platform.machine())


def version_of(package: str) -> str:
    """Version of an installed distribution, or why there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def report(
    bench: str,
    figures: Mapping[str, Any],
    contenders: Mapping[str, Any],
    settings: Mapping[str, Any],
    host: Mapping[str, Any],
) -> dict[str, Any]:
    """The report of one benchmark, fit for JSON."""
    return {
        "bench": bench,
        "machine": dict(host),
        "settings": dict(settings),
        "figures": dict(figures),
        "contenders": dict(contenders),
    }


def medians(runs: Sequence[Mapping[str, Any]]) -> Figures:
    """Of every number its median over runs; of everything else the first value. `runs` counts."""
    merged: Figures = {}
    for key, first in runs[0].items():
        values = [run[key] for run in runs if key in run]
        is_number = isinstance(first, int | float) and not isinstance(first, bool)
        merged[key] = statistics.median(values) if is_number else first
    merged["runs"] = len(runs)
    return merged
