"""Files of a listing by the source they make: one for each split that names tell, or all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from overlord._src.look.places import File, Listing

_SPLITS = re.compile(
    r"(?:^|[^a-z])(train|training|valid|validation|val|dev|test|eval)(?:[^a-z]|$)", re.I
)
_MOST_FOLDERS = 8  # with files of a kind, that are a source each
_SUFFIX = re.compile(r"\.[a-z]+(\.(gz|zst))?$")
_Key = tuple[str, str, str]  # folder, split, suffix
_PLAIN = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True)
class Group:
    """Files of one source."""

    name: str
    files: list[File]
    patterns: list[str]


def groups_of(listing: Listing, suffixes: Iterable[str]) -> list[Group]:
    """Files that end so, as sources."""
    return group(listing, listing.ending(suffixes))


def group(listing: Listing, files: Sequence[File]) -> list[Group]:
    """Files as sources: of a folder together, but splits apart; of many folders all together."""
    if not files:
        return []
    if listing.alone:
        return [Group(source_name(files[0].name), list(files), [files[0].uri])]
    folders: dict[_Key, list[File]] = {}
    for file in files:
        split = _SPLITS.search(file.name)
        suffix = _SUFFIX.search(file.name.lower())
        key = (
            file.folder,
            split.group(1).lower() if split else "",
            suffix.group() if suffix else "",
        )
        folders.setdefault(key, []).append(file)
    if len({folder for folder, *_ in folders}) > _MOST_FOLDERS:
        merged: dict[_Key, list[File]] = {}
        for (_, part, end), some in folders.items():
            merged.setdefault((listing.root, part, end), []).extend(some)
        folders = merged
    return [
        Group(_name(listing, folder, part), some, _patterns(listing, folder, some))
        for (folder, part, _), some in folders.items()
    ]


def _name(listing: Listing, folder: str, split: str) -> str:
    last = folder.rstrip("/").rsplit("/", 1)[-1]
    if not split or folder != listing.root:
        return source_name(f"{last}_{split}" if split and split not in last else last)
    return source_name(split)


def source_name(text: str) -> str:
    """A name for a source out of that of a file or a folder."""
    plain = _PLAIN.sub("_", text.split(".")[0] or text).strip("_").lower()
    return plain or "data"


def _patterns(listing: Listing, folder: str, files: list[File]) -> list[str]:
    """What stands for exactly these files: one name, a pattern, or all their names."""
    if len(files) == 1:
        return [files[0].uri]
    begin = _shared([file.uri[len(folder) :] for file in files])
    end = _shared([file.name[::-1] for file in files])[::-1]
    deep = any(file.folder != folder for file in files)
    begin = begin if not deep else begin[: begin.rfind("/") + 1]
    end = end[end.find(".") :] if "." in end else end
    pattern = f"{folder}{begin}{'**/' if deep else ''}*{end}"
    if _matched(listing, folder + begin, end, deep) == {file.uri for file in files}:
        return [pattern]
    return [file.uri for file in files]


def _shared(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]


def _matched(listing: Listing, begin: str, end: str, deep: bool) -> set[str]:
    """The files that a pattern of ours would match, hidden ones left out as a shell does."""
    return {
        uri
        for uri, file in listing.names.items()
        if uri.startswith(begin)
        and uri.endswith(end)
        and len(uri) >= len(begin) + len(end)
        and not file.name.startswith(".")
        and (deep or "/" not in uri[len(begin) :])
    }
