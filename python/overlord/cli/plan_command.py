"""`overlord plan CONFIG --step N`: what a step holds, for whom, how full, and why."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from overlord._src.errors import refused
from overlord.cli import arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    arguments.add_config(parser)
    arguments.add_mesh(parser)
    parser.add_argument("--step", type=int, default=0, help="which step (default 0)")
    parser.add_argument("--rank", type=int, default=None, help="only what this rank sees")
    parser.add_argument(
        "--bins", type=int, default=8, help="how many sequences to list (default 8)"
    )
    parser.add_argument(
        "--sample", default=None, metavar="SOURCE[PASS:POSITION]", help="why it is where it is"
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="only samples with e.g. image_patches>0 or source=web; all given must hold",
    )
    parser.add_argument("--draw", action="store_true", help="draw the work of every microbatch")
    parser.add_argument("--svg", default=None, metavar="FILE", help="the same drawing as SVG")
    parser.add_argument("--arrow", default=None, metavar="FILE", help="write the plan as Arrow IPC")
    parser.add_argument("--json", action="store_true", help="print the whole plan as JSON")
    parser.add_argument(
        "--placement",
        default=None,
        metavar="CORES",
        help="instead: which host loaders would live on, and why; cores of the lead's host, then "
        "of each other that has ranks, like 16,16; 16:web+code has files of these on its disks",
    )
    parser.add_argument(
        "--cpu-hosts",
        default=None,
        metavar="CORES",
        help="with --placement: cores of each host without ranks, like 24,24",
    )


def run(options: argparse.Namespace) -> int:
    """Plan up to the step and show it."""
    from overlord._src.checkup.preflight import stream_findings
    from overlord._src.plan_view import explain
    from overlord._src.plan_view.readable import encoder_data, plan_data, planned_step
    from overlord._src.plan_view.report import told
    from overlord.cli.terminal import make_console

    if options.step < 0:
        raise refused(("--step",), "too small", options.step, "0 or more")
    job = arguments.load_job(options)
    if options.placement is not None:
        return print_placement(job, options)
    if options.cpu_hosts is not None:
        raise refused(("--cpu-hosts",), "is of --placement", options.cpu_hosts)
    if options.rank is not None:
        job.mesh.check_rank(options.rank)
    opened = job.open_stream(options.stream)
    step = planned_step(opened, options.step)
    plan = step.plan
    data = {**plan_data(opened, step, options.rank), "report": told(job, opened, step)}
    found = stream_findings(job.loaded, opened.resolved, opened.sources, opened.infos)
    data["warnings"] = [finding.detail for finding in found if finding.verdict != "ok"]
    if step.encoder is not None:
        data["encoder"] = encoder_data(step.encoder, step.sources)
    if step.further_reports:
        data["further_reports"] = list(step.further_reports)
    console = make_console()
    write_files(step, options)
    if options.json:
        print(json.dumps(data, indent=1))
        return 0
    if options.sample is not None:
        return print_sample(console, step, options.sample)
    if options.where:
        for line in explain.where_lines(step, options.where):
            console.print(line, highlight=False, markup=False)
        return 0
    print_plan(console, data)
    print_report(console, step, data["report"])
    if options.draw:
        console.print("work of every microbatch (across), by consumer (down):")
        for line in explain.draw_lines(step):
            console.print(line, highlight=False, markup=False)
    if options.rank is None:
        print_places(console, job, plan)
    print_bins(console, data, options.bins)
    for line in data["warnings"]:
        console.print(f"warning: {line}", highlight=False, markup=False)
    return 0


def print_placement(job: Any, options: argparse.Namespace) -> int:
    """Which processes there would be, on which host, and why."""
    from overlord._src.checkup.hosts import decoding_text
    from overlord._src.checkup.node import buckets_of, placement
    from overlord._src.index.source_profile import decode_millicores, loader_millicores
    from overlord._src.native import core
    from overlord.cli.terminal import make_console, print_rows, right

    opened = job.open_stream(options.stream)
    known = [source.name for source in opened.sources]
    near = _hosts("--placement", options.placement, known)
    far = _hosts("--cpu-hosts", options.cpu_hosts, known) if options.cpu_hosts is not None else []
    names = ["lead", *(f"host {number}" for number in range(1, len(near)))]
    hosts = [(name, cores, True, own) for name, (cores, own) in zip(names, near, strict=True)]
    hosts += [
        (f"cpu host {number}", cores, False, own) for number, (cores, own) in enumerate(far, 1)
    ]
    measured = loader_millicores(job.loaded, opened.sources)
    placed = placement(job.loaded, job.mesh, hosts, measured)
    buckets = buckets_of(job.loaded, job.mesh)
    decoding = core.choose_decoding(
        opened.native, hosts, buckets, decode_millicores(job.loaded, opened.sources)
    )
    rows = [
        {
            "process": name,
            "roles": roles,
            "cores": placed["millicores"].get(name, 0) / 1000,
            "host": placed["homes"].get(name, "that of its ranks"),
            "why": placed["home_reasons"].get(name, "constructors stay with their ranks"),
        }
        for name, roles in placed["processes"].items()
    ]
    if options.json:
        told = {"processes": rows, "reasons": placed["reasons"], "decoding": decoding}
        print(json.dumps(told, indent=1))
        return 0
    console = make_console()
    shown = [
        [str(row[key]) for key in ("process", "roles", "cores", "host", "why")] for row in rows
    ]
    print_rows(console, shown, "process", *right("roles", "cores"), "host", "why")
    media = [f"media of {decoding_text(choice)}" for choice in decoding]
    for line in [*placed["reasons"], *media]:
        console.print(line, highlight=False, markup=False)
    return 0


def _hosts(option: str, text: str, known: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Cores of hosts, and sources on their disks, out of `8,24:web+code,24`."""
    hosts = []
    for part in text.split(","):
        cores, _, names = part.strip().partition(":")
        holds = names.split("+") if names else []
        if not cores.isdigit() or int(cores) < 1:
            raise refused((option,), "cannot read it", text, "cores of each host, like 8,24,24")
        strange = [name for name in holds if name not in known]
        if strange:
            raise refused((option,), f"no source {strange[0]!r}", text, ", ".join(known))
        hosts.append((int(cores), holds))
    return hosts


