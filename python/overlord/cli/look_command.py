"""`overlord look WHAT`: what is this, and how is it read? Reads a little of it, writes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "what", metavar="WHAT", help="a file, a folder, a pattern, or one of these in a store"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="FILE",
        type=Path,
        default=None,
        help="a tokenizer.json: lengths in tokens, and the config that uses it",
    )
    parser.add_argument(
        "--samples", metavar="N", type=int, default=2, help="rows to show of each (default 2)"
    )
    parser.add_argument(
        "--html", metavar="FILE", type=Path, default=None, help="write a page, with thumbnails"
    )
    parser.add_argument("--yaml", action="store_true", help="print the part of a config alone")


def run(options: argparse.Namespace) -> int:
    """Say what was found; 1 where nothing is known."""
    from overlord._src.look.describe import look_at
    from overlord._src.look.page import write_page
    from overlord._src.look.places import open_place
    from overlord._src.look.told import config_text, left_aside
    from overlord.cli.terminal import make_console

    listing = open_place(options.what)
    everything, rest = look_at(listing, options.tokenizer)
    readable = [found for found in everything if found.readable]
    console = make_console()
    if not options.yaml:
        for found in everything:
            _show(console, found, options.samples)
        _say(console, left_aside(listing, rest))
        if not everything:
            _say(console, _unknown(listing))
        console.print(f"read {listing.place.read_bytes:,} bytes of {_all_bytes(listing):,}")
    if readable:
        if not options.yaml:
            console.print("\n# into the config")
        console.print(config_text(readable), markup=False, end="")
    if options.html is not None:
        write_page(options.html, options.what, listing, everything, rest)
        console.print(f"wrote {options.html}", markup=False)
    return 0 if readable else 1


def _all_bytes(listing: Any) -> int:
    return sum(file.size for file in listing.files)


def _unknown(listing: Any) -> list[str]:
    """Words for a thing of no layout that is known: what was found, and what would be known."""
    from overlord._src.look.layouts import LAYOUTS

    what = f"nothing that is known among {len(listing.files):,} files"
    return [what, *_begins(listing), f"known: {', '.join(LAYOUTS)}"]


def _begins(listing: Any) -> list[str]:
    file = next((file for file in listing.files if file.size), None)
    if file is None:
        return ["all of them are empty"] if listing.files else ["the folder is empty"]
    return [f"{file.name} begins with {listing.place.read(file, 0, 32)!r}"]


def _say(console: Any, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False)


def _show(console: Any, found: Any, samples: int) -> None:
    from overlord._src.look.found import shorten
    from overlord._src.look.told import facts, histograms
    from overlord._src.showing.histogram import ROW_HEADINGS, histogram_row
    from overlord.cli.terminal import print_rows

    _say(console, [f"{found.name}: {facts(found)}"])
    rows = [
        (one.name, one.type, f"{one.filled}/{one.rows}", shorten(one.values[0], 60))
        if one.values
        else (one.name, one.type, f"0/{one.rows}", "")
        for one in found.sample.columns()
    ]
    print_rows(console, rows, "column", "type", ("filled", "right"), "first")
    if measured := histograms(found):
        words = ("of", "unit", "spread")
        headings = [name if name in words else (name, "right") for name in ROW_HEADINGS]
        print_rows(console, [histogram_row(one) for one in measured], *headings)
    for number, row in enumerate(found.sample.rows[: max(0, samples)]):
        _say(console, [f"row {number}:"])
        _say(console, [f"  {name}: {shorten(value, 400)}" for name, value in row.items()])
    _say(console, [f"note: {note}" for note in [*found.sample.faults, *found.notes]])
    console.print()
