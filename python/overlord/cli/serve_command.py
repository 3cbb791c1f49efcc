"""`overlord serve CONFIG`: the node of this host as a process that trainers attach to."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlord._src.errors import refused
from overlord.cli import arguments

if TYPE_CHECKING:
    from overlord._src.job.job import Job
    from overlord._src.node.process import NodePlan

_LOCK_SECONDS = 10.0  # for the node of a `serve` that was killed to notice, and to end
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # of systemd, Docker and Slurm; of a closed terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    arguments.add_config(parser)
    arguments.add_mesh(parser)
    parser.add_argument(
        "--ranks", default="all", help="ranks of this host, like 0-7 or 0,2,4 (default: all)"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=None,
        help="where trainers find it: job.train(rank, node=DIRECTORY) (default: ./overlord-JOB)",
    )
    parser.add_argument("--hash", action="store_true", help="for trainers that read with hash=True")
    parser.add_argument(
        "--join",
        metavar="HOST:PORT",
        help="give the cores of this host, which has no ranks, to the loaders of the job whose "
        "runtime.wire.planner this is (of several: with commas between)",
    )
    parser.add_argument(
        "--at",
        metavar="HOST:PORT",
        help="where runtime.wire.planner is a list: which of them is this host's, if several are",
    )
    parser.add_argument(
        "--cores",
        type=int,
        default=None,
        help="with --join: how many (default: what runtime.processes.cores_share leaves)",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until told to end, one attempt of the trainers after another."""
    try:
        with _told_to_end():
            _serve(options)
    except _ToldToEnd:
        pass
    return 0


class _ToldToEnd(BaseException):
    """A signal has asked this process to end."""


@contextlib.contextmanager
def _told_to_end() -> Iterator[None]:
    """Signals that ask this process to end raise _ToldToEnd, once.

    The first process of a container gets no signal that it does not handle.
    """
    # What is ignored stays so: nohup.
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]

    def ask(number: int, frame: Any) -> None:
        for other in handled:
            signal.signal(other, signal.SIG_IGN)
        raise _ToldToEnd

    for number in handled:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


def _locked(directory: Any) -> bool:
    """Whether the directory is ours, as soon as an ending node has left it."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while not directory.try_lock():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _serve(options: argparse.Namespace) -> None:
    from overlord._src.functions.mix_rule import rule_of_trainers
    from overlord._src.lowering.strategy import functions_of_trainers
    from overlord._src.native import core
    from overlord._src.node.process import serve_node
    from overlord.cli.terminal import make_console

    if options.cores is not None and options.join is None:
        why = "is of --join; runtime.processes.cores_share says it of a host with ranks"
        raise refused(("--cores",), why, options.cores)
    console = make_console()
    job = arguments.load_job(options, rule_of_trainers, functions_of_trainers)
    ranks = [rank for rank in ranks_of(options.ranks, job.mesh.world_size) if rank in job.readers]
    wire = job.config.runtime.wire
    in_turn = wire.in_turn and options.join is None
    if options.at is not None and not in_turn:
        raise refused(("--at",), "is of a list of addresses in runtime.wire.planner", options.at)
    if options.join is not None:
        plan = _joining_plan(job, options)
    elif in_turn:
        plan = _turn_plan(job, options)
    else:
        plan = dataclasses.replace(job.node_plan(), stays=True)
    job_file = job.served_file(options.stream, ranks, options.hash, may_lack=plan.joins)
    directory = core.SocketDirectory.at(
        str((options.directory or Path(f"overlord-{job.config.job}")).resolve())
    )
    if not _locked(directory):
        raise core.UnavailableError(f"{directory.path}: a node serves there already")
    told = (
        f"serving {len(ranks)} of {job.mesh.world_size} ranks of job {job.config.job!r}; attach "
        f"with job.train(rank, node={directory.path!r}); Ctrl-C or SIGTERM ends it"
    )
    if in_turn:
        addresses = job.lead_of(options.stream).replace(",", ", ")
        told = f"job {job.config.job!r} may be led from here: {addresses}, in turn"
    if plan.joins:
        told = f"job {job.config.job!r} at {options.join} may run its loaders here"
    console.print(told)
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, directory)
        if plan.joins and plan.memory_bytes:
            plan = stack.enter_context(_held_to_memory(plan, console))
        serve_node(
            directory,
            job.agreed_key(options.stream, options.hash),
            job_file,
            plan,
        )


def _remove(directory: Any) -> None:
    from overlord._src.native import core

    with contextlib.suppress(OSError, core.OverlordError):
        if directory.try_lock():
            directory.remove()


@contextlib.contextmanager
def _held_to_memory(plan: NodePlan, console: Any) -> Iterator[NodePlan]:
    """What this process starts meanwhile keeps to its share of the memory, if the kernel helps."""
    from overlord._src.config.field_types import show_bytes
    from overlord._src.node.memory_group import limited_memory

    with limited_memory(plan.memory_bytes) as why:
        held = f"by budgets alone: {why}" if why else "by a control group"
        told = f"memory_share: {show_bytes(plan.memory_bytes)}, kept {held}"
        console.print(told, highlight=False, markup=False)
        yield dataclasses.replace(plan, memory_enforced=not why)


def _turn_plan(job: Job, options: argparse.Namespace) -> NodePlan:
    """Of a host that leads, or stands by for the one that does; it has no ranks."""
    from overlord._src.node.own_address import own_address

    if options.ranks != "all":
        why = "a host of a list in runtime.wire.planner has no ranks, and leads all of the job's"
        raise refused(("--ranks",), why, options.ranks, advice="leave it out")
    if not Path(job.loaded.journal_path).is_dir():
        raise job.loaded.refused(
            ("runtime", "journal"),
            "is not there on this host, which so cannot go on from it",
            job.loaded.journal_path,
            advice="mount the folder that all hosts of runtime.wire.planner share, or make it",
        )
    at = own_address(job.config.runtime.wire.addresses, options.at)
    return job.turn_plan(options.stream, at)


def _joining_plan(job: Job, options: argparse.Namespace) -> NodePlan:
    """Of a host that joins; with the cores that it is to give."""
    from overlord._src.node.limits import counted_cores

    plan = job.joining_plan(options.stream, options.join)
    if options.cores is None:
        return plan
    usable = len(os.sched_getaffinity(0))
    if not 1 <= options.cores <= usable:
        raise refused(("--cores",), "this host does not have them", options.cores, f"1 to {usable}")
    return dataclasses.replace(plan, cores=counted_cores(options.cores))


def ranks_of(text: str, world: int) -> list[int]:
    """Ranks out of `all`, `0-7` or `0,2,4-5`."""
    if text == "all":
        return list(range(world))
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            raise refused(("--ranks",), f"cannot read {part!r}", text, "like 0-7")
        ranks |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    if not ranks or max(ranks) >= world:
        raise refused(("--ranks",), "outside the mesh", text, f"0 to {world - 1}")
    return sorted(ranks)
