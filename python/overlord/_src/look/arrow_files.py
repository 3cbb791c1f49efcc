"""Arrow files and streams, and folders that save_to_disk of datasets wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator

from overlord._src.look.found import ROWS_LOOKED_AT, Found, NotReadable, Sample
from overlord._src.look.groups import groups_of, source_name
from overlord._src.look.media_fields import find_media
from overlord._src.look.parquet_files import sample_files, take_types
from overlord._src.look.places import File, Listing, Place

SUFFIXES = (".arrow", ".feather", ".ipc")
_STATE, _DICT = "state.json", "dataset_dict.json"
_ABOUT = (_STATE, _DICT, "dataset_info.json")


def saved_datasets(listing: Listing) -> Iterator[Found]:
    """Each folder of a dataset or of a split of one."""
    for state in [file for file in listing.files if file.name == _STATE]:
        try:
            told = json.loads(listing.place.read(state, 0, state.size))
            names = [entry["filename"] for entry in told["_data_files"]]
        except (ValueError, KeyError, TypeError):
            continue
        files = [listing.names.get(state.folder + name) for name in names]
        shards = [file for file in files if file is not None]
        if not shards:
            continue
        last = state.folder.rstrip("/").rsplit("/", 1)[-1]
        found = Found("Arrow, by save_to_disk", source_name(last), [state.folder], shards, Sample())
        found.beside = [
            file
            for file in listing.files
            if file.name in _ABOUT and state.folder.startswith(file.folder)
        ]
        if len(shards) < len(files):
            found.notes.append(f"{len(files) - len(shards)} of its files are not there")
        if told.get("_indices_files") or told.get("_indices_data_files"):
            found.notes.append(
                "it is a selection of rows that were saved elsewhere: call flatten_indices() "
                "on the dataset and save it again"
            )
        sample_files(listing.place, found, _look_at)
        find_media(listing, found)
        yield found


def arrow_files(listing: Listing) -> Iterator[Found]:
    """Each group of Arrow files."""
    for one in groups_of(listing, SUFFIXES):
        found = Found("Arrow", one.name, one.patterns, one.files, Sample())
        sample_files(listing.place, found, _look_at)
        find_media(listing, found)
        yield found


def _look_at(place: Place, file: File, sample: Sample) -> None:
    import pyarrow as pa

    is_file = place.read(file, 0, 6) == b"ARROW1"
    try:
        with place.open(file) as opened:
            if is_file:
                whole = pa.ipc.open_file(opened)
                take_types(sample, whole.schema)
                batches = (whole.get_batch(at) for at in range(whole.num_record_batches))
            else:
                stream = pa.ipc.open_stream(opened)
                take_types(sample, stream.schema)
                batches = iter(stream)
            batch = next(batches, None)
            if batch is not None:
                sample.rows += batch.slice(0, ROWS_LOOKED_AT).to_pylist()
                sample.seen_rows += batch.num_rows
                sample.seen_bytes += min(file.size, max(1, batch.nbytes))
            if next(batches, None) is None and batch is not None:
                sample.seen_bytes += file.size - min(file.size, max(1, batch.nbytes))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise NotReadable(str(error).splitlines()[0][:200]) from None
