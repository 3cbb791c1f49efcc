"""Numbers that depend on (corpus, source, shard, row, position) and on nothing else, in NumPy."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.corpus.parameters import CorpusParameters, Lengths, SourceShape

Words64 = npt.NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def scramble(values: Words64) -> Words64:
    """The finaliser of splitmix64: a bijection of 64-bit words that looks random."""
    mixed = values + _GOLDEN
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def shard_key(parameters: CorpusParameters, source: str, shard: int) -> int:
    """What every number of one shard is drawn from."""
    text = f"overlord-corpus/{parameters.version}\0{parameters.seed}\0{source}\0{shard}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def row_keys(key: int, rows: int) -> Words64:
    """One key per row of a shard."""
    return scramble(scramble(np.arange(rows, dtype=np.uint64)) ^ np.uint64(key))


def position_values(keys: Words64, counts: npt.NDArray[np.int64]) -> Words64:
    """A number for every position of every row, rows one after another."""
    total = int(counts.sum())
    begins = np.cumsum(counts) - counts
    position = np.arange(total, dtype=np.uint64) - np.repeat(begins, counts).astype(np.uint64)
    return scramble(np.repeat(keys, counts) + position * _FIRST)


def row_lengths(lengths: Lengths, keys: Words64) -> npt.NDArray[np.int64]:
    """Log-normal lengths, by Box and Muller over two numbers of each row."""
    first, second = _unit(scramble(keys ^ _FIRST)), _unit(scramble(keys ^ _SECOND))
    normal = np.sqrt(-2.0 * np.log(1.0 - first)) * np.cos(2.0 * np.pi * second)
    sampled = np.rint(np.exp(lengths.mu + lengths.sigma * normal))
    return np.clip(sampled, lengths.least, lengths.most).astype(np.int64)


def _unit(values: Words64) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1)."""
    return (values >> np.uint64(11)).astype(np.float64) / float(1 << 53)


def shard_rows(source: SourceShape, shard: int) -> int:
    """Documents of one shard of a source."""
    return source.documents // source.shards + (shard < source.documents % source.shards)


def shard_tokens(
    parameters: CorpusParameters, source: SourceShape, shard: int, vocabulary: int, first_token: int
) -> tuple[Any, Any]:
    """All tokens of a shard, and each document's count: `first_token + hash % other_ids`."""
    keys = row_keys(shard_key(parameters, source.name, shard), shard_rows(source, shard))
    counts = row_lengths(source.lengths, keys)
    span = np.uint64(vocabulary - first_token)
    tokens = position_values(keys, counts) % span + np.uint64(first_token)
    return tokens.astype(source.token_type), counts
