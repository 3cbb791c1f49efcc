"""Parquet files: rows from their footers, a few of them read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from overlord._src.look.found import (
    ROWS_LOOKED_AT,
    SAMPLE_BYTES,
    Found,
    NotReadable,
    Sample,
    count_rows,
    some_of,
)
from overlord._src.look.groups import groups_of
from overlord._src.look.media_fields import find_media
from overlord._src.look.places import File, Listing, Place

SUFFIXES = (".parquet", ".pq")


def parquet_files(listing: Listing) -> Iterator[Found]:
    """Each group of Parquet files."""
    for one in groups_of(listing, SUFFIXES):
        found = Found("Parquet", one.name, one.patterns, one.files, Sample())
        sample_files(listing.place, found, _look_at)
        find_media(listing, found)
        yield found


def sample_files(place: Place, found: Found, look: Any) -> None:
    """Look at some files of a source; what one of them cannot give is a fault, not an end."""
    for file in some_of(found.files):
        try:
            look(place, file, found.sample)
        except NotReadable as error:
            found.sample.faults.append(f"{file.name}: {error}")
        found.sample.files += 1
    count_rows(found)


def _look_at(place: Place, file: File, sample: Sample) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Pages as they are needed: a row group may have a gigabyte of pictures.
        with pq.ParquetFile(place.open(file), buffer_size=1 << 18, pre_buffer=False) as opened:
            metadata, schema = opened.metadata, opened.schema_arrow
            sample.known_rows = (sample.known_rows or 0) + metadata.num_rows
            take_types(sample, schema)
            each = max(1, file.size // max(1, metadata.num_rows))
            wanted = max(1, min(ROWS_LOOKED_AT, SAMPLE_BYTES // each))
            batch = next(opened.iter_batches(batch_size=wanted), None)
            if batch is not None:
                sample.rows += batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise NotReadable(str(error).splitlines()[0][:200]) from None


def take_types(sample: Sample, schema: Any) -> None:
    """The types of a file's columns; files whose columns differ cannot be one source."""
    types = {field.name: _in_words(field.type) for field in schema}
    if not sample.types:
        sample.types = types
    elif types != sample.types:
        differ = sorted(set(types.items()) ^ set(sample.types.items()))
        names = list(dict.fromkeys(name for name, _ in differ))
        sample.faults.append(f"files differ in their columns: {', '.join(names[:8])}")


def _in_words(kind: Any) -> str:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return "{" + ", ".join(field.name for field in kind) + "}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {_in_words(kind.value_type)}"
    names = {"string": "text", "large_string": "text", "binary": "bytes", "large_binary": "bytes"}
    return names.get(str(kind), str(kind))
