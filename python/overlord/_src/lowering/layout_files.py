"""Folders that stand for files: where a layout keeps what it is made of."""

from __future__ import annotations

import os

from overlord._src.config.energon import part_of_folder
from overlord._src.config.layouts import MDS_INDEX
from overlord._src.native import core


def is_folder(uri: str) -> bool:
    """Whether a name is a folder's: in a store, where it says so."""
    return uri.endswith("/") or ("://" not in uri and os.path.isdir(uri))


def mds_folders(pattern: str) -> list[str]:
    """The folders of MDS shards that a pattern means, or shards; a folder's index.json lists them.

    A folder without one stands for all below it that have one, as several writers leave them.
    """
    found: list[str] = []
    for name in core.expand_braces(pattern):
        listed = _indexes_in(name) if is_folder(name) else core.list_files(name)
        found += [uri.removesuffix(MDS_INDEX) for uri in listed]
    return list(dict.fromkeys(found))


def energon_tars(pattern: str, part: str) -> list[str]:
    """The tars of a part of the folders that a pattern means."""
    folders = [name.rstrip("/") + "/" for name in core.expand_braces(pattern)]
    return [tar for folder in folders for tar in part_of_folder(folder, part)]


def _indexes_in(name: str) -> list[str]:
    folder = name.rstrip("/") + "/"
    try:
        return core.list_files(_literal(folder) + MDS_INDEX)
    except core.NotFoundError:
        try:
            return core.list_files(f"{_literal(folder)}**/{MDS_INDEX}")
        except core.NotFoundError:
            raise core.NotFoundError(
                f"{folder} has no {MDS_INDEX}, nor has any folder below it; a folder of MDS has "
                "one, which lists its shards"
            ) from None


def _literal(name: str) -> str:
    """A name as a pattern that means it, whatever braces it has."""
    return name.replace("{", "\\{").replace("}", "\\}")
