"""`overlord diff CONFIG`: what differs between two plans: steps, meshes, strategies or configs."""

from __future__ import annotations

import argparse

from overlord._src.errors import refused
from overlord.cli import arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    arguments.add_config(parser)
    arguments.add_mesh(parser)
    parser.add_argument("--step", type=int, default=0, help="which step (default 0)")
    parser.add_argument("--other-step", type=int, default=None, help="compare with this step")
    parser.add_argument("--other-mesh", default=None, help="compare with this mesh, like dp=4,tp=2")
    parser.add_argument("--other", default=None, metavar="CONFIG", help="compare with this config")
    parser.add_argument("--limit", type=int, default=8, help="samples to list (default 8)")


def run(options: argparse.Namespace) -> int:
    """Plan both steps and compare them; exit status 1 when the contents differ."""
    from overlord._src.plan_view.explain import diff_lines
    from overlord._src.plan_view.readable import planned_step
    from overlord.cli.terminal import make_console

    if options.other is None and options.other_mesh is None and options.other_step is None:
        raise refused(
            (), "nothing to compare with", advice="add --other, --other-mesh or --other-step"
        )
    first = planned_step(arguments.load_job(options).open_stream(options.stream), options.step)
    other = argparse.Namespace(**vars(options))
    other.config = options.other or options.config
    other.mesh = options.other_mesh or options.mesh
    step = options.step if options.other_step is None else options.other_step
    second = planned_step(arguments.load_job(other).open_stream(options.stream), step)
    console = make_console()
    for line in diff_lines(first, second, options.limit):
        console.print(line, highlight=False, markup=False)
    return 0 if first.plan.content_hash == second.plan.content_hash else 1
