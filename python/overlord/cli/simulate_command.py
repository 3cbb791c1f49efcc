"""`overlord simulate`: predicts what strategies do to a job on any mesh, from lengths alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlord._src.errors import refused
from overlord.cli import arguments

if TYPE_CHECKING:
    from overlord._src.mesh import Mesh
    from overlord._src.simulate.simulation import Settings
    from overlord._src.simulate.workloads import Planned

_DEFAULT_STEPS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "config", metavar="CONFIG", nargs="?", help="a job's YAML file: simulate its own steps"
    )
    arguments.add_settings(parser)
    parser.add_argument(
        "--workload",
        metavar="NAME|FILE",
        help="instead of CONFIG: a synthetic workload, or a .parquet file of metadata columns",
    )
    parser.add_argument("--list", action="store_true", help="list workloads, strategies, models")
    parser.add_argument(
        "--mesh", metavar=arguments.MESH_FORM, default="dp=8", help="ranks (default dp=8)"
    )
    parser.add_argument("--stream", default="train", help="which stream of CONFIG (default train)")
    arguments.add_strategy(parser)
    number: dict[str, Any] = {"type": int, "metavar": "N", "default": None}
    parser.add_argument("--steps", **number, help=f"how many steps (default {_DEFAULT_STEPS})")
    parser.add_argument("--global-batch", **number, help="samples or sequences of a step")
    parser.add_argument("--microbatches", **number, help="per group and step (default 2 x pp)")
    parser.add_argument("--context", **number, help="longest sample, in tokens")
    parser.add_argument("--seed", **number, help="seed of the workload (default 0) or of CONFIG")
    parser.add_argument(
        "--atoms", help="what is moved: samples (default), or sequences packed to the context"
    )
    parser.add_argument(
        "--baselines", metavar="NAME,..", help="strategies to compare ours with (default all)"
    )
    parser.add_argument("--model", help="like llama-12b+vit-2b or hidden=4096,layers=32")
    parser.add_argument(
        "--encoder",
        default="before",
        help="when media is encoded: before the backbone (default), or overlapped with it",
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the report there")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write one page with everything")
    parser.add_argument("--svg", metavar="DIR", type=Path, help="write the pictures there")
    parser.add_argument("--png", metavar="DIR", type=Path, help="the same as PNG, by matplotlib")


def run(options: argparse.Namespace) -> int:
    """Simulate, print the tables, write what was asked for."""
    from overlord._src.simulate.report import write_json, write_pictures
    from overlord._src.simulate.simulation import simulate
    from overlord.cli.terminal import make_console

    console = make_console()
    if options.list:
        _print_names(console)
        return 0
    if options.png is not None:  # before the work, not after it
        from overlord._src.simulate.plotting import require_matplotlib

        require_matplotlib()
    settings = read_settings(options)
    with console.status("simulating") as status:
        report = simulate(
            settings,
            lambda done: status.update(f"simulating: step {done} of {settings.steps}"),
        )
    print_report(console, report)
    written: list[Path] = []
    if options.json is not None:
        write_json(report, options.json)
        written.append(options.json)
    if options.html is not None:
        from overlord._src.simulate.page import write_page

        write_page(report, options.html)
        written.append(options.html)
    if options.svg is not None:
        written += write_pictures(report, options.svg)
    if options.png is not None:
        from overlord._src.simulate.plotting import write_pngs

        written += write_pngs(report, options.png)
    for path in written:
        console.print(f"written: {path}")
    return 0


def read_settings(options: argparse.Namespace) -> Settings:
    """What the command line asks for, checked."""
    from overlord._src.mesh import Mesh
    from overlord._src.simulate import own_strategy
    from overlord._src.simulate.costs import parse_model
    from overlord._src.simulate.measures import ENCODER_TIMES
    from overlord._src.simulate.simulation import (
        Settings,
        default_global_batch,
        default_microbatches,
    )
    from overlord._src.simulate.workloads import ATOMS, Planned

    mesh = Mesh.parse(options.mesh)
    encoder_time: Any = _one_of("--encoder", options.encoder, ENCODER_TIMES)
    steps = _at_least("--steps", options.steps, 1, _DEFAULT_STEPS)
    seed = _at_least("--seed", options.seed, 0, 0)
    default_atoms = "samples" if options.config is None else "sequences"
    atoms: Any = _one_of("--atoms", options.atoms or default_atoms, ATOMS)
    model = None if options.model is None else parse_model(options.model)
    microbatches = _at_least("--microbatches", options.microbatches, 1, default_microbatches(mesh))
    context = _at_least("--context", options.context, 16, 0)
    batch = default_global_batch(mesh, microbatches, atoms)
    batch = _at_least("--global-batch", options.global_batch, mesh.data_size, batch)
    strategies = _strategies(options.baselines)
    workload = _workload(options, mesh, steps, seed)
    own_cost = model is None and isinstance(workload, Planned) and workload.has_own_cost
    model = model or parse_model(workload.default_model)
    if options.baselines is None and model.encoder is None:
        strategies = tuple(name for name in strategies if name != "one_owner")  # nothing to own
    if isinstance(workload, Planned):
        steps, batch, context = len(workload.steps), workload.bins, workload.default_context
        _check_bins(workload, mesh)
        if workload.own_steps:
            strategies = (*strategies, own_strategy.NAME)
        if workload.own_atoms == "samples":
            atoms = _one_of("--atoms", options.atoms or "samples", ("samples",))
    return Settings(
        workload,
        mesh,
        model,
        steps,
        batch,
        microbatches if not isinstance(workload, Planned) else _fitting(options, workload, mesh),
        context or workload.default_context,
        atoms,
        strategies,
        encoder_time,
        seed,
        own_cost,
    )


def _fitting(options: argparse.Namespace, workload: Planned, mesh: Mesh) -> int:
    """A job's microbatches: those of its plans, else as asked, else one sequence each."""
    if not workload.own_steps:
        return int(options.microbatches or max(1, workload.bins // mesh.data_size))
    planned = max(step.microbatches for step in workload.own_steps)
    if options.microbatches not in (None, planned):
        raise refused(
            ("--microbatches",),
            "the job's plans say that, where it has a strategy",
            options.microbatches,
            str(planned),
            "override its key instead, like --set delivery.microbatch_size=2",
        )
    return planned


def _check_bins(workload: Any, mesh: Mesh) -> None:
    if workload.bins < mesh.data_size:
        raise refused(
            ("--mesh",),
            f"the job's steps have {workload.bins} sequences, fewer than data-parallel groups",
            mesh.text(),
            f"dp of at most {workload.bins}",
        )


def _workload(options: argparse.Namespace, mesh: Mesh, steps: int, seed: int) -> Any:
    """The workload: a job's own steps, rows of a file, or a synthetic one."""
    from overlord._src.simulate.workloads import WORKLOADS, from_index, from_parquet, synthetic

    if (options.config is None) == (options.workload is None):
        wrong = "nothing to simulate" if options.config is None else "given beside a CONFIG"
        raise refused(
            ("--workload",),
            wrong,
            allowed="either a CONFIG, or --workload with one of "
            f"{', '.join(WORKLOADS)}, or a .parquet file",
        )
    if options.workload is not None:
        _refuse_without_config(options)
        if options.workload.endswith(".parquet"):
            return from_parquet(options.workload)
        return synthetic(options.workload, seed)
    unused = [
        name
        for name, value in (
            ("--global-batch", options.global_batch),
            ("--context", options.context),
        )
        if value is not None
    ]
    if unused:
        raise refused(
            (unused[0],),
            "the job's config says that",
            advice="override its key instead, like --set bins=512 or --set context=8192",
        )
    from overlord._src.mesh import Mesh
    from overlord._src.simulate.own_strategy import moved_atoms

    loaded, functions = arguments.load_declared(options)
    # What a step holds does not depend on the mesh; where sequences go does, if a strategy says.
    placed_on = mesh if moved_atoms(loaded.config.strategy) is not None else Mesh()
    from overlord._src.job.job import Job

    return from_index(Job(loaded, placed_on, None, functions), steps, options.stream)


def _refuse_without_config(options: argparse.Namespace) -> None:
    for option, value in (("--strategy", options.strategy), ("--functions", options.functions)):
        if value is not None:
            raise refused(
                (option,),
                "a strategy is planned over a job's own sequences",
                value,
                "with a CONFIG, not with --workload",
            )


def _strategies(text: str | None) -> tuple[str, ...]:
    from overlord._src.simulate.placing import DEFAULT, STRATEGIES

    if text is None:
        return tuple(STRATEGIES)
    asked = [part.strip() for part in text.split(",") if part.strip()]
    for name in asked:
        _one_of("--baselines", name, tuple(STRATEGIES))
    return tuple(name for name in STRATEGIES if name in (*asked, DEFAULT))


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    from overlord._src.config.refusals import unknown_name

    if value not in allowed:
        raise unknown_name((option,), "unknown value", value, allowed)
    return value


def _at_least(option: str, value: int | None, least: int, default: int) -> int:
    if value is None:
        return default
    if value < least:
        raise refused((option,), "too small", value, f"at least {least}")
    return value


def print_report(console: Any, report: dict[str, Any]) -> None:
    """The tables and the finding."""
    from overlord._src.simulate import report as reports
    from overlord.cli.terminal import print_rows, right

    console.print(f"{reports.setting(report)}, {report['steps']} steps")
    console.print(report["workload"]["description"])
    console.print()
    first, *others = reports.STRATEGY_HEADINGS
    print_rows(console, reports.strategy_rows(report), first, *right(*others))
    console.print()
    console.print(reports.headline(report))
    console.print(reports.limits(report))
    console.print(f"Predicted from lengths, without communication; {_placing_times(report)}.")
    console.print()
    print_rows(console, reports.hop_rows(report), "bytes of a step", *right("all ranks"))
    console.print()
    memory = reports.memory_rows(report)
    print_rows(console, memory, "host memory (assumed sizes)", *right("whole job"))
    loaders = report["loaders"]
    console.print(
        f"loaders needed: {loaders['loaders']} with {loaders['workers']} workers; most for "
        f"{loaders['heaviest_source']}: {loaders['heaviest_source_workers']}"
    )


def _placing_times(report: dict[str, Any]) -> str:
    times = report["measured"]["placing_ms_per_step"]
    return f"placing a step took {times['ours']:,.0f} ms ({report['measured']['balancer']})"


def _print_names(console: Any) -> None:
    from overlord._src.simulate.costs import BACKBONES, ENCODERS, SHAPE_FORM
    from overlord._src.simulate.placing import STRATEGIES
    from overlord._src.simulate.workloads import WORKLOADS
    from overlord.cli.terminal import print_rows, right

    known = [
        (name, item.description, item.default_context, item.default_model)
        for name, item in WORKLOADS.items()
    ]
    print_rows(console, known, "workload", "is", *right("context"), "model")
    console.print()
    described = [(name, item.description) for name, item in STRATEGIES.items()]
    print_rows(console, described, "strategy", "does")
    console.print()
    console.print(
        f"models: {', '.join(BACKBONES)} or {SHAPE_FORM}; encoders: {', '.join(ENCODERS)}"
    )
