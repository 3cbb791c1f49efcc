"""JSON lines and arrays, plain and compressed: the beginning of some files, row by row."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

from overlord._src.look.found import ROWS_LOOKED_AT, SAMPLE_BYTES, Found, NotReadable, Sample
from overlord._src.look.groups import groups_of
from overlord._src.look.media_fields import find_media
from overlord._src.look.parquet_files import sample_files
from overlord._src.look.places import File, Listing, Place

_ENDS = (".jsonl", ".ndjson", ".json")
_CODINGS = {".gz": "gzip", ".tgz": "gzip", ".zst": "zstd"}
SUFFIXES = tuple(end + coding for end in _ENDS for coding in ("", ".gz", ".zst"))
_ARRAYS = "\0array"  # among the types of a sample, while its files are looked at
_ABOUT = ("dataset_info.json", "state.json", "dataset_dict.json", "index.json", "config.json")


def json_files(listing: Listing) -> Iterator[Found]:
    """Each group of files of JSON lines or arrays."""
    for one in groups_of(_without_descriptions(listing), SUFFIXES):
        found = Found("JSON lines", one.name, one.patterns, one.files, Sample())
        sample_files(listing.place, found, _look_at)
        if _ARRAYS in found.sample.types:
            found.layout = "JSON array"
            del found.sample.types[_ARRAYS]
        find_media(listing, found)
        yield found


def _without_descriptions(listing: Listing) -> Listing:
    """Without what other formats write about themselves."""
    return listing.without(file for file in listing.files if file.name in _ABOUT)


def unpacked(place: Place, file: File) -> tuple[Any, Any]:
    """The file's own bytes, and the stream of what they hold."""
    import pyarrow as pa

    raw = place.open(file)
    coding = next((_CODINGS[end] for end in _CODINGS if file.name.lower().endswith(end)), None)
    if coding is None:
        return raw, raw
    return raw, io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(raw, "r"), coding))


def _look_at(place: Place, file: File, sample: Sample) -> None:
    import pyarrow as pa

    raw, stream = unpacked(place, file)
    kept = taken = 0
    try:
        if _may_be_array(file) and stream.peek(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
            _look_at_array(raw, stream, sample, file)
            return
        for line in iter(lambda: stream.readline(SAMPLE_BYTES + 1), b""):
            taken += len(line)
            if not line.strip():
                continue
            sample.seen_rows += 1
            if kept < ROWS_LOOKED_AT:
                kept += _keep(line, sample, file)
            if taken >= SAMPLE_BYTES:
                sample.seen_bytes += _passed(raw, stream, taken)
                return
        sample.seen_bytes += file.size
    except (pa.ArrowException, OSError) as error:
        raise NotReadable(str(error).splitlines()[0][:200]) from None


def _may_be_array(file: File) -> bool:
    return file.name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".json")


def _look_at_array(raw: Any, stream: Any, sample: Sample, file: File) -> None:
    """Elements of the array, as far as some megabytes of it go."""
    data = stream.read(SAMPLE_BYTES)
    more = bool(stream.read(1))
    text = data.decode(errors="replace").lstrip("\ufeff \t\r\n")[1:]
    decoder, kept, at = json.JSONDecoder(), 0, 0
    sample.types[_ARRAYS] = ""
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at == len(text) or text[at] == "]":
            break
        try:
            row, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if not more:
                _fault(sample, f"{file.name}: an element is no JSON: {error}")
            break
        sample.seen_rows += 1
        if not isinstance(row, dict):
            _fault(sample, f"{file.name}: an element is no object")
        elif kept < ROWS_LOOKED_AT:
            sample.rows.append(row)
            kept += 1
    sample.seen_bytes += _passed(raw, stream, len(data)) if more else file.size


def _passed(raw: Any, stream: Any, taken: int) -> int:
    """Bytes of the file that were needed; of a compressed one about."""
    return taken if raw is stream else max(1, int(raw.tell()))


def _keep(line: bytes, sample: Sample, file: File) -> int:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        _fault(sample, f"{file.name}: a line is no JSON: {error}")
        return 0
    if not isinstance(row, dict):
        _fault(sample, f"{file.name}: a line is no object")
        return 0
    sample.rows.append(row)
    return 1


def _fault(sample: Sample, what: str) -> None:
    if len(sample.faults) < 3:
        sample.faults.append(what[:200])
