"""What a look found as a page: tables, lengths, samples, pictures as thumbnails."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from overlord._src.look.found import Found, media_of_row, shorten
from overlord._src.look.media_bytes import kind_of_name
from overlord._src.look.places import File, Listing
from overlord._src.look.told import config_text, facts, histograms, left_aside
from overlord._src.native import core
from overlord._src.showing import page_parts

_MOST_PICTURES = 48  # of a source
_SIDE = 160
_LETTERS = 600
_MOST_BYTES = 16 << 20  # of a picture beside its row


def write_page(
    path: Path, what: str, listing: Listing, everything: Sequence[Found], rest: Sequence[File]
) -> None:
    """Write the page."""
    parts = [f"<h1>{escape(what)}</h1>"]
    for found in everything:
        parts += _source(listing, found)
    parts += [f'<p class="quiet">{escape(line)}</p>' for line in left_aside(listing, rest)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page_parts.page(what, parts))


def _source(listing: Listing, found: Found) -> list[str]:
    columns = found.sample.columns()
    rows = [
        (one.name, one.type, f"{one.filled} of {one.rows}", shorten(one.values[0], 100))
        if one.values
        else (one.name, one.type, f"0 of {one.rows}", "")
        for one in columns
    ]
    parts = [
        f"<h2>{escape(found.name)}</h2>",
        f'<p class="quiet">{escape(facts(found))}</p>',
        page_parts.table(("column", "type", "filled", "example"), rows, (0, 1, 3)),
        *(f"<p>{escape(note)}</p>" for note in [*found.sample.faults, *found.notes]),
    ]
    if drawn := histograms(found):
        parts.append(page_parts.charts(drawn))
    if pictures := _pictures(listing, found):
        parts.append(f'<div class="cards">{"".join(pictures)}</div>')
    for row in found.sample.rows[:8]:
        lines = "<br>".join(
            f"<b>{escape(name)}</b> {escape(shorten(value, _LETTERS))}"
            for name, value in row.items()
            if value is not None
        )
        parts.append(f'<div class="doc"><p>{lines}</p></div>')
    if found.readable:
        parts.append(f'<pre class="sheet">{escape(config_text([found]))}</pre>')
    return parts


def _pictures(listing: Listing, found: Found) -> list[str]:
    """Thumbnails of the pictures that rows hold or that lie beside them."""
    blobs = [blob for row in found.sample.rows for blob in media_of_row(row)]
    blobs += [
        (file.name, "image", listing.place.read(file, 0, file.size))
        for file in found.named
        if kind_of_name(file.name) == "image" and file.size <= _MOST_BYTES
    ]
    made: list[str] = []
    for name, kind, data in blobs:
        if kind != "image" or len(made) >= _MOST_PICTURES:
            continue
        try:
            told = core.probe_image(data)
            pixels, _ = core.run_image_chain(data, f"orient; resize_short side={_SIDE}")
        except core.OverlordError as error:
            made.append(f"<figure><figcaption>{escape(str(error))}</figcaption></figure>")
            continue
        size = f"{told['width']} x {told['height']}, {told['format']}, {len(data):,} bytes"
        caption = f"<figcaption>{escape(name)}<small>{escape(size)}</small></figcaption>"
        made.append(f"<figure>{page_parts.picture(pixels, name)}{caption}</figure>")
    return made
