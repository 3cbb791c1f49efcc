"""`overlord run CONFIG`: reads a stream on all ranks of a mesh, shows it live, gives its hash."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlord._src.errors import refused
from overlord.cli import arguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from overlord._src.job.job import Job, ReadOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    arguments.add_config(parser)
    arguments.add_mesh(parser)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument(
        "--threads", type=int, default=None, help="CPU threads (default: the config's)"
    )
    parser.add_argument(
        "--prefetch", type=int, default=None, help="steps ahead (default: the config's)"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "embedded", "processes", "ray"),
        default="auto",
        help="all roles in this process, in processes that a node starts, or the same led by a "
        "keeper on a Ray cluster (default: auto)",
    )
    parser.add_argument(
        "--loader-hosts",
        type=int,
        default=0,
        metavar="N",
        help="with --engine ray: so many nodes of the cluster give a core to loaders",
    )
    parser.add_argument(
        "--no-live", dest="live", action="store_false", help="lines instead of a live view"
    )
    parser.add_argument(
        "--hash",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="chain the bytes of every batch into the stream hash",
    )
    parser.add_argument(
        "--losses",
        default=None,
        metavar="MODEL",
        help="for a mixture that follows losses: power, power:SOURCE=HEIGHT/SLOPE/FLOOR,..., or "
        "a file of JSON lines with step and losses",
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, default=None, help="write the report there"
    )


def run(options: argparse.Namespace) -> int:
    """Run the stream and report."""
    if options.loader_hosts and options.engine != "ray":
        raise refused(("--loader-hosts",), "is of --engine ray", options.loader_hosts)
    if options.steps is not None and options.steps < 1:
        raise refused(("--steps",), "too small", options.steps, "at least 1")
    with _under_ray(options) if options.engine == "ray" else contextlib.nullcontext():
        return run_job(
            arguments.load_job(options),
            options.stream,
            options.steps,
            live=options.live,
            json_file=options.json,
            losses=options.losses,
            threads=options.threads,
            prefetch=options.prefetch,
            hash=options.hash,
            engine=options.engine,
        )


@contextlib.contextmanager
def _under_ray(options: argparse.Namespace) -> Iterator[None]:
    """The job's keeper in the cluster of this host, or in one of its own."""
    for name in ("settings", "overrides", "seed", "strategy", "functions"):
        if getattr(options, name):
            raise refused(
                (f"--{name.replace('settings', 'set')}",),
                "the actors of the job read the file as it is",
                getattr(options, name),
                advice="write it there",
            )
    import ray

    from overlord import ray as clusters
    from overlord._src.mesh import Mesh
    from overlord.cli.terminal import make_console

    ray.init(log_to_driver=False, ignore_reinit_error=True)
    launched = clusters.launch(
        options.config,
        mesh=Mesh.parse(options.mesh),
        stream=options.stream,
        hash=options.hash,
        loader_hosts=options.loader_hosts,
    )
    try:
        told = launched.status()
        make_console().print(f"the keeper leads at {launched.address}, process {told['pid']}")
        if told["note"]:
            make_console().print(told["note"])
        yield
    finally:
        launched.close()


def run_job(
    job: Job,
    stream: str,
    steps: int | None,
    *,
    live: bool = True,
    json_file: Path | None = None,
    losses: str | None = None,
    **options: Unpack[ReadOptions],
) -> int:
    """Run a stream of a job with a live view, then print and write its report."""
    from overlord._src.config.streams import resolve_stream
    from overlord._src.run.run_loop import RunLoop
    from overlord.cli.index_command import index_missing
    from overlord.cli.live_view import RunView
    from overlord.cli.terminal import make_console

    console = make_console()
    names = resolve_stream(job.config, stream).mixture.source_names()
    index_missing(job.loaded, names, options.get("threads") or job.config.runtime.threads)
    with RunLoop(job, stream, steps, losses=losses, **options) as loop:
        print_start(console, loop)
        interrupted = False
        try:
            with RunView(console, loop, live=live) as view:
                for _ in loop:
                    view.update()
        except KeyboardInterrupt:
            interrupted = True
            console.print(f"stopping after {loop.steps} steps")
        report = loop.report(interrupted)
    print_summary(console, report)
    if json_file is not None:
        json_file.write_text(json.dumps(report, indent=1) + "\n")
    if interrupted:
        raise KeyboardInterrupt
    return 0


def print_start(console: Any, loop: Any) -> None:
    """What will run: shape of a step, mixture as normalised."""
    from overlord._src.config.bins import show_bins
    from overlord._src.config.weights import stage_lines

    resolved, mesh = loop.opened.resolved, loop.job.mesh
    wanted = loop.steps_wanted if loop.steps_wanted is not None else "all"
    console.print(
        f"job {loop.job.config.job!r}: {wanted} steps of {show_bins(resolved.bins_by_step)} x "
        f"{resolved.context} "
        f"tokens on {mesh.text()} ({mesh.world_size} ranks), seed {resolved.seed}"
    )
    for line in stage_lines(resolved.mixture, transitions=True):
        console.print(line)


def print_summary(console: Any, report: dict[str, Any]) -> None:
    """The figures of a run that is over."""
    from overlord.cli.terminal import print_rows, right, show_count, show_seconds, show_size

    rows = [
        (
            name,
            f"{item['asked']:.3%}",
            f"{item['served']:.3%}",
            show_count(int(item["tokens"])),
            show_count(int(item["samples"])),
        )
        for name, item in report["mixture"].items()
    ]
    print_rows(console, rows, "source", *right("asked", "served", "tokens", "documents"))
    if report["weights"]:
        first, last = report["weights"][0], report["weights"][-1]
        moves = ", ".join(
            f"{name} {first['shares'][name]:.2%} -> {share:.2%}"
            for name, share in last["shares"].items()
        )
        console.print(
            f"weights of step {first['step']} to {last['step']}: {moves}", highlight=False
        )
    for row in report["quarantine"][:10]:
        console.print(f"quarantined: source {row['source']}, row {row['row']}: {row['reason']}")
    facts = [
        (
            "steps",
            f"{report['steps']} in {show_seconds(report['wall_s'])}, "
            f"{report['steps_per_s']:.1f} a second",
        ),
        (
            "tokens",
            f"{show_count(report['tokens'])}, {show_count(report['tokens_per_s'])} a second",
        ),
        ("fill", f"{report['fill']:.4f}"),
        (
            "delay",
            f"{report['delay']['waited']:.2%} of the segments waited, "
            f"{report['delay']['mean_steps']:.2f} steps on average, "
            f"{report['delay']['max_steps']} at most",
        ),
        ("memory", f"{show_size(report['peak_rss_bytes'])} at most"),
        ("content hash", report["content_hash"]),
        ("stream hash", report["stream_hash"] or "not computed (--no-hash)"),
    ]
    print_rows(console, facts, "", "")
