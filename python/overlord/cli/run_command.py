"""`overlord run CONFIG`: reads a stream on all ranks of a mesh, shows it live, gives its hash."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlord.cli import arguments

if TYPE_CHECKING:
    from overlord._src.job import Job


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
        choices=("auto", "embedded", "processes"),
        default="auto",
        help="all roles in this process, or in processes that a node starts (default: auto)",
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
    from overlord._src.errors import ConfigError, Problem

    if options.steps is not None and options.steps < 1:
        raise ConfigError(Problem(("--steps",), "too small", options.steps, "at least 1"))
    return run_job(
        arguments.load_job(options),
        stream=options.stream,
        steps=options.steps,
        threads=options.threads,
        prefetch=options.prefetch,
        live=options.live,
        hash_batches=options.hash,
        json_file=options.json,
        losses=options.losses,
        engine=options.engine,
    )


def run_job(
    job: Job,
    *,
    stream: str = "train",
    steps: int | None = None,
    threads: int | None = None,
    prefetch: int | None = None,
    live: bool = True,
    hash_batches: bool = True,
    json_file: Path | None = None,
    losses: str | None = None,
    engine: str = "auto",
) -> int:
    """Run a stream of a job with a live view, then print and write its report."""
    from overlord._src.config.streams import resolve_stream
    from overlord._src.run_loop import RunLoop
    from overlord.cli.index_command import index_missing
    from overlord.cli.live_view import RunView
    from overlord.cli.terminal import make_console

    console = make_console()
    names = resolve_stream(job.config, stream).mixture.source_names()
    index_missing(job.loaded, names, threads or job.config.runtime.threads)
    with RunLoop(
        job,
        stream,
        steps,
        threads=threads,
        prefetch=prefetch,
        hash_batches=hash_batches,
        losses=losses,
        engine=engine,
    ) as loop:
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
    from overlord._src.config.schedule import stage_shares
    from overlord._src.config.weights import show_steps

    resolved, mesh = loop.opened.resolved, loop.job.mesh
    wanted = loop.steps_wanted if loop.steps_wanted is not None else "all"
    console.print(
        f"job {loop.job.config.job!r}: {wanted} steps of {resolved.bins} x {resolved.context} "
        f"tokens on {mesh.text()} ({mesh.world_size} ranks), seed {resolved.seed}"
    )
    for stage in resolved.mixture.stage_list():
        shares = ", ".join(
            f"{name} {float(ratio):.2%}"
            for name, ratio in stage_shares(resolved.mixture, stage).items()
        )
        how = (
            f", {stage.transition} over {stage.transition_steps} steps" if stage.transition else ""
        )
        console.print(
            f"mixture by {resolved.mixture.unit}, {show_steps(*stage.steps)}{how}: {shares}"
        )


def print_summary(console: Any, report: dict[str, Any]) -> None:
    """The figures of a run that is over."""
    from overlord.cli.terminal import add_rows, make_table, show_count, show_seconds, show_size

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
    console.print(
        add_rows(
            make_table(
                "source",
                ("asked", "right"),
                ("served", "right"),
                ("tokens", "right"),
                ("documents", "right"),
            ),
            rows,
        )
    )
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
    console.print(add_rows(make_table("", ""), facts))
