"""Megatron's .bin with its .idx beside it: documents by the header, lengths of some of them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

import numpy as np

from overlord._src.look.found import MEGATRON, ROWS_LOOKED_AT, Found, NotReadable, Sample
from overlord._src.look.groups import group
from overlord._src.look.parquet_files import sample_files
from overlord._src.look.places import File, Listing, Place

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<QBQQ")
_TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}


def megatron_files(listing: Listing) -> Iterator[Found]:
    """Each group of .bin files that have their .idx."""
    pairs = {
        file: companion
        for file in listing.ending([".bin"])
        if (companion := listing.find(_companion(file))) is not None
        and listing.place.read(companion, 0, len(_MAGIC)) == _MAGIC
    }

    def look(place: Place, file: File, sample: Sample) -> None:
        _look_at(place, file, pairs[file], sample)

    for one in group(listing, list(pairs)):
        found = Found(MEGATRON, one.name, one.patterns, one.files, Sample())
        found.beside = [pairs[file] for file in one.files]
        sample_files(listing.place, found, look)
        found.text = "tokens"
        yield found


def _companion(file: File) -> str:
    return file.uri.removesuffix(".bin") + ".idx"


def _look_at(place: Place, file: File, index: File, sample: Sample) -> None:
    head = len(_MAGIC) + _HEADER.size
    data = place.read(index, 0, head)
    if len(data) < head:
        raise NotReadable("its .idx is cut")
    version, code, sequences, ends = _HEADER.unpack_from(data, len(_MAGIC))
    if version != 1 or code not in _TYPES or index.size < head + 12 * sequences + 8 * ends:
        raise NotReadable(f"its .idx has version {version}, type {code} and {sequences} sequences")
    kind = np.dtype(_TYPES[code])
    documents = max(0, ends - 1)
    sample.known_rows = (sample.known_rows or 0) + documents
    sample.types["tokens"] = f"list of {kind.name}"
    some = min(documents, ROWS_LOOKED_AT)
    bounds = np.frombuffer(place.read(index, head + 12 * sequences, 8 * (some + 1)), "<i8")
    lengths = np.frombuffer(place.read(index, head, 4 * int(bounds.max(initial=0))), "<i4")
    at = 0
    for first, end in itertools.pairwise(bounds):
        count = int(lengths[first:end].sum())
        shown = place.read(file, at * kind.itemsize, min(count, 4096) * kind.itemsize)
        sample.rows.append({"tokens": np.frombuffer(shown, kind).tolist(), "length": count})
        at += count
