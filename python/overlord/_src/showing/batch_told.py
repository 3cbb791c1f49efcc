"""A rank's batches taken apart for people: documents as text with media in place, and the media."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from overlord._src.batch.microbatch import HOLE
from overlord._src.config.columns import base_name
from overlord._src.index.indexing import index_path
from overlord._src.native import core
from overlord._src.plan_view.readable import Decoder, make_decoder
from overlord._src.showing.pixels import Pixels, pictures_of
from overlord._workers.tokenizer_worker import worker_command

_LETTERS = 6000  # most of a text that is kept
ELSEWHERE = -1  # the place of placeholders that another rank has
_NUMBERS = 48  # most of a document's ids, where there is no text


@dataclass
class Item:
    """One item of media as it arrived."""

    field: str
    kind: str  # image, audio or video
    grid: tuple[int, int, int]  # as grid_thw has it; of a sound: chunks, frames, real frames
    tokens: int
    first: int  # place of its first placeholder in the microbatch
    rows: Any  # None: this rank gets no data
    chain: str
    document: Document
    number: int = 0  # among the items of its field in the document

    def placed(self) -> str:
        """What stands in a text for its placeholders."""
        times, high, wide = self.grid
        shape = f"{wide}x{high}" + (f"x{times}" if times > 1 else "")
        if self.kind == "audio":
            shape = f"{wide:,} {'frames' if 'log_mel' in self.chain else 'samples'}"
        if self.first == ELSEWHERE:
            return f"[{self.field} {shape}]"
        return f"[{self.field} {shape} -> {self.tokens} tokens]"

    def pictures(self) -> list[Pixels]:
        """The item as the model sees it; nothing where the data is not here."""
        if self.rows is None or self.kind == "audio":
            return []
        return pictures_of(self.rows, self.grid, self.chain)


@dataclass
class Document:
    """One segment of a microbatch."""

    source: str
    number: int  # pass
    position: int
    first: int
    count: int
    microbatch: int
    row: int  # of the microbatch
    begin: int  # place in its row
    loss: int | None  # tokens that carry loss; None: not known to this rank
    hole: bool
    file: str = ""
    file_row: int = 0
    source_row: int = 0
    parts: list[str | Item] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its sample id."""
        return f"{self.source} {self.number}:{self.position}"

    def items(self) -> list[Item]:
        """Its media."""
        return [part for part in self.parts if isinstance(part, Item)]

    def text(self) -> str:
        """Its text without media."""
        return " ".join("".join(p for p in self.parts if isinstance(p, str)).split())

    def folded(self) -> str:
        """Its text with one mark for each run of placeholders."""
        texts = (part if isinstance(part, str) else f" {part.placed()} " for part in self.parts)
        return " ".join("".join(texts).split())


