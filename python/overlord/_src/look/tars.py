"""WebDataset: the first samples of some tars, grouped by their key."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any

from overlord._src.look.forms import conversations
from overlord._src.look.found import (
    ROWS_LOOKED_AT,
    SAMPLE_BYTES,
    Found,
    NotReadable,
    Row,
    Sample,
)
from overlord._src.look.groups import groups_of
from overlord._src.look.json_files import unpacked
from overlord._src.look.media_bytes import SUFFIXES as MEDIA
from overlord._src.look.parquet_files import sample_files
from overlord._src.look.places import File, Listing, Place

SUFFIXES = (".tar", ".tgz", ".tar.gz", ".tar.zst")
_TEXTS = ("txt", "text", "caption", "md")
_CAPTIONS = ("caption", "text", "prompt", "description", "title")


def webdatasets(listing: Listing) -> Iterator[Found]:
    """Each group of tars."""
    for one in groups_of(listing, SUFFIXES):
        found = Found("WebDataset", one.name, one.patterns, one.files, Sample())
        sample_files(listing.place, found, _look_at)
        _describe(found)
        yield found


def split_name(name: str) -> tuple[str, str]:
    """Key and extension of a member, as webdataset cuts them."""
    folder, _, last = name.rpartition("/")
    stem, _, extension = last.partition(".")
    return f"{folder}/{stem}" if folder else stem, extension.lower()


def _look_at(place: Place, file: File, sample: Sample) -> None:
    import pyarrow as pa

    raw, stream = unpacked(place, file)
    rows: dict[str, Row] = {}
    held = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                key, extension = split_name(member.name)
                if not member.isfile() or not extension or key.startswith("__"):
                    continue
                enough = len(rows) >= ROWS_LOOKED_AT or held >= SAMPLE_BYTES
                if enough and key not in rows:
                    sample.seen_bytes += max(1, int(raw.tell()))
                    break
                body = tar.extractfile(member)
                data = body.read(SAMPLE_BYTES) if body is not None else b""
                held += len(data)
                rows.setdefault(key, {"__key__": key})[extension] = _value(extension, data)
            else:
                sample.seen_bytes += file.size
    except (tarfile.TarError, pa.ArrowException, OSError) as error:
        if not rows:
            raise NotReadable(str(error).splitlines()[0][:200]) from None
        sample.faults.append(f"{file.name}: {str(error)[:200]}")
    sample.rows += rows.values()
    sample.seen_rows += len(rows)


def _value(extension: str, data: bytes) -> Any:
    if extension.rsplit(".", 1)[-1] == "json":
        try:
            return json.loads(data)
        except ValueError:
            return data
    if extension in _TEXTS or extension.endswith(("txt", "cls")):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data
    return data


def _describe(found: Found) -> None:
    """Text and media by the extensions of the members; columns of chat lie in the json member."""
    rows = found.sample.rows
    names = dict.fromkeys(name for row in rows for name in row)
    records = [row["json"] for row in rows if isinstance(row.get("json"), dict)]
    keys = conversations(found, Sample(records)) if len(records) == len(rows) else None
    if keys is not None:
        for row in rows:
            row.update(row["json"])
    elif (text := _text_of(names, records)) is not None:
        for row in rows if ":" in text else ():
            record = row.get("json")
            row[text] = record.get(text.partition(":")[2]) if isinstance(record, dict) else None
        found.text, keys = text, {"text": text}
    found.source = keys or {}
    for kind, suffixes in MEDIA.items():
        plain = [name for name in names if name in suffixes]
        counted = [end for name in names if (end := _counted(name)) in suffixes]
        if plain or counted:
            found.media[kind] = {"from": list(dict.fromkeys([*plain, *counted]))}
            if counted:
                found.media[kind]["many"] = True


def _text_of(names: Iterable[str], records: list[Row]) -> str | None:
    text = next((name for name in _TEXTS if name in names), None)
    fields = {name for record in records for name in record}
    caption = next((name for name in _CAPTIONS if name in fields), None)
    return text or (f"json:{caption}" if caption is not None else None)


def _counted(name: str) -> str | None:
    """The extension of a member that has a number before it."""
    number, _, extension = name.partition(".")
    return extension if number.isdigit() else None
