"""Metadata of the pieces of a step, as columns: what a planner may know before payload is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """One row per piece. Pieces with the same `atom` are placed together (a packed sequence)."""

    source: Integers  # index into the workload's source names
    text_tokens: Integers
    tokens: Integers  # all that the backbone sees: text and what media became
    images: Integers
    image_patches: Integers
    audio_frames: Integers
    video_frames: Integers
    video_patches: Integers
    bytes: Integers  # as stored: compressed
    atom: Integers  # 0 .. atoms - 1, never falling

    def __len__(self) -> int:
        return len(self.source)

    @property
    def atoms(self) -> int:
        """How many things a placer moves."""
        return int(self.atom[-1]) + 1 if len(self) else 0

    def take(self, index: Any) -> Columns:
        """These rows, in this order; every row is its own atom until they are packed."""
        rows = {name: values[index] for name, values in self.as_dict().items()}
        rows["atom"] = np.arange(len(rows["source"]), dtype=np.int64)
        return Columns(**rows)

    def as_dict(self) -> dict[str, Integers]:
        """Column by name, as cost functions take them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def per_atom(self, values: npt.NDArray[Any]) -> Integers:
        """Sums of a value over the pieces of each atom. Exact below 2**53."""
        summed = np.bincount(self.atom, weights=values, minlength=self.atoms)
        return np.rint(summed).astype(np.int64)


NAMES = tuple(field.name for field in fields(Columns))


def make_columns(rows: int, given: Mapping[str, npt.NDArray[Any]]) -> Columns:
    """Columns with zeros for what is not given. `tokens` defaults to the text."""
    filled = {name: np.zeros(rows, dtype=np.int64) for name in NAMES}
    filled["atom"] = np.arange(rows, dtype=np.int64)
    filled.update({name: np.asarray(values, dtype=np.int64) for name, values in given.items()})
    if "tokens" not in given:
        filled["tokens"] = filled["text_tokens"]
    return Columns(**filled)


def join(parts: Sequence[Columns]) -> Columns:
    """Rows of several, one after another, each its own atom."""
    rows = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in NAMES
        if name != "atom"
    }
    return make_columns(len(rows["source"]), rows)


def cut_to_context(columns: Columns, context: int) -> Columns:
    """No row longer than the context: text is cut into pieces, media is made smaller.

    Media shrinks with the square of a scale, as a picture does that is resized to fit; its stored
    bytes stay, because they are read whole. Text of a row with media is cut off, not continued.
    """
    media = columns.tokens - columns.text_tokens
    has_media = media > 0
    text = np.where(has_media, np.minimum(columns.text_tokens, context // 2), columns.text_tokens)
    allowed = np.where(has_media, context - text, 0)
    shrink = np.where(has_media & (media > allowed), allowed / np.maximum(media, 1), 1.0)

    def shrunk(values: Integers) -> Integers:
        return np.where(shrink < 1.0, np.floor(values * shrink), values).astype(np.int64)

    fitted = replace(
        columns,
        text_tokens=text,
        tokens=text + np.minimum(media, allowed),
        image_patches=shrunk(columns.image_patches),
        audio_frames=shrunk(columns.audio_frames),
        video_patches=shrunk(columns.video_patches),
    )
    pieces = np.where(has_media, 1, np.maximum(1, -(-fitted.tokens // context)))
    if int(pieces.max(initial=1)) == 1:
        return fitted
    row = np.repeat(np.arange(len(fitted)), pieces)
    number = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cut = fitted.take(row)
    split = pieces[row] > 1
    left = np.minimum(context, cut.tokens - number * context)
    share = np.where(split, cut.bytes * left // np.maximum(cut.tokens, 1), cut.bytes)
    tokens = np.where(split, left, cut.tokens)
    text_tokens = np.where(split, left, cut.text_tokens)
    return replace(cut, tokens=tokens, text_tokens=text_tokens, bytes=share)


def pack_in_order(columns: Columns, context: int, sequences: int) -> Columns:
    """Text laid end to end and cut every `context` tokens: the first `sequences` full sequences.

    Atoms are then whole sequences; the documents inside keep their own attention.
    """
    ends = np.cumsum(columns.tokens)
    total = min(int(ends[-1]) // context, sequences) * context
    borders = np.arange(context, total + 1, context, dtype=np.int64)
    stops = np.unique(np.concatenate([ends[ends < total], borders]))
    starts = np.concatenate([[0], stops[:-1]])
    row = np.searchsorted(ends, starts, side="right")
    cut = columns.take(row)
    length = (stops - starts).astype(np.int64)
    share = cut.bytes * length // np.maximum(cut.tokens, 1)
    atom = (starts // context).astype(np.int64)
    return replace(cut, tokens=length, text_tokens=length, bytes=share, atom=atom)
