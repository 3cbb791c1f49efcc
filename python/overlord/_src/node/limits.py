"""What a node and its role processes may take of a host: shares of its cores and its memory."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from overlord._src.config.field_types import show_bytes
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.runtime_models import RuntimeConfig
from overlord._src.node.process_groups import lists_of, names_in, python_processes


def container_limit(name: str) -> int | None:
    """A limit of the control group; None where there is none."""
    try:
        text = Path("/sys/fs/cgroup", name).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def memory_of_host() -> int:
    """Bytes that this container may use."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total, container_limit("memory.max") or total)


def node_cores(share: float) -> tuple[int, ...]:
    """The cores of a node: the last ones of those that we may use; empty: all of them."""
    usable = len(os.sched_getaffinity(0))
    wanted = max(1, math.floor(share * usable))
    return () if wanted >= usable else counted_cores(wanted)


def counted_cores(count: int, number: int = 0) -> tuple[int, ...]:
    """So many of the cores that we may use, from the last on; `number`: of several who share them,
    each has others as far as there are any."""
    usable = sorted(os.sched_getaffinity(0), reverse=True)
    return tuple(sorted({usable[(number * count + i) % len(usable)] for i in range(count)}))


def node_memory(loaded: LoadedConfig, groups: int) -> int:
    """Bytes that the loaders and constructors of a host may hold, by their budgets."""
    runtime, shadows = loaded.config.runtime, shadows_of(loaded)
    placing = runtime.processes
    apart, by_rule = names_in(placing.isolate), placing.shadow_costliest
    # A slot and its shadows live in processes of their own.
    together = [count for name, count in shadows.items() if name not in apart]
    loaders = max(runtime.processes.loaders, 1 + max(min(by_rule, 1), *together, 0))
    loaders += python_processes(loaded)
    for group in lists_of(placing.isolate):
        loaders += 1 + max(shadows.get(name, 0) for name in group)
    loaders += min(by_rule, sum(not shadows.get(name, 0) for name in apart))
    return loaders * runtime.payload_budget + groups * runtime.constructor_budget


def shadows_of(loaded: LoadedConfig) -> dict[str, int]:
    """How many shadows a loader slot of each source has."""
    return {name: source.shadows for name, source in loaded.config.sources.items()}


def allowed_memory(runtime: RuntimeConfig) -> int:
    """Bytes that those budgets may add up to."""
    share = runtime.processes.memory_share
    return int((1.0 if share is None else share) * memory_of_host())


def given_memory(runtime: RuntimeConfig) -> int:
    """The same where the config limits it; 0: it does not."""
    return 0 if runtime.processes.memory_share is None else allowed_memory(runtime)


def check_memory_share(loaded: LoadedConfig, groups: int) -> None:
    """Refuses budgets that are more than the share of the host's memory."""
    runtime = loaded.config.runtime
    allowed = allowed_memory(runtime)
    needed = node_memory(loaded, groups)
    if needed <= allowed or runtime.processes.memory_share is None:
        return
    raise loaded.refused(
        ("runtime", "processes", "memory_share"),
        f"the budgets of a node with {groups} data-parallel groups are {show_bytes(needed)} "
        f"in all, and {show_bytes(allowed)} of the host's memory are allowed",
        runtime.processes.memory_share,
        advice="lower runtime.payload_budget or runtime.constructor_budget, or raise it",
    )


@contextlib.contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """What this thread starts meanwhile runs on these cores, and all that it starts in turn."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
