"""The checks of `overlord doctor`: each finds one thing and says what would be needed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Literal

from overlord._src.arrow_match import check_arrow
from overlord._src.checkup.finding import Finding
from overlord._src.checkup.hosts import check_hosts
from overlord._src.checkup.node import check_node
from overlord._src.config.field_types import show_bytes
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.runtime_models import RuntimeConfig
from overlord._src.mesh import Mesh
from overlord._src.node.limits import container_limit, memory_of_host
from overlord._version import __version__
from overlord._workers.tokenizer_worker import HELLO, worker_command

_NEEDED = ("nanobind-backend", "numpy", "pyarrow", "pydantic", "PyYAML", "rich", "tokenizers")
_OPTIONAL = ("torch", "ray")
_SPARE_FILES, _SPARE_THREADS = 64, 16
_FILES_PER_WORKER = 4
_MIB = 1 << 20


def check_all(loaded: LoadedConfig | None, mesh: Mesh | None = None) -> list[Finding]:
    """All checks; those of a config only with one, for a host with the ranks of `mesh`."""
    runtime = loaded.config.runtime if loaded is not None else RuntimeConfig()
    tokenizers = len(loaded.config.tokenizers) if loaded is not None else 0
    folder = loaded.index_dir if loaded is not None else Path(".overlord").absolute()
    findings = [
        check_python(),
        *check_packages(),
        check_native(),
        *check_codecs(),
        check_machine(),
        check_open_files(runtime, tokenizers),
        check_threads(runtime),
        check_memory(runtime),
        check_folder(folder),
        *check_node(loaded, mesh or Mesh.parse("dp=1")),
        *check_hosts(runtime),
    ]
    if loaded is not None:
        findings += [check_tokenizer(loaded, name) for name in loaded.config.tokenizers]
        findings += check_indexes(loaded)
    return findings


def check_python() -> Finding:
    """The interpreter."""
    good = sys.version_info >= (3, 10)
    return Finding(
        "ok" if good else "fail", "python", f"{platform.python_version()} (needs 3.10 or newer)"
    )


def check_packages() -> list[Finding]:
    """Versions of what we need and of what we work with."""
    findings = [Finding("ok", "overlord", __version__)]
    for name in (*_NEEDED, *_OPTIONAL):
        try:
            findings.append(Finding("ok", name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            verdict: Literal["ok", "fail"] = "fail" if name in _NEEDED else "ok"
            findings.append(
                Finding(verdict, name, f"not installed{'' if verdict == 'fail' else ' (optional)'}")
            )
    return findings


def check_native() -> Finding:
    """The native module and the Arrow it was built with."""
    try:
        import pyarrow

        from overlord._src.native import core

        check_arrow(core.arrow_version, pyarrow.__version__)
    except ImportError as error:
        return Finding("fail", "native module", str(error))
    return Finding(
        "ok",
        "native module",
        f"built with Arrow {core.arrow_version}, runs with {pyarrow.__version__}",
    )


def check_codecs() -> list[Finding]:
    """Codecs of media in this build; the fingerprint tells builds that give other pixels apart."""
    try:
        from overlord._src.native import core
    except ImportError:
        return []  # check_native says why
    findings = []
    for codec in core.media_codecs():
        text = f"{codec['made_by']} {codec['version']}, fingerprint {codec['fingerprint'][:8]}"
        if not codec["in_build"]:
            text = f"not in this build; install {codec['package']} and build again (optional)"
        elif not codec["present"]:
            text = f"not on this machine; install {codec['package']} (optional)"
        findings.append(Finding("ok", f"codec {codec['name']}", text))
    return findings


def check_machine() -> Finding:
    """CPUs that this process may use."""
    usable = len(os.sched_getaffinity(0))
    verdict: Literal["ok", "warn"] = "ok" if platform.machine() in ("x86_64", "aarch64") else "warn"
    return Finding(verdict, "cpu", f"{platform.machine()}, {usable} usable of {os.cpu_count()}")


def check_open_files(runtime: RuntimeConfig, tokenizers: int) -> Finding:
    """Open files that a run may need, against the limit."""
    needed = (
        runtime.open_files
        + _FILES_PER_WORKER * runtime.tokenizer_processes * tokenizers
        + _SPARE_FILES
    )
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    good = soft == resource.RLIM_INFINITY or soft >= needed
    advice = "" if good else f"; run `ulimit -n {needed}`, or lower runtime.open_files"
    return Finding(
        "ok" if good else "fail", "open files", f"limit {soft}, a run needs {needed}{advice}"
    )


def check_threads(runtime: RuntimeConfig) -> Finding:
    """Threads that a run starts, against the limits of user and container."""
    needed = runtime.threads + runtime.io_threads + _SPARE_THREADS
    limits = [resource.getrlimit(resource.RLIMIT_NPROC)[0], container_limit("pids.max")]
    known = [limit for limit in limits if limit is not None and limit != resource.RLIM_INFINITY]
    if not known:
        return Finding("ok", "threads", f"no limit, a run needs {needed}")
    good = min(known) >= needed
    advice = "" if good else f"; run `ulimit -u {needed}` or raise the container's pids limit"
    return Finding(
        "ok" if good else "fail", "threads", f"limit {min(known)}, a run needs {needed}{advice}"
    )


def check_memory(runtime: RuntimeConfig) -> Finding:
    """Budgets of the config against the memory there is."""
    limit = memory_of_host()
    budget = runtime.payload_budget + runtime.constructor_budget
    good = budget <= limit // 2
    advice = "" if good else "; lower runtime.payload_budget or runtime.constructor_budget"
    return Finding(
        "ok" if good else "warn",
        "memory",
        f"{show_bytes(limit)}, budgets of one data-parallel group {show_bytes(budget)}{advice}",
    )


def check_folder(folder: Path) -> Finding:
    """Where the indexes go."""
    nearest = folder
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding("fail", "index folder", f"{folder} is not writable; set index_dir")
    space = os.statvfs(nearest)
    free = space.f_bavail * space.f_frsize
    verdict: Literal["ok", "warn"] = "ok" if free > 64 * _MIB else "warn"
    return Finding(verdict, "index folder", f"{folder}, {show_bytes(free)} free")


def check_tokenizer(loaded: LoadedConfig, name: str) -> Finding:
    """Does a worker start with this tokenizer, and do its ids fit the vocabulary?"""
    declared = loaded.config.tokenizers[name]
    what = f"tokenizer {name}"
    if declared.path is None:
        return Finding("ok", what, "built in")
    path = str(loaded.base / declared.path)
    command = [*worker_command(), path, str(int(declared.add_special_tokens))]
    try:
        answer = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("fail", what, f"its worker does not start: {error}")
    magic, text = answer.stdout[:4], _text_frame(answer.stdout)
    if magic != HELLO:
        return Finding("fail", what, text or answer.stderr.decode(errors="replace").strip()[-300:])
    version, digest, ids = text.split("\n")
    size, vocabulary = int(ids), loaded.config.vocabulary
    if size > vocabulary:
        return Finding("fail", what, f"has {size} ids, more than vocabulary: {vocabulary}")
    return Finding("ok", what, f"{size} ids, tokenizers {version}, digest {digest[:12]}")


def check_indexes(loaded: LoadedConfig) -> list[Finding]:
    """What the indexes of the training stream know, against the config."""
    try:
        from overlord._src.checkup.preflight import index_findings
    except ImportError:
        return []  # check_native says why
    return [*index_findings(loaded)]


def _text_frame(data: bytes) -> str:
    if len(data) < 8:
        return ""
    (length,) = struct.unpack("<I", data[4:8])
    return data[8 : 8 + length].decode(errors="replace")
