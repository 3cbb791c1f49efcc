"""Documents out of the benchmark's files, as peers' users read them: NumPy maps and pyarrow.

Both readers give lists of documents in a shuffled order: files and blocks permuted, documents
permuted inside a block, as our own loader does. They are used by every peer that has no reader of
its own for these files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from overlord_bench._contenders.numpy_packer import Documents

WINDOW = 2048
_HEADER = 9  # bytes of the magic; then version, type, counts


class BinFiles:
    """All .bin/.idx pairs of a folder, mapped; documents are views without a copy."""

    def __init__(self, folder: str) -> None:
        self.tokens: list[Any] = []
        self.begins: list[Any] = []
        self.counts: list[Any] = []
        for path in sorted(Path(folder).glob("*.bin")):
            index = path.with_suffix(".idx").read_bytes()
            (rows,) = struct.unpack_from("<Q", index, _HEADER + 9)
            counts = np.frombuffer(index, "<i4", rows, _HEADER + 25)
            pointers = np.frombuffer(index, "<i8", rows, _HEADER + 25 + 4 * rows)
            self.tokens.append(np.memmap(path, np.uint16, "r").view(np.ndarray))
            self.begins.append(pointers // 2)
            self.counts.append(counts.astype(np.int64))
        self.first_rows = np.cumsum([0, *(len(counts) for counts in self.counts)])

    def __len__(self) -> int:
        return int(self.first_rows[-1])

    def document(self, row: int) -> Any:
        """One document by its number over all files."""
        file = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        inside = row - int(self.first_rows[file])
        begin = int(self.begins[file][inside])
        return self.tokens[file][begin : begin + int(self.counts[file][inside])]

    def blocks(self) -> list[tuple[int, int]]:
        """(file, first row) of every block of WINDOW documents."""
        return [
            (file, first)
            for file, counts in enumerate(self.counts)
            for first in range(0, len(counts), WINDOW)
        ]

    def read(self, block: tuple[int, int], order: np.random.Generator) -> Documents:
        """The documents of a block, permuted."""
        file, first = block
        tokens = self.tokens[file]
        begins, counts = self.begins[file], self.counts[file]
        rows = first + order.permutation(min(WINDOW, len(counts) - first))
        ends = begins[rows] + counts[rows]
        pairs = zip(begins[rows].tolist(), ends.tolist(), strict=True)
        return [tokens[begin:end] for begin, end in pairs]


class ParquetFiles:
    """All Parquet files of a folder, read by row group with pyarrow."""

    def __init__(self, folder: str, column: str, threads: bool = False) -> None:
        import pyarrow.parquet as pq

        self._files = [pq.ParquetFile(path) for path in sorted(Path(folder).glob("*.parquet"))]
        self._column = column
        self._threads = threads

    def blocks(self) -> list[tuple[int, int]]:
        """(file, row group) of every row group."""
        return [
            (number, group)
            for number, file in enumerate(self._files)
            for group in range(file.num_row_groups)
        ]

    def read(self, block: tuple[int, int], order: np.random.Generator) -> Documents:
        """The documents of a row group, permuted."""
        table = self._files[block[0]].read_row_group(
            block[1], columns=[self._column], use_threads=self._threads
        )
        return [
            document
            for chunk in table.column(0).chunks
            for document in list_documents(chunk, order)
        ]


def list_documents(lists: Any, order: np.random.Generator | None) -> Documents:
    """The lists of an Arrow list array as views of its values; permuted where `order` is given."""
    offsets = lists.offsets.to_numpy()
    values = lists.values.to_numpy()
    rows = np.arange(len(lists)) if order is None else order.permutation(len(lists))
    pairs = zip(offsets[rows].tolist(), offsets[rows + 1].tolist(), strict=True)
    return [values[begin:end] for begin, end in pairs]


def open_files(work: dict[str, Any]) -> BinFiles | ParquetFiles:
    """The files of the work, as its format says."""
    if work["format"] == "bin":
        return BinFiles(work["folder"])
    return ParquetFiles(work["folder"], work["column"])


def permuted_blocks(
    blocks: list[tuple[int, int]], seed: int, part: int = 0, parts: int = 1
) -> Iterator[tuple[int, int]]:
    """Blocks in a new order every pass, without end; `part` of `parts` workers gets its share."""
    passes = 0
    while True:
        order = np.random.default_rng((seed, passes)).permutation(len(blocks)).tolist()
        yield from (blocks[number] for number in order[part::parts])
        passes += 1


def permuted_documents(
    files: BinFiles | ParquetFiles, seed: int, part: int = 0, parts: int = 1
) -> Iterator[Documents]:
    """The documents of block after block."""
    order = np.random.default_rng((seed, part, 1))
    for block in permuted_blocks(files.blocks(), seed, part, parts):
        yield files.read(block, order)
