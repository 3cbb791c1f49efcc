"""A step of one rank as a page: sequences, pictures, sounds, lengths, texts with media in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from overlord._src.native import core
from overlord._src.showing import page_parts
from overlord._src.showing.batch_told import ELSEWHERE, BatchReader, Document, Item
from overlord._src.showing.histogram import Histogram, histogram, svg_text
from overlord._src.showing.sounds import spectrum_picture, waveform_svg

PAGE = "page.html"
_MOST_ITEMS = 240  # pictures or sounds of a page
_DOCUMENTS_OF_A_SOURCE = 20
_CAPTION_WORDS = 24
_LETTERS = 600  # of a document's text
_HEARD_BYTES = 4 << 20  # of sounds that can be heard, the first ones


@dataclass
class Shown:
    """What the page is about."""

    job: str
    stream: str
    step: int
    rank: int
    place: str  # its coordinates
    context: int
    documents: list[Document]
    reader: BatchReader
    encoded: list[Item] = field(default_factory=list)

    @property
    def title(self) -> str:
        """One line for headings."""
        return f"{self.job}: step {self.step}, rank {self.rank}"

    def items(self, *kinds: str) -> list[Item]:
        """Its media of these kinds."""
        return [
            item for document in self.documents for item in document.items() if item.kind in kinds
        ]


def write_batch(shown: Shown, folder: Path) -> Path:
    """Write the page; its file."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / PAGE
    page.write_text(batch_page(shown))
    return page


def batch_page(shown: Shown) -> str:
    """The whole page."""
    sources = sorted({document.source for document in shown.documents})
    colours = page_parts.source_colours(sources)
    images, sounds = shown.items("image", "video"), shown.items("audio")
    parts = [
        f"<h1>{escape(shown.title)}</h1>",
        f'<p class="quiet">{escape(_facts(shown))}</p>',
        page_parts.table(SUMMARY_HEADINGS, summary_rows(shown.documents)),
        "<h2>Sequences</h2>",
        '<p class="quiet">One bar is one sequence as it is packed. Darker stretches are '
        "placeholders of media; what is blank is padding.</p>",
        _legend(colours),
        _strips(shown, colours),
    ]
    if images:
        parts += [f"<h2>Pictures ({len(images)})</h2>", _pictures(images)]
    encoded = [item for item in shown.encoded if item.kind != "audio"]
    if encoded:
        parts += [
            f"<h2>Pictures that this rank encodes ({len(encoded)})</h2>",
            _pictures(encoded),
        ]
    if sounds:
        parts += [f"<h2>Sounds ({len(sounds)})</h2>", _sounds(shown, sounds)]
    parts += ["<h2>Lengths</h2>", page_parts.charts(lengths_of(shown.documents))]
    parts += [f"<h2>Documents ({len(shown.documents)})</h2>", _documents(shown, colours)]
    return page_parts.page(shown.title, parts)


def lengths_of(documents: Sequence[Document]) -> list[Histogram]:
    """Histograms of tokens by source."""
    by_source: dict[str, list[int]] = {}
    for document in documents:
        by_source.setdefault(document.source, []).append(document.count)
    made = (histogram(name, "tokens", counts) for name, counts in sorted(by_source.items()))
    return [one for one in made if one is not None]


def _facts(shown: Shown) -> str:
    tokens = sum(document.count for document in shown.documents)
    holes = sum(document.hole for document in shown.documents)
    facts = [
        f"stream {shown.stream}",
        shown.place,
        f"{len(shown.documents):,} documents",
        f"{tokens:,} tokens",
        f"sequences of {shown.context:,}",
    ]
    return ", ".join([*facts, *([f"{holes} holes"] if holes else [])])


SUMMARY_HEADINGS = (
    "source",
    "documents",
    "tokens",
    "share",
    "media",
    "placeholders",
    "loss tokens",
)