def print_report(console: Any, step: Any, report: dict[str, Any]) -> None:
    """How even the step's work is, what limits it, what would help; delay and debt."""
    from overlord._src.plan_view.explain import report_lines
    from overlord._src.plan_view.report import told_lines

    for line in [*told_lines(report), *report_lines(step)]:
        console.print(line, highlight=False, markup=False)


def write_files(step: Any, options: argparse.Namespace) -> None:
    """The drawing and the table that were asked for."""
    from pathlib import Path

    from overlord._src.plan_view import explain

    if options.svg is not None:
        Path(options.svg).write_text(explain.draw_svg(step))
    if options.arrow is not None:
        import pyarrow as pa

        table = explain.to_arrow(step, options.where)
        with pa.OSFile(options.arrow, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)


def print_sample(console: Any, step: Any, text: str) -> int:
    """A sample's way through the step."""
    from overlord._src.plan_view import explain

    rows = explain.find_sample(step, text)
    if not rows:
        console.print(f"{text} is not in step {step.plan.step}", markup=False)
        return 1
    for row in rows:
        for line in explain.explain_row(step, row):
            console.print(line, highlight=False, markup=False)
    return 0


def print_plan(console: Any, data: dict[str, Any]) -> None:
    """The step as a whole, and why it holds what it holds."""
    from overlord.cli.terminal import print_rows, right, show_count

    console.print(
        f"step {data['step']}{' (the last)' if data['last'] else ''}: "
        f"{show_count(data['tokens'])} tokens in "
        f"{show_count(data['capacity'])} places, fill {data['fill']:.4f}, "
        f"{show_count(data['target_tokens'])} carry loss"
    )
    console.print(
        f"longest wait of a document {data['max_delay']} steps; {data['carried']} documents are "
        f"carried over to later steps"
    )
    console.print(f"content hash {data['content_hash']}  plan hash {data['plan_hash']}")
    counts: dict[str, int] = {}
    for item in data["bins"]:
        for segment in item["segments"]:
            counts[segment["source"]] = counts.get(segment["source"], 0) + 1
    # Nothing is asked of a step that the rest of one document fills: then the weights tell.
    key = "asked" if any(item["asked"] for item in data["mixture"].values()) else "weight"
    asked_total = sum(item[key] for item in data["mixture"].values()) or 1
    served_total = sum(item["served"] for item in data["mixture"].values()) or 1
    rows = [
        (
            name,
            f"{item[key] / asked_total:.2%}",
            f"{item['served'] / served_total:.2%}",
            show_count(item["served"]),
            counts.get(name, 0),
        )
        for name, item in data["mixture"].items()
    ]
    numbers = right(f"asked ({data['unit']})", "served", "tokens", "segments")
    print_rows(console, rows, "source", *numbers)


def print_places(console: Any, job: Any, plan: Any) -> None:
    """Who gets what of the step."""
    from overlord._src.plan_view.readable import field_names
    from overlord.cli.terminal import print_rows, right

    axes = [name for name, _ in job.mesh.axes]
    rows = []
    for rank, view in enumerate(plan.views()):
        part = (
            f"slice {view['slice']} of {view['slices']}"
            if view["share"] == "slice"
            else view["share"]
        )
        place = " ".join(f"{axis}{job.mesh.coordinate(rank, axis)}" for axis in axes)
        rows.append(
            (rank, place, view["bucket"], part, ", ".join(field_names(view["fields"])) or "nothing")
        )
    more = f" and {len(rows) - 32} more ranks" if len(rows) > 32 else ""
    print_rows(console, rows[:32], *right("rank"), "place", *right("group"), "share", "fields")
    if more:
        console.print(more)


def print_bins(console: Any, data: dict[str, Any], limit: int) -> None:
    """The sequences, each with its documents."""
    from overlord.cli.terminal import print_rows, right

    rows = []
    for item in data["bins"][:limit]:
        segments = [
            f"{segment['source']}[{segment['pass']}:{segment['position']}]"
            f"{'+' + str(segment['first']) if segment['first'] else ''} x{segment['count']}"
            for segment in item["segments"]
        ]
        text = "  ".join(segments[:6]) + (
            f"  and {len(segments) - 6} more" if len(segments) > 6 else ""
        )
        rows.append(
            (
                item["bin"],
                item["bucket"],
                item["microbatch"],
                sum(segment["count"] for segment in item["segments"]),
                text or "empty",
            )
        )
    numbers = right("sequence", "group", "microbatch", "tokens")
    print_rows(console, rows, *numbers, "documents: source[pass:position]+first xtokens")
    if len(data["bins"]) > limit:
        console.print(
            f"and {len(data['bins']) - limit} more sequences; --bins N lists them, --json gives all"
        )
