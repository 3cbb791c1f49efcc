"""Where data lie, for a look: files below a folder or a prefix, and ranges of them, counted."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from overlord._src.errors import refused
from overlord._src.native import core

MOST_LISTED = 200_000  # files of a folder; a look at more is a look at a part
_PASSED_OVER = {".git", ".cache", "__pycache__"}  # folders that hold nobody's rows
_READ_AHEAD = 1 << 17


@dataclass(frozen=True)
class File:
    """A file or an object, by the name that a config has for it."""

    uri: str
    size: int

    @property
    def folder(self) -> str:
        """The folder it lies in, with its slash."""
        return self.uri[: self.uri.rfind("/") + 1]

    @property
    def name(self) -> str:
        """Its last part."""
        return self.uri[self.uri.rfind("/") + 1 :]


class Place:
    """A disk or a store, and how many bytes of it were read."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def files_below(self, folder: str) -> tuple[list[File], bool]:
        """All files below a folder, sorted; False: there are more than were listed."""
        raise NotImplementedError

    def size(self, uri: str) -> int | None:
        """The size of a file; None: there is none of that name."""
        raise NotImplementedError

    def read(self, file: File, offset: int, size: int) -> bytes:
        """A range of a file."""
        raise NotImplementedError

    def is_folder(self, uri: str) -> bool:
        """Whether there is a folder of that name."""
        raise NotImplementedError

    def open(self, file: File) -> io.BufferedReader:
        """The file for whoever wants to seek in it."""
        return io.BufferedReader(_Ranges(self, file), _READ_AHEAD)


class Disk(Place):
    """Files of this machine."""

    def files_below(self, folder: str) -> tuple[list[File], bool]:
        found: list[File] = []
        for file in _walk(folder):
            if len(found) == MOST_LISTED:
                return sorted(found, key=lambda one: one.uri), False
            found.append(file)
        return sorted(found, key=lambda one: one.uri), True

    def size(self, uri: str) -> int | None:
        return os.path.getsize(uri) if os.path.isfile(uri) else None

    def is_folder(self, uri: str) -> bool:
        return os.path.isdir(uri)

    def read(self, file: File, offset: int, size: int) -> bytes:
        with open(file.uri, "rb") as opened:
            opened.seek(offset)
            data = opened.read(size)
        self.read_bytes += len(data)
        return data


def _walk(folder: str) -> Iterator[File]:
    """Files below a folder; links to files count, links to folders may lead in circles."""
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _PASSED_OVER:
                yield from _walk(entry.path)
        elif entry.is_file():
            yield File(entry.path, entry.stat().st_size)


class Store(Place):
    """Objects of a bucket."""

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._files = core.StoredFiles(uri)

    def files_below(self, folder: str) -> tuple[list[File], bool]:
        listed = self._files.below(folder, MOST_LISTED)
        return [File(uri, size) for uri, size in listed], True

    def size(self, uri: str) -> int | None:
        try:
            return self._files.size(uri)
        except core.NotFoundError:
            return None

    def is_folder(self, uri: str) -> bool:
        try:
            return bool(self._files.below(uri.rstrip("/") + "/", MOST_LISTED))
        except core.NotFoundError:
            return False

    def read(self, file: File, offset: int, size: int) -> bytes:
        data = self._files.read(file.uri, offset, min(size, file.size - offset))
        self.read_bytes += len(data)
        return data


class _Ranges(io.RawIOBase):
    """A file as a stream, read range by range."""

    def __init__(self, place: Place, file: File) -> None:
        self._place, self._file, self._at = place, file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), max(0, self._file.size - self._at))
        data = self._place.read(self._file, self._at, wanted) if wanted else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@dataclass(frozen=True)
class Listing:
    """Files that somebody points at, of which some may be claimed already."""

    place: Place
    root: str  # the folder they lie below, with its slash
    files: tuple[File, ...]
    whole: bool = True  # False: there are more than were listed
    alone: bool = False  # one file was named, and not the folder around it
    names: dict[str, File] = field(default_factory=dict, repr=False)

    def without(self, claimed: Iterable[File]) -> Listing:
        """The same without those files; all of them can still be asked for by name."""
        gone = {file.uri for file in claimed}
        left = tuple(file for file in self.files if file.uri not in gone)
        return Listing(self.place, self.root, left, self.whole, self.alone, self.names)

    def ending(self, suffixes: Iterable[str]) -> list[File]:
        """Files whose name ends so; hidden ones and empty ones are nobody's data."""
        ends = tuple(suffixes)
        return [
            file
            for file in self.files
            if file.size and not file.name.startswith((".", "_")) and ends_with(file.name, ends)
        ]

    def find(self, uri: str) -> File | None:
        """The file of that name, whether it was listed or not."""
        if uri in self.names or not self.alone:
            return self.names.get(uri)
        size = self.place.size(uri)
        return None if size is None else File(uri, size)

    def around(self) -> Listing:
        """With all that lies in the folder of a file that was named alone."""
        return _listing(self.place, self.root, *self.place.files_below(self.root))


def ends_with(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a name has one of the suffixes, in whatever case."""
    return name.lower().endswith(suffixes)


def open_place(what: str) -> Listing:
    """What somebody points at: a file, a folder, a pattern, or one of these in a store."""
    uri = what if "://" in what else os.path.abspath(what)
    place: Place = Store(uri) if "://" in what else Disk()
    if "*" in what or "?" in what:
        files = [File(name, place.size(name) or 0) for name in core.list_files(uri)]
        first, last = files[0].folder, files[-1].folder  # sorted, so what they share all share
        while not last.startswith(first):
            first = first[: first.rstrip("/").rfind("/") + 1]
        return _listing(place, first, files)
    size = None if what.endswith("/") else place.size(uri)
    if size is not None:
        file = File(uri, size)
        return Listing(place, file.folder, (file,), alone=True, names={uri: file})
    folder = uri.rstrip("/") + "/"
    if not place.is_folder(folder):
        raise refused(
            ("WHAT",), "there is nothing of that name", what, "a file, a folder, a pattern or a URI"
        )
    files, whole = place.files_below(folder)
    return _listing(place, folder, files, whole)


def _listing(place: Place, root: str, files: list[File], whole: bool = True) -> Listing:
    names = {file.uri: file for file in files}
    return Listing(place, root.rstrip("/") + "/", tuple(files), whole, names=names)
