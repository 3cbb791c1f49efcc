"""The checks of `overlord doctor` for the engine with processes: what this host allows a node."""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from overlord._src.checkup.finding import Finding
from overlord._src.config.columns import base_name
from overlord._src.config.field_types import show_bytes
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.runtime_models import RuntimeConfig
from overlord._src.config.streams import TRAIN, resolve_stream
from overlord._src.mesh import Mesh
from overlord._src.node.limits import allowed_memory, node_cores, node_memory
from overlord._src.node.memory_group import GroupTree
from overlord._src.node.process_groups import group_costs, lists_of, names_in, runs_python

# Not in every Python that we run with.
_ADD_SEALS, _SEAL_SHRINK, _SEAL_GROW, _SEAL_FUTURE_WRITE = 1033, 2, 4, 0x10
_INSTEAD = 'engine="embedded" works without it'
_NODE_SECONDS = 20


def check_node(loaded: LoadedConfig | None, mesh: Mesh) -> list[Finding]:
    """All of them; the placement of roles only with a config."""
    runtime = loaded.config.runtime if loaded is not None else RuntimeConfig()
    findings = [
        check_executable(),
        check_sealing(),
        check_shared_memory(runtime),
        check_locked_memory(runtime),
        check_socket_directory(runtime),
    ]
    if loaded is not None:
        findings += [
            check_placement(loaded, mesh),
            check_shares(loaded, mesh),
            *check_memory_group(runtime),
        ]
    return findings


def check_executable() -> Finding:
    """The node's program is there, and this machine can load it."""
    what = "overlord-node"
    try:
        from overlord._src.native import core
        from overlord._src.node.process import executable
    except ImportError as error:
        return Finding("fail", what, str(error))
    try:
        path = executable()
        # Without a command it says which there are.
        answer = subprocess.run([path], capture_output=True, timeout=_NODE_SECONDS, check=False)
    except core.NotFoundError as error:
        return Finding("fail", what, str(error))
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("fail", what, f"does not run: {error}; {_INSTEAD}")
    said = (answer.stdout + answer.stderr).decode(errors="replace").strip()
    if "keep, join or role" not in said:
        return Finding("fail", what, f"ends with {answer.returncode}: {said[-300:]}; {_INSTEAD}")
    return Finding("ok", what, str(path))