def summary_rows(documents: Sequence[Document]) -> list[tuple[str, ...]]:
    """Cells of a table of the sources."""
    total = sum(document.count for document in documents) or 1
    rows: list[tuple[str, ...]] = []
    for source in sorted({document.source for document in documents}):
        mine = [document for document in documents if document.source == source]
        items = [item for document in mine for item in document.items()]
        tokens = sum(document.count for document in mine)
        losses = [document.loss for document in mine]
        known = [loss for loss in losses if loss is not None]
        rows.append(
            (
                source,
                f"{len(mine):,}",
                f"{tokens:,}",
                f"{tokens / total:.1%}",
                f"{len(items):,}" if items else "-",
                f"{sum(item.tokens for item in items):,}" if items else "-",
                f"{sum(known):,}" if len(known) == len(losses) else "-",
            )
        )
    return rows


def _legend(colours: dict[str, str]) -> str:
    keys = "".join(
        f'<span class="key" style="background:{colour}"></span>{escape(name)}'
        for name, colour in colours.items()
    )
    return f'<p class="quiet">{keys}</p>'


def _strips(shown: Shown, colours: dict[str, str]) -> str:
    """One bar per sequence."""
    rows: dict[tuple[int, int], list[Document]] = {}
    for document in shown.documents:
        rows.setdefault((document.microbatch, document.row), []).append(document)
    left, width, high, gap = 46, 1100, 20, 6
    scale = (width - left) / shown.context
    parts = [f'<svg class="sheet" viewBox="0 0 {width} {len(rows) * (high + gap)}" role="img">']
    for number, ((microbatch, row), documents) in enumerate(sorted(rows.items())):
        y = number * (high + gap)
        parts.append(svg_text(4, y + 14, f"{microbatch}.{row}"))
        for document in documents:
            colour = colours[document.source]
            begin = left + document.begin * scale
            wide = max(document.count * scale - 0.4, 0.4)
            note = f"{document.name}: {document.count:,} tokens"
            parts.append(
                f'<rect x="{begin:.1f}" y="{y}" width="{wide:.1f}" height="{high}" fill="{colour}" '
                f'opacity="0.75"><title>{escape(note)}</title></rect>'
            )
            for item in document.items():
                at = left + (item.first - document.row * shown.context) * scale
                parts.append(
                    f'<rect x="{at:.1f}" y="{y}" width="{max(item.tokens * scale, 0.6):.1f}" '
                    f'height="{high}" fill="#0b1020" opacity="0.45">'
                    f"<title>{escape(item.placed())}</title></rect>"
                )
    return "\n".join([*parts, "</svg>"])


def item_facts(item: Item) -> list[str]:
    """Short lines that say where an item is from and where it stands."""
    document = item.document
    where = item.placed()[1:-1]
    if item.first == ELSEWHERE:
        return [f"{document.name}  {document.file}:{document.file_row}", where]
    stands = (
        f"microbatch {document.microbatch}, places {item.first} to {item.first + item.tokens - 1}"
    )
    return [f"{document.name}  {document.file}:{document.file_row}", where, stands]


