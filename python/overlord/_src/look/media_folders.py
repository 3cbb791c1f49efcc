"""Folders of media files, one folder for each label, as imagefolder of datasets has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from overlord._src.look.found import Found, Sample, some_of
from overlord._src.look.groups import source_name
from overlord._src.look.media_bytes import SUFFIXES, kind_of_name
from overlord._src.look.places import File, Listing

_MOST_SOURCES = 8  # folders of labels that are a source each
_SHOWN = 48


def media_folders(listing: Listing) -> Iterator[Found]:
    """Media files that no table names, by the folder above their labels."""
    files = listing.ending([f".{suffix}" for known in SUFFIXES.values() for suffix in known])
    if not files or listing.alone:
        return
    above: dict[str, list[File]] = {}
    for file in files:
        above.setdefault(_parent(listing, file.folder), []).append(file)
    if len(above) > _MOST_SOURCES:
        above = {listing.root: files}
    for root, some in above.items():
        name = source_name(root.rstrip("/").rsplit("/", 1)[-1])
        found = Found("folder of media", name, [root], some, Sample())
        _describe(found)
        yield found


def _parent(listing: Listing, folder: str) -> str:
    """The folder above that of a label; what lies right in the root has the root's own name."""
    if folder == listing.root:
        return folder
    return folder[: folder.rstrip("/").rfind("/") + 1]


def _describe(found: Found) -> None:
    labels = Counter(file.folder.rstrip("/").rsplit("/", 1)[-1] for file in found.files)
    found.sample.files = len(found.files)
    found.sample.rows = [
        {"label": file.folder.rstrip("/").rsplit("/", 1)[-1], "file": file.name}
        for file in some_of(found.files, _SHOWN)
    ]
    found.named = some_of(found.files, _SHOWN)
    found.rows, found.exact, found.text = len(found.files), True, "label"
    for file in found.files:
        kind = kind_of_name(file.name)
        assert kind is not None
        suffix = file.name.rsplit(".", 1)[-1].lower()
        suffixes = found.media.setdefault(kind, {"from": []})["from"]
        if suffix not in suffixes:
            suffixes.append(suffix)
    found.source = {"format": "folder", "text": "label"}
    most = ", ".join(f"{label} ({count:,})" for label, count in labels.most_common(8))
    found.notes.append(f"{len(labels):,} labels: {most}" + (", ..." if len(labels) > 8 else ""))
