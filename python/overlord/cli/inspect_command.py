"""`overlord inspect CONFIG`: sources, a sample, a step, or a rank's batch, in readable form."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from overlord.cli import arguments
from overlord.cli.inspect_media import show_batch, show_histograms, show_stored_media
from overlord.cli.inspect_profile import print_summary, show_profiles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    arguments.add_config(parser, overrides=False)
    arguments.add_mesh(parser)
    what = parser.add_subparsers(dest="what", metavar="WHAT")
    what.add_parser("sources", help="every source: files, rows, mixture (the default)")
    sample = what.add_parser("sample", help="one row of a source")
    sample.add_argument("source", metavar="SOURCE")
    sample.add_argument("row", metavar="ROW", type=int)
    step = what.add_parser("step", help="the documents of a step")
    step.add_argument("step", metavar="N", type=int)
    rank = what.add_parser("rank", help="the batch of a rank")
    rank.add_argument("rank", metavar="R", type=int)
    rank.add_argument("--step", type=int, default=0)
    histograms = what.add_parser(
        "histograms", help="lengths, sizes and durations that the indexes know"
    )
    profile = what.add_parser("profile", help="what sources cost in the last run, by stage")
    profile.add_argument("--json", action="store_true", help="print it as JSON")
    for command, text in (
        (sample, "write the row's media there, as stored"),
        (rank, "write a page to look at there"),
        (histograms, "write them as a page there"),
    ):
        command.add_argument("--out", metavar="DIR", type=Path, default=None, help=text)
    for command in (step, rank):
        command.add_argument(
            "--limit", type=int, default=24, help="most documents to list (default 24)"
        )


def run(options: argparse.Namespace) -> int:
    """Show what was asked for."""
    from overlord.cli.terminal import make_console

    job = arguments.load_job(options)
    console = make_console()
    show = {
        None: _sources,
        "sources": _sources,
        "sample": _sample,
        "step": _step,
        "rank": _rank,
        "histograms": show_histograms,
        "profile": show_profiles,
    }
    show[options.what](console, job, options)
    return 0


def _sources(console: Any, job: Any, options: argparse.Namespace) -> None:
    from overlord._src.config.chat import row_form
    from overlord._src.config.columns import base_name
    from overlord._src.config.weights import stage_lines
    from overlord._src.index.source_profile import read_profiles
    from overlord.cli.terminal import print_rows, right, show_count, show_size

    opened = job.open_stream(options.stream)
    rows = []
    for source, info in zip(opened.sources, opened.infos, strict=True):
        size = sum(shard["size_bytes"] for shard in info["shards"])
        config = job.config.sources[base_name(source.name)]
        column = row_form(config)
        rows.append(
            (
                source.name,
                str(source.format).split(".")[-1],
                len(info["shards"]),
                show_size(size),
                show_count(info["rows"]),
                show_count(info["tokens"]) if info["has_lengths"] else "-",
                column,
                config.tokenizer or "-",
                config.shuffle,
                opened.resolved.at_end[source.name],
            )
        )
    console.print(
        f"job {job.config.job!r}, stream {options.stream!r}: "
        f"config {opened.native.config_digest}, manifest {opened.native.manifest_digest}"
    )
    numbers = right("files", "size", "rows", "tokens")
    words = ("column", "tokenizer", "shuffle", "at end")
    print_rows(console, rows, "source", "format", *numbers, *words)
    for line in stage_lines(opened.resolved.mixture, transitions=False):
        console.print(line)
    profiles = read_profiles(job.loaded, opened.sources)
    if profiles:
        console.print()
        print_summary(console, profiles.values())


def _source_number(opened: Any, name: str) -> int:
    from overlord._src.config.refusals import unknown_name

    names: list[str] = opened.source_names
    if name not in names:
        raise unknown_name(("source",), "no such source in this stream", name, names)
    return names.index(name)


def _sample(console: Any, job: Any, options: argparse.Namespace) -> None:
    from overlord._src.plan_view.readable import make_decoder, show_loss, show_tokens
    from overlord._workers.tokenizer_worker import worker_command

    opened = job.open_stream(options.stream)
    number = _source_number(opened, options.source)
    row = opened.native.read_row(number, options.row, worker_command())
    console.print(
        f"source {options.source}, row {options.row}: row {row['row_in_shard']} of {row['shard']}"
    )
    if row["bad"]:
        console.print(f"bad: {row['bad']}")
        return
    if row["text"] is not None:
        console.print("text: " + row["text"][:2000], markup=False)
    tokens = list(row["tokens"])
    console.print(f"{len(tokens)} tokens: " + show_tokens(tokens, None, 400), markup=False)
    decoder = make_decoder(job.loaded, options.source)
    if decoder is not None and row["mask"] is not None:
        carried = sum(row["mask"])
        console.print(f"{carried} of {len(tokens)} tokens carry loss, marked ⟦so⟧:")
        console.print(show_loss(tokens, row["mask"], decoder), markup=False, highlight=False)
    elif decoder is not None:
        console.print("decoded: " + show_tokens(tokens, decoder, 400), markup=False)
    show_stored_media(console, job, opened, number, options)


def _step(console: Any, job: Any, options: argparse.Namespace) -> None:
    from overlord._src.plan_view.readable import plan_data, planned_step
    from overlord._src.plan_view.report import told
    from overlord.cli.plan_command import print_plan, print_report

    opened = job.open_stream(options.stream)
    step = planned_step(opened, options.step)
    data = plan_data(opened, step)
    print_plan(console, data)
    print_report(console, step, told(job, opened, step))
    segments = [
        (f"{item['bin']}", segment) for item in data["bins"] for segment in item["segments"]
    ][: options.limit]
    _print_documents(console, job, opened, segments)


def _print_documents(
    console: Any, job: Any, opened: Any, segments: list[tuple[str, dict[str, Any]]]
) -> None:
    """Documents with their file, row and beginning."""
    from overlord._src.plan_view.readable import make_decoder, show_tokens
    from overlord._workers.tokenizer_worker import worker_command
    from overlord.cli.terminal import print_rows, right

    decoders = {name: make_decoder(job.loaded, name) for name in opened.source_names}
    rows = []
    for place, segment in segments:
        number = opened.source_names.index(segment["source"])
        where = opened.native.locate(number, segment["pass"], segment["position"])
        content = opened.native.read_row(number, where["row"], worker_command())
        tokens = list(content["tokens"])[segment["first"] : segment["first"] + segment["count"]]
        file = where["shard"].rsplit("/", 1)[-1]
        rows.append(
            (
                place,
                segment["source"],
                f"{file}:{where['row_in_shard']}",
                f"{segment['first']}+{segment['count']}",
                show_tokens(tokens, decoders[segment["source"]], 64),
            )
        )
    first, count = right("sequence", "first+count")
    print_rows(console, rows, first, "source", "file:row", count, "begins with")


def _rank(console: Any, job: Any, options: argparse.Namespace) -> None:
    from overlord._src.native import core
    from overlord._src.plan_view.readable import plan_of
    from overlord._src.state.saved_state import build_state

    job.mesh.check_rank(options.rank)
    opened = job.open_stream(options.stream)
    _, before = plan_of(opened, options.step)
    hosted = "all" if opened.functions else [options.rank]  # functions are asked for all ranks
    with job.stream(options.stream, ranks=hosted, prefetch=1) as loaders:
        if before is not None:
            loaders.load_state_dict(
                build_state(before, core.describe_state(before), job.config.job)
            )
        batches = next(loaders[options.rank].steps())
    place = ", ".join(
        f"{axis}={job.mesh.coordinate(options.rank, axis)}" for axis, _ in job.mesh.axes
    )
    console.print(
        f"rank {options.rank} ({place}), step {options.step}: {len(batches)} microbatches"
    )
    if options.out is not None:
        show_batch(console, job, opened, options, place, batches)
        return
    shown: list[tuple[str, dict[str, Any]]] = []
    for batch in batches:
        console.print(f"  {batch!r}", markup=False)
        console.print(
            f"    {batch.num_docs} documents, longest {batch.max_seqlen}, fill {batch.fill:.4f}, "
            f"{batch.target_tokens} of the step's {batch.step_target_tokens} targets"
        )
        for media in batch.media.values():
            console.print(f"    {media!r}", markup=False)
        for name, array in batch.arrays().items():
            flat = array.reshape(-1)
            console.print(
                f"    {name}: {' '.join(str(value) for value in flat[:12].tolist())} ...",
                markup=False,
            )
        for row in batch.lineage().tolist():
            names = ("source", "pass", "position", "first", "count")
            segment = dict(zip(names, row, strict=False))
            shown.append(
                (f"{batch.microbatch}.{row[5]}", {**segment, "source": opened.source_names[row[0]]})
            )
    _print_documents(console, job, opened, shown[: options.limit])
