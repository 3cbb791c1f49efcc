"""What `overlord inspect` says of media: tables in the terminal, pages and pictures with --out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def show_batch(
    console: Any,
    job: Any,
    opened: Any,
    options: argparse.Namespace,
    place: str,
    batches: Sequence[Any],
) -> None:
    """A step of a rank as files, and what is in them."""
    from overlord._src.showing.batch_page import (
        SUMMARY_HEADINGS,
        Shown,
        summary_rows,
        write_batch,
    )
    from overlord._src.showing.batch_told import BatchReader
    from overlord.cli.terminal import print_rows, right, show_size

    reader = BatchReader(job, opened)
    shown = Shown(
        job.config.job,
        options.stream,
        options.step,
        options.rank,
        place,
        job.config.context,
        reader.documents(batches),
        reader,
        reader.encoded(batches),
    )
    first, *others = SUMMARY_HEADINGS
    print_rows(console, summary_rows(shown.documents), first, *right(*others))
    path = write_batch(shown, options.out)
    console.print(f"wrote {path} ({show_size(path.stat().st_size)})", markup=False)


def show_histograms(console: Any, job: Any, options: argparse.Namespace) -> None:
    """Lengths, sizes and durations of every source, as far as its index knows them."""
    from overlord._src.showing.histogram import ROW_HEADINGS, histogram_row
    from overlord._src.showing.source_histograms import (
        advice,
        source_histograms,
        write_histograms,
    )
    from overlord.cli.terminal import print_rows

    found = source_histograms(job, job.open_stream(options.stream))
    rows = [histogram_row(one) for histograms in found.values() for one in histograms]
    if rows:
        words = ("of", "unit", "spread")
        headings = [name if name in words else (name, "right") for name in ROW_HEADINGS]
        print_rows(console, rows, *headings)
    without = [name for name, histograms in found.items() if not histograms]
    if without:
        console.print(advice(without), markup=False)
    if options.out is not None:
        path = write_histograms(job.config.job, found, options.out)
        console.print(f"wrote {path}", markup=False)


def show_stored_media(
    console: Any, job: Any, opened: Any, number: int, options: argparse.Namespace
) -> None:
    """The media of a row as its files have it; with --out, the blobs as files too."""
    from overlord._src.index.indexing import index_path
    from overlord._src.native import core
    from overlord.cli.terminal import show_size

    source = opened.sources[number]
    declared = job.config.sources[options.source.split("/")[0]].media
    if not declared:
        return
    stored = core.read_media(str(index_path(job.loaded, source)), source, options.row)
    for name, found in stored.items():
        blobs = found if isinstance(found, list) else [found]
        for at, blob in enumerate(blobs):
            label = f"{name}[{at}]" if len(blobs) > 1 else name
            if blob is None:
                console.print(f"{label}: none", markup=False)
                continue
            kind, facts = _facts(blob, getattr(declared[name], "transform", None))
            console.print(f"{label}: {kind}, {show_size(len(blob))}{facts}", markup=False)
            if options.out is not None:
                options.out.mkdir(parents=True, exist_ok=True)
                path = options.out / f"{options.source}-{options.row}-{name}-{at}.{kind}"
                path.write_bytes(blob)
                console.print(f"wrote {path}", markup=False)


def _facts(blob: bytes, chain: str | None) -> tuple[str, str]:
    """What kind of file a blob is, and what its header and its chain say."""
    from overlord import OverlordError
    from overlord._src.native import core

    try:
        head = core.probe_image(blob)
        facts = f", {head['width']} x {head['height']} pixels"
        if chain is not None:
            planned = core.ImageChain(chain).planned_size(blob)
            facts += f" -> {planned['width']} x {planned['height']}"
            if planned["patches"]:
                facts += f", {planned['patches']} patches, {planned['tokens']} tokens"
        return head["format"], facts
    except OverlordError:
        pass
    try:
        heard = core.probe_audio(blob)
        seconds = heard["milliseconds"] / 1000
        return heard["format"], f", {seconds:.2f} s, {heard['sample_rate']:,} Hz"
    except OverlordError:
        return "bin", ", neither a picture nor a sound that is known"
