"""Planner CPU of a step with loaders on 128 hosts against one: `planner_hosts_ratio`.

4,096 ranks (PP 8, DP 64, CP 2, TP 4) and 306 sources. Plans are made over made-up metadata and go
through a node's carrier to one process of constructors a data-parallel group and to one process of
loaders a host; each of these is a local socket that is emptied. Counted is the thread that plans
and sends: planning, encoding, copies, writes.
"""

from __future__ import annotations

import statistics
from typing import Any

from overlord._version import __version__

from overlord_bench import planner
from overlord_bench._contract import Figures
from overlord_bench.scaling._bench import Bench

AIMS = {"planner_hosts_ratio": "<= 1.2"}
HOSTS = (1, 128)
AXES = planner.SHAPES["pp8_dp64_cp2_tp4"]
SOURCES = planner.SOURCES


def measure(bench: Bench, hosts: int) -> Figures:
    """CPU of a step, medians; the first step makes its memory and is left out."""
    told = planner.published(bench.options.samples, AXES, max(3, bench.options.steps), hosts)
    plan, publish = (statistics.median(told[key][1:]) for key in ("plan_ms", "publish_ms"))
    figures: Figures = {"version": __version__, "cpu_ms": plan + publish}
    figures |= {"plan_ms": plan, "publish_ms": publish, "processes": hosts}
    counted = ("samples_per_step", "bytes_per_step", "frames_per_step")
    return bench.keep(f"planner/{hosts}_hosts", figures | {key: told[key] for key in counted})


def run(bench: Bench) -> Figures:
    """One host and many."""
    found: dict[int, Any] = {hosts: measure(bench, hosts) for hosts in HOSTS}
    one, many = (found[hosts] for hosts in HOSTS)
    return {
        "planner_hosts_ratio": many["cpu_ms"] / one["cpu_ms"],
        "planner_cpu_ms_1_host": one["cpu_ms"],
        f"planner_cpu_ms_{HOSTS[1]}_hosts": many["cpu_ms"],
        "planner_plan_ms": one["plan_ms"],
        "planner_publish_ms_1_host": one["publish_ms"],
        f"planner_publish_ms_{HOSTS[1]}_hosts": many["publish_ms"],
        f"planner_bytes_per_step_{HOSTS[1]}_hosts": many["bytes_per_step"],
    }
