"""CSV and TSV with a header: the first records of some files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from overlord._src.look.found import ROWS_LOOKED_AT, SAMPLE_BYTES, Found, NotReadable, Sample
from overlord._src.look.groups import groups_of
from overlord._src.look.json_files import unpacked
from overlord._src.look.media_fields import find_media
from overlord._src.look.parquet_files import sample_files
from overlord._src.look.places import File, Listing, Place

SUFFIXES = tuple(end + coding for end in (".csv", ".tsv") for coding in ("", ".gz", ".zst"))


def csv_files(listing: Listing) -> Iterator[Found]:
    """Each group of tables."""
    for one in groups_of(listing, SUFFIXES):
        found = Found("CSV", one.name, one.patterns, one.files, Sample())
        sample_files(listing.place, found, _look_at)
        find_media(listing, found)
        yield found


def _look_at(place: Place, file: File, sample: Sample) -> None:
    import pyarrow as pa

    raw, stream = unpacked(place, file)
    try:
        data = stream.read(SAMPLE_BYTES)
        more = bool(stream.read(1))
    except (pa.ArrowException, OSError) as error:
        raise NotReadable(str(error).splitlines()[0][:200]) from None
    if more:
        data = data[: data.rfind(b"\n") + 1]
    text = io.StringIO(data.decode("utf-8-sig", errors="replace"), newline="")
    delimiter = "\t" if ".tsv" in file.name.lower() else ","
    kept = 0
    try:
        for row in csv.DictReader(text, delimiter=delimiter):
            sample.seen_rows += 1
            if kept < ROWS_LOOKED_AT:
                cells = {name: value for name, value in row.items() if isinstance(name, str)}
                sample.rows.append({name: value or None for name, value in cells.items()})
                kept += 1
    except csv.Error as error:
        sample.faults.append(f"{file.name}: {error}")
    passed = len(data) if raw is stream else max(1, int(raw.tell()))
    sample.seen_bytes += passed if more else file.size
