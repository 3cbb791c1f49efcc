"""What arrived, taken apart again: pieces of batches, whole documents, digests, slices."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from overlord._src.batch.microbatch import HOLE

import overlord as ol

Array = npt.NDArray[Any]
CONTINUES = 1  # in the flags of a piece: its document goes on
SampleId = tuple[int, int, int]  # source, pass, position


@dataclass(frozen=True)
class Piece:
    """One segment as a rank with whole sequences received it."""

    id: SampleId
    first: int
    flags: int
    step: int
    tokens: Array
    targets: Array
    weights: Array
    positions: Array

    @property
    def continues(self) -> bool:
        """Whether the document goes on behind this piece."""
        return bool(self.flags & CONTINUES)

    @property
    def hole(self) -> bool:
        """Whether it is padding in place of a document that was found bad."""
        return bool(self.flags & HOLE)


def flat(array: Array | None) -> Array:
    """A field that must be there, as one dimension."""
    assert array is not None
    return array.reshape(-1)


def pieces_of(batch: ol.Microbatch, pad: int = 0) -> list[Piece]:
    """The segments of an unsliced microbatch; checks boundaries and padding on the way."""
    tokens, targets = flat(batch.tokens), flat(batch.targets)
    weights, positions = flat(batch.loss_weights), flat(batch.positions)
    real, padded = flat(batch.cu_seqlens), flat(batch.cu_seqlens_padded)
    assert len(real) == len(padded) and real[0] == padded[0] == 0
    assert padded[-1] == len(tokens) and np.all(np.diff(padded) >= np.diff(real))
    lengths = np.diff(real)
    begins = padded[:-1][lengths > 0]
    lineage = batch.lineage()
    assert lengths[lengths > 0].tolist() == lineage["count"].tolist()
    outside = np.ones(len(tokens), bool)
    pieces = []
    for row, begin in zip(lineage, begins, strict=True):
        part = slice(int(begin), int(begin) + int(row["count"]))
        outside[part] = False
        assert part.start // batch.tokens.shape[1] == row["bin"]  # type: ignore[union-attr]
        pieces.append(
            Piece(
                (int(row["source"]), int(row["pass"]), int(row["position"])),
                int(row["first"]),
                int(row["flags"]),
                batch.step,
                *(array[part].copy() for array in (tokens, targets, weights, positions)),
            )
        )
    assert np.all(tokens[outside] == pad) and np.all(targets[outside] == pad)
    assert not weights[outside].any() and not positions[outside].any()
    assert batch.num_docs == len(pieces) and batch.num_tokens == real[-1] == lengths.sum()
    assert batch.max_seqlen == lengths.max(initial=0)
    if not any(piece.hole for piece in pieces):
        assert batch.target_tokens == np.count_nonzero(weights)
    return pieces


def check_piece(piece: Piece, pad: int = 0, masked: bool = False) -> None:
    """Targets are the next tokens, positions count from 0, weights are 1 where a target is."""
    count = len(piece.tokens)
    assert piece.positions.tolist() == list(range(count))
    assert piece.targets[:-1].tolist() == piece.tokens[1:].tolist()
    if not masked:
        assert np.all(piece.weights[:-1] == 1)
        assert piece.weights[-1] == (1 if piece.continues else 0)
    if not piece.continues:
        assert piece.targets[-1] == pad and piece.weights[-1] == 0


def documents_of(pieces: Iterable[Piece], check: bool = True) -> dict[SampleId, Array]:
    """Documents put together from their pieces: no gap, no overlap, each cut marked."""
    parts: dict[SampleId, list[Piece]] = defaultdict(list)
    for piece in pieces:
        parts[piece.id].append(piece)
    documents = {}
    for name, listed in parts.items():
        listed.sort(key=lambda piece: piece.first)
        at = 0
        for piece, after in itertools.zip_longest(listed, listed[1:]):
            assert piece.first == at, f"{name}: a piece begins at {piece.first}, not at {at}"
            at += len(piece.tokens)
            if check:
                check_piece(piece)
                assert piece.continues == (after is not None)
                if after is not None:
                    assert piece.targets[-1] == after.tokens[0]
        documents[name] = np.concatenate([piece.tokens for piece in listed])
    return documents


def read_pieces(loader: Iterable[ol.Microbatch], limit: int | None = None) -> list[Piece]:
    """All segments of (the first `limit` microbatches of) a loader with whole sequences."""
    batches = itertools.islice(loader, limit)
    return [piece for batch in batches for piece in pieces_of(batch)]


def content(batch: ol.Microbatch) -> bytes:
    """A digest of everything a rank can see of a microbatch."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(batch.arrays().items()):
        digest.update(f"{name} {array.dtype} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(batch.lineage().tobytes())
    numbers = (
        batch.step,
        batch.microbatch,
        batch.microbatches,
        batch.last_in_step,
        batch.max_seqlen,
        batch.num_docs,
        batch.num_tokens,
        batch.target_tokens,
        batch.step_target_tokens,
    )
    digest.update(repr(numbers).encode())
    return digest.digest()


def segments_of(batches: Iterable[ol.Microbatch]) -> list[tuple[int, ...]]:
    """Lineage of microbatches without where it lies, sorted: what they hold."""
    rows = [
        (
            int(row["source"]),
            int(row["pass"]),
            int(row["position"]),
            int(row["first"]),
            int(row["count"]),
        )
        for batch in batches
        for row in batch.lineage()
    ]
    return sorted(rows)


def take_steps(
    loaders: ol.RankLoaders, steps: int | None = None
) -> Iterator[dict[int, list[ol.Microbatch]]]:
    """The next whole steps of every rank."""
    yield from itertools.islice(loaders.steps(), steps)


def zigzag(length: int, rank: int, ranks: int) -> list[int]:
    """Indices of a sequence that a context-parallel rank has: chunks `rank` and its mirror."""
    chunks = np.arange(length).reshape(2 * ranks, -1)
    return [*chunks[rank].tolist(), *chunks[2 * ranks - 1 - rank].tolist()]


def slice_indices(
    slicing: str, shape: tuple[int, int], padded: Sequence[int], rank: int, ranks: int
) -> list[int]:
    """Places of the flattened microbatch that a context-parallel rank has, in its order."""
    rows, context = shape
    if slicing == "trainer" or ranks == 1:
        return list(range(rows * context))
    if slicing == "document_zigzag":
        spans = [(int(begin), int(end)) for begin, end in itertools.pairwise(padded)]
    else:
        spans = [(row * context, (row + 1) * context) for row in range(rows)]
    indices: list[int] = []
    for begin, end in spans:
        if slicing == "contiguous":
            width = (end - begin) // ranks
            indices += range(begin + rank * width, begin + (rank + 1) * width)
        else:
            indices += [begin + index for index in zigzag(end - begin, rank, ranks)]
    return indices