def check_sealing() -> Finding:
    """Memory that can be shared and sealed against writing by others, as segments are."""
    what = "sealed memory"
    try:
        memory = os.memfd_create("overlord-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        return Finding("fail", what, f"memfd_create: {error.strerror}; {_INSTEAD}")
    try:
        os.ftruncate(memory, mmap.PAGESIZE)
        fcntl.fcntl(memory, _ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW | _SEAL_FUTURE_WRITE)
        try:
            mmap.mmap(memory, mmap.PAGESIZE).close()
        except PermissionError:
            return Finding("ok", what, "memfd, sealed against shrinking, growing and writing")
        return Finding("fail", what, f"the seal against writing does not hold; {_INSTEAD}")
    except OSError as error:
        return Finding(
            "fail", what, f"F_ADD_SEALS: {error.strerror}; needs Linux 5.1 or newer; {_INSTEAD}"
        )
    finally:
        os.close(memory)


def check_shared_memory(runtime: RuntimeConfig) -> Finding:
    """/dev/shm, which others use: ours is limited by the container's memory alone."""
    ours = "segments are memfds, which count as memory of the container and not here"
    try:
        space = os.statvfs("/dev/shm")
    except OSError:
        return Finding("ok", "/dev/shm", f"not there; {ours}")
    size, free = (blocks * space.f_frsize for blocks in (space.f_blocks, space.f_bavail))
    return Finding("ok", "/dev/shm", f"{show_bytes(free)} free of {show_bytes(size)}; {ours}")


def check_locked_memory(runtime: RuntimeConfig) -> Finding:
    """Memory that may be locked, where batches are to be pinned."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    needed = runtime.constructor_budget
    if soft == resource.RLIM_INFINITY or soft >= needed:
        shown = "no limit" if soft == resource.RLIM_INFINITY else show_bytes(soft)
        return Finding("ok", "locked memory", shown)
    return Finding(
        "warn",
        "locked memory",
        f"limit {show_bytes(soft)}, pinned batches of a group may need {show_bytes(needed)}: run "
        "`ulimit -l unlimited`, or set LimitMEMLOCK=infinity (Docker: --ulimit memlock=-1)",
    )


def check_socket_directory(runtime: RuntimeConfig) -> Finding:
    """Where nodes and trainers of this user meet."""
    what = "socket directory"
    base = runtime.processes.directory or _default_base()
    if not os.path.isdir(base) or not os.access(base, os.W_OK | os.X_OK):
        return Finding(
            "fail", what, f"{base} cannot be written to; set runtime.processes.directory"
        )
    return Finding("ok", what, base)


def _default_base() -> str:
    """As the engine chooses it."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    if given.startswith("/") and os.path.isdir(given):
        info = Path(given).stat()
        if info.st_uid == os.geteuid() and not stat.S_IMODE(info.st_mode) & 0o077:
            return given
    return "/tmp"


def check_shares(loaded: LoadedConfig, mesh: Mesh) -> Finding:
    """Cores and memory that a node of this host may take."""
    runtime, placing = loaded.config.runtime, loaded.config.runtime.processes
    cores = node_cores(placing.cores_share) or tuple(sorted(os.sched_getaffinity(0)))
    allowed = allowed_memory(runtime)
    needed = node_memory(loaded, mesh.data_size)
    text = (
        f"{len(cores)} of {len(os.sched_getaffinity(0))} cores ({cores[0]} to {cores[-1]}); "
        f"budgets {show_bytes(needed)} of {show_bytes(allowed)} allowed"
    )
    if needed <= allowed:
        return Finding("ok", "node's share", text)
    return Finding(
        "warn", "node's share", f"{text}, were all groups on this host; lower the runtime's budgets"
    )


def check_memory_group(runtime: RuntimeConfig) -> list[Finding]:
    """Whether the kernel would keep this host to its share of memory, were it to join."""
    if runtime.processes.memory_share is None or not runtime.wire.joinable:
        return []
    what, why = "memory share", GroupTree().obstacle()
    if not why:
        return [Finding("ok", what, "`serve --join` keeps to it by a control group")]
    return [Finding("warn", what, f"`serve --join` keeps to it by budgets alone: {why}")]


def placement(
    loaded: LoadedConfig,
    mesh: Mesh,
    hosts: Sequence[tuple[str, int, bool, Sequence[str]]] = (),
    millicores: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Which roles share a process, and on which of these hosts loaders live, the lead's first.

    Hosts are told with their cores, whether they have ranks, and sources that lie on their disks;
    `millicores` is what loaders of sources kept busy in the run before.
    """
    from overlord._src.lowering.job_spec import most_loaders, workers_of
    from overlord._src.native import core

    config, placing = loaded.config, loaded.config.runtime.processes
    names, slots = resolve_stream(config, TRAIN).mixture.source_names(), most_loaders(loaded)
    placed: dict[str, Any] = core.place_processes(
        [
            (
                name,
                slots[base_name(name)],
                workers_of(loaded, name),
                config.sources[base_name(name)].shadows,
                (millicores or {}).get(name, 0),
                runs_python(config.sources[base_name(name)]),
            )
            for name in names
        ],
        buckets_of(loaded, mesh),
        placing.loaders,
        placing.constructors,
        lists_of(placing.isolate),
        placing.isolate_by_rule,
        list(hosts),
    )
    return placed


def buckets_of(loaded: LoadedConfig, mesh: Mesh) -> int:
    """How many constructors there are, on all hosts."""
    from overlord._src.run.run_loop import bucket_readers

    strategy = loaded.config.strategy
    return len(bucket_readers(mesh, strategy is not None and strategy.hybrid is not None))


def check_placement(loaded: LoadedConfig, mesh: Mesh) -> Finding:
    """Which processes a node of this job has, and why."""
    what = "processes"
    config, placing = loaded.config, loaded.config.runtime.processes
    names = resolve_stream(config, TRAIN).mixture.source_names()
    strange = sorted(set(names_in(placing.isolate)) - set(names))
    if strange:
        return Finding(
            "warn",
            what,
            f"runtime.processes.isolate names {strange[0]!r}, which the stream does not read; its "
            f"sources: {', '.join(names)}",
        )
    try:
        placed = placement(loaded, mesh)
    except ImportError as error:
        return Finding("fail", what, str(error))
    shown = ", ".join(f"{name} ({roles} roles)" for name, roles in placed["processes"].items())
    usable = len(os.sched_getaffinity(0))
    verdict: Literal["ok", "warn"] = "ok"
    advice = ""
    if len(placed["processes"]) + 1 > max(2, 2 * usable):
        verdict = "warn"
        advice = (
            f"; more than twice the {usable} usable CPUs: lower runtime.processes.loaders or "
            "runtime.processes.constructors"
        )
    costs = [*group_costs(loaded, resolve_stream(config, TRAIN), {})]
    if costs:
        verdict, advice = "warn", f"{advice}; {'; '.join(costs)}"
    return Finding(verdict, what, f"node, {shown}: {'; '.join(placed['reasons'])}{advice}")