class BatchReader:
    """Takes microbatches of one rank apart."""

    def __init__(self, job: Any, opened: Any) -> None:
        self._job, self._opened = job, opened
        self._decoders: dict[str, Decoder | None] = {}

    def documents(self, batches: Sequence[Any]) -> list[Document]:
        """All documents of the microbatches, with text and media."""
        return [document for batch in batches for document in self._of_batch(batch)]

    def stored_media(self, document: Document) -> dict[str, Any]:
        """The blobs of a document's row, as the files have them."""
        number = self._opened.source_names.index(document.source)
        source = self._opened.sources[number]
        path = index_path(self._job.loaded, source)
        return core.read_media(str(path), source, document.source_row)

    def _of_batch(self, batch: Any) -> list[Document]:
        lineage = batch.lineage()
        real, padded = np.asarray(batch.cu_seqlens), np.asarray(batch.cu_seqlens_padded)
        begins = padded[:-1][np.diff(real) > 0]
        context = self._job.config.context
        whole = batch.tokens is not None and batch.tokens.size == padded[-1]
        weights = batch.loss_weights
        weights = weights.reshape(-1) if weights is not None and whole else None
        documents = []
        for row, begin in zip(lineage, begins.tolist(), strict=True):
            count = int(row["count"])
            document = Document(
                self._opened.source_names[row["source"]],
                int(row["pass"]),
                int(row["position"]),
                int(row["first"]),
                count,
                batch.microbatch,
                begin // context,
                begin % context,
                None if weights is None else int(np.count_nonzero(weights[begin : begin + count])),
                bool(row["flags"] & HOLE),
            )
            documents.append(self._located(document))
        items = self._items(batch, documents)
        for document, begin in zip(documents, begins.tolist(), strict=True):
            mine = sorted(items.get(id(document), []), key=lambda item: item.first)
            if whole:
                tokens = batch.tokens.reshape(-1)[begin : begin + document.count]
                document.parts = self._parts(document, tokens, begin, mine)
            else:
                document.parts = [*mine, self._stored_text(document)]
        return documents

    def _located(self, document: Document) -> Document:
        number = self._opened.source_names.index(document.source)
        where = self._opened.native.locate(number, document.number, document.position)
        document.file = where["shard"].rsplit("/", 1)[-1]
        document.file_row, document.source_row = where["row_in_shard"], where["row"]
        return document

    def encoded(self, batches: Sequence[Any]) -> list[Item]:
        """What this rank encodes, with the text of documents that other ranks may have."""
        items = []
        for batch in batches:
            for name, media in batch.encoder.media.items() if batch.encoder is not None else ():
                samples = batch.encoder.samples[media.documents]
                for sample, grid, rows in zip(samples, media.grid_thw, media, strict=True):
                    source = self._opened.source_names[sample["source"]]
                    place = (int(sample["pass"]), int(sample["position"]))
                    document = self._located(
                        Document(source, *place, 0, 0, batch.microbatch, 0, 0, None, False)
                    )
                    item = self._item(name, grid.tolist(), (ELSEWHERE, ELSEWHERE), rows, document)
                    document.parts = [item, self._stored_text(document)]
                    items.append(item)
        return items

    def _items(self, batch: Any, documents: list[Document]) -> dict[int, list[Item]]:
        """Items by the identity of their document."""
        found: dict[int, list[Item]] = {}
        for name, media in batch.media.items():
            spans, grids = media.token_spans.tolist(), media.grid_thw.tolist()
            for at, place in enumerate(media.documents.tolist()):
                document = documents[place]
                rows = None if media.data is None else media[at]
                mine = found.setdefault(id(document), [])
                number = sum(item.field == name for item in mine)
                mine.append(self._item(name, grids[at], spans[at], rows, document, number))
        return found

    def _item(
        self,
        name: str,
        grid: Sequence[int],
        span: Sequence[int],
        rows: Any,
        document: Document,
        number: int = 0,
    ) -> Item:
        declared = self._field(document.source, name)
        kind = declared.kind
        shape = (grid[0], grid[1], grid[2])
        chain = _whole_chain(declared)
        tokens = span[1] - span[0]
        return Item(name, kind, shape, tokens, span[0], rows, chain, document, number)

    def _field(self, source: str, name: str) -> Any:
        return self._job.config.sources[base_name(source)].media[name]

    def _decoder(self, source: str) -> Decoder | None:
        if source not in self._decoders:
            self._decoders[source] = make_decoder(self._job.loaded, source)
        return self._decoders[source]

    def _parts(
        self, document: Document, tokens: Any, begin: int, items: list[Item]
    ) -> list[str | Item]:
        """The text between items, and the items."""
        config = self._job.config.sources[base_name(document.source)]
        if document.hole:
            return [*items, "(padding in place of a document that was found bad)"]
        ids = tokens.tolist()
        at = 1 if config.bos is not None and ids[:1] == [config.bos] else 0
        end = len(ids) - (1 if config.eod is not None and ids[-1:] == [config.eod] else 0)
        parts: list[str | Item] = []
        for item in items:
            around = self._field(document.source, item.field).tokens
            first, after = item.first - begin, item.first - begin + item.tokens
            if around is not None and around.before is not None:
                first -= 1
            if around is not None and around.after is not None:
                after += 1
            if around is not None:
                parts.append(self._decoded(document.source, ids[at:first]))
                at = after
            parts.append(item)
        parts.append(self._decoded(document.source, ids[at:end]))
        return [part for part in parts if not isinstance(part, str) or part]

    def _decoded(self, source: str, ids: list[int]) -> str:
        decoder = self._decoder(source)
        if decoder is not None:
            return decoder(ids[:_LETTERS])[:_LETTERS] if ids else ""
        more = " ..." if len(ids) > _NUMBERS else ""
        return " ".join(str(token) for token in ids[:_NUMBERS]) + more

    def _stored_text(self, document: Document) -> str:
        """What the file says, where this rank has a slice of the document only."""
        number = self._opened.source_names.index(document.source)
        row = self._opened.native.read_row(number, document.source_row, worker_command())
        if row["text"] is not None:
            return str(row["text"])[:_LETTERS]
        return self._decoded(document.source, list(row["tokens"]))


def _whole_chain(declared: Any) -> str:
    """A field's transform with every option named."""
    kinds: dict[str, Any] = {
        "image": core.ImageChain,
        "audio": core.AudioChain,
        "video": core.VideoChain,
    }
    text: str = kinds[declared.kind](declared.transform).text
    return text
