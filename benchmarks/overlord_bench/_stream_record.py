"""What the ranks of a run were given, kept small, so that two runs can be compared."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# A sample is a segment: a document, or the part of a cut one that begins at `first`.
LINEAGE_ID = ("source", "pass", "position", "first")
ID_COLUMNS = ("rank", *LINEAGE_ID)
BATCH_COLUMNS = ("step", "rank", "microbatch", "bytes", "digest")


@dataclass
class StreamRecord:
    """Samples and microbatches of all ranks, in the order they came: rows of int64."""

    ids: Any  # ID_COLUMNS
    batches: Any  # BATCH_COLUMNS

    def save(self, path: Path) -> None:
        """To a file of NumPy's."""
        np.savez(path, ids=self.ids, batches=self.batches)

    @staticmethod
    def load(path: Path) -> StreamRecord:
        """What was saved."""
        with np.load(path) as file:
            return StreamRecord(file["ids"], file["batches"])


class StreamRecorder:
    """Makes the record, batch by batch."""

    def __init__(self) -> None:
        self._ids: list[Any] = []
        self._batches: list[tuple[int, ...]] = []

    def add(self, rank: int, batch: Any) -> None:
        """One microbatch of a rank."""
        lineage = batch.lineage()
        ranks = np.full(len(lineage), rank, np.int64)
        self._ids.append(np.stack([ranks, *(lineage[name] for name in LINEAGE_ID)], axis=1))
        digest, size = hashlib.blake2b(digest_size=8), 0
        for name, array in sorted(batch.arrays().items()):
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
            size += int(array.nbytes)
        number = int.from_bytes(digest.digest(), "little", signed=True)
        self._batches.append((batch.step, rank, batch.microbatch, size, number))

    def record(self) -> StreamRecord:
        """Of all that was added."""
        ids = np.concatenate(self._ids) if self._ids else np.empty((0, len(ID_COLUMNS)), np.int64)
        rows = np.array(self._batches, np.int64).reshape(-1, len(BATCH_COLUMNS))
        return StreamRecord(ids, rows)


def _more_often(one: Any, other: Any) -> int:
    """How many rows of `one` are not in `other`, those that it has more often among them."""
    rows, inverse = np.unique(np.concatenate([one, other]), axis=0, return_inverse=True)
    counts = np.zeros(len(rows), np.int64)
    inverse = inverse.reshape(-1)
    np.add.at(counts, inverse[: len(one)], 1)
    np.add.at(counts, inverse[len(one) :], -1)
    return int(counts.clip(min=0).sum())


def compare(wanted: StreamRecord, got: StreamRecord) -> dict[str, int]:
    """Samples that a rank did not get, got too often, and bytes of microbatches not the same."""
    key = slice(0, 3)  # step, rank, microbatch
    digests = {tuple(row[key]): tuple(row[3:]) for row in wanted.batches.tolist()}
    seen = {tuple(row[key]): tuple(row[3:]) for row in got.batches.tolist()}
    wrong = [
        max(digests.get(at, (0,))[0], seen.get(at, (0,))[0])
        for at in digests.keys() | seen.keys()
        if digests.get(at) != seen.get(at)
    ]
    repeated = got.batches[:, 3].sum() - sum(size for size, _ in seen.values())
    return {
        "ids_lost": _more_often(wanted.ids, got.ids),
        "ids_twice": _more_often(got.ids, wanted.ids),
        "wrong_bytes": int(sum(wrong) + repeated),
        "ids": len(got.ids),
        "bytes": int(got.batches[:, 3].sum()),
    }