def caption_of(item: Item) -> str:
    """The text that belongs to an item: all of a short one, or what stands right before it."""
    parts = item.document.parts
    at = next(number for number, part in enumerate(parts) if part is item)
    before = parts[at - 1] if at > 0 else ""
    words = item.document.text().split()
    if len(words) > _CAPTION_WORDS and isinstance(before, str) and before.strip():
        return "... " + " ".join(before.split()[-_CAPTION_WORDS // 2 :])
    return " ".join(words[:_CAPTION_WORDS]) + (" ..." if len(words) > _CAPTION_WORDS else "")


def _pictures(items: list[Item]) -> str:
    here = [item for item in items if item.rows is not None]
    cards = []
    for item in here[:_MOST_ITEMS]:
        caption, facts = caption_of(item), item_facts(item)
        looks = "".join(page_parts.picture(pixels, caption) for pixels in item.pictures())
        cards.append(_card(looks, caption, facts))
    away = len(items) - len(here)
    note = f'<p class="quiet">pixels of {away:,} are with other ranks</p>' if away else ""
    gallery = f'<div class="cards">\n{"".join(cards)}\n</div>' if cards else ""
    return gallery + note + _rest(len(here), _MOST_ITEMS)


def _sounds(shown: Shown, items: list[Item]) -> str:
    """Waveforms of the stored sounds, and spectra where they are what arrived."""
    cards = []
    left = _HEARD_BYTES
    for item in items[:_MOST_ITEMS]:
        caption, facts = caption_of(item), item_facts(item)
        looks = []
        stored, spectrum = _stored(shown.reader, item), _spectrum(item)
        if stored is not None:
            heard = core.probe_audio(stored)
            seconds = heard["milliseconds"] / 1000
            looks.append(waveform_svg(core.decode_audio(stored), seconds))
            facts.append(
                f"{heard['format']}, {seconds:.2f} s, {heard['sample_rate']:,} Hz, "
                f"{_channels(heard)}"
            )
        if spectrum is not None:
            drawn = spectrum_picture(spectrum)
            looks.append(page_parts.picture(drawn, f"log-mel of {caption}", "spectrum"))
        if stored is not None and len(stored) <= left:
            left -= len(stored)
            kind = {"mp3": "mpeg"}.get(heard["format"], heard["format"])
            source = page_parts.data_uri(f"audio/{kind}", stored)
            looks.append(f'<audio controls preload="none" src="{source}"></audio>')
        cards.append(_card("".join(looks), caption, facts))
    return f'<div class="cards wide">\n{"".join(cards)}\n</div>' + _rest(len(items), _MOST_ITEMS)


def _channels(heard: dict[str, Any]) -> str:
    count = heard["channels"]
    return {1: "mono", 2: "stereo"}.get(count, f"{count} channels")


def _stored(reader: BatchReader, item: Item) -> bytes | None:
    blob = reader.stored_media(item.document).get(item.field)
    if isinstance(blob, list):
        blob = blob[item.number] if item.number < len(blob) else None
    return blob


def _spectrum(item: Item) -> Any:
    """[mels, frames] of an item, if that is what it is: rows are frames, or spectra of chunks."""
    if item.rows is None or "log_mel" not in item.chain:
        return None
    rows = np.asarray(item.rows)
    return rows.T if rows.ndim == 2 else np.concatenate(list(rows), axis=1)


def _card(look: str, caption: str, facts: Sequence[str]) -> str:
    small = "".join(f"<small>{escape(fact)}</small>" for fact in facts)
    return f"<figure>{look}<figcaption>{escape(caption)}{small}</figcaption></figure>\n"


def _rest(count: int, most: int) -> str:
    return f'<p class="quiet">and {count - most:,} more</p>' if count > most else ""


def _documents(shown: Shown, colours: dict[str, str]) -> str:
    """Those with media first; texts are cut, media stand where their placeholders are."""
    taken: dict[str, int] = {}
    listed = []
    for document in sorted(shown.documents, key=lambda document: not document.items()):
        taken[document.source] = taken.get(document.source, 0) + 1
        if taken[document.source] <= _DOCUMENTS_OF_A_SOURCE:
            listed.append(_document(document, colours[document.source]))
    return "".join(listed) + _rest(len(shown.documents), len(listed))


def _both_ends(text: str, room: int) -> str:
    """A text, or its begin and its end: what stands next to media says most of it."""
    if len(text) <= room:
        return text
    return f"{text[: room * 2 // 3]} ... {text[-room // 3 :]}"


def _document(document: Document, colour: str) -> str:
    loss = "" if document.loss is None else f", {document.loss:,} with loss"
    cut = "" if document.first == 0 else f", from token {document.first:,} on"
    facts = (
        f"{document.name}, {document.file}:{document.file_row}, sequence "
        f"{document.microbatch}.{document.row}, {document.count:,} tokens{loss}{cut}"
    )
    strings = sum(isinstance(part, str) for part in document.parts)
    room = max(_LETTERS // max(strings, 1), 120)
    texts = []
    for part in document.parts:
        if isinstance(part, Item):
            # A single picture is in the gallery already; of several one wants to see the order.
            drawn = part.pictures()[:1] if len(document.items()) > 1 else []
            small = "".join(page_parts.picture(pixels, part.placed()) for pixels in drawn)
            texts.append(f'{small}<span class="chip">{escape(part.placed()[1:-1])}</span> ')
        else:
            texts.append(escape(_both_ends(part, room)))
    return (
        f'<div class="doc" style="--source:{colour}"><small>{escape(facts)}</small>'
        f"<p>{''.join(texts)}</p></div>\n"
    )
