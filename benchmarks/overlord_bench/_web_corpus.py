"""Pre-tokenised web documents on disk: as Megatron .bin/.idx and as Parquet, the same tokens."""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

_MAGIC = b"MMIDIDX\x00\x00"
_UINT16 = 8  # Megatron's code of the type
_LAYOUT = 1  # part of the folder's name: another layout is another corpus
COLUMN = "tokens"
STAMP = "corpus.json"


@dataclass(frozen=True)
class WebCorpus:
    """Log-normal lengths (mean 700 tokens, sigma 1), ids spread as by Zipf's law."""

    tokens: int = 256_000_000
    shards: int = 8
    mean_length: float = 700.0
    sigma: float = 1.0
    least: int = 4
    most: int = 120_000
    vocabulary: int = 50_000
    row_group: int = 4096
    compression: str = "zstd"
    seed: int = 7

    @property
    def name(self) -> str:
        """Folder of the corpus."""
        tag = f"{self.compression}-g{self.row_group}" + (f"-l{self.mean_length:g}")
        return f"web-v{_LAYOUT}-{self.tokens}-{self.shards}-{tag}-s{self.seed}"


def lengths(corpus: WebCorpus, count: int, generator: np.random.Generator) -> Any:
    """Tokens of `count` documents."""
    drift = math.log(corpus.mean_length) - corpus.sigma**2 / 2
    drawn = np.rint(generator.lognormal(drift, corpus.sigma, count))
    return np.clip(drawn, corpus.least, corpus.most).astype(np.int64)


def default_folder() -> Path:
    """Where benchmarks keep their data: OVERLORD_BENCH_DATA, or the user's cache."""
    named = os.environ.get("OVERLORD_BENCH_DATA")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "overlord" / "bench"


def prepare(corpus: WebCorpus, folder: Path, *, parquet: bool = True) -> Path:
    """The corpus' folder, written where it is not there yet."""
    place = folder / (corpus.name if parquet else corpus.name + "-bin")
    if (place / STAMP).exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    generator = np.random.default_rng(corpus.seed)
    documents, tokens = 0, 0
    for shard in range(corpus.shards):
        count = max(1, round(corpus.tokens / corpus.shards / corpus.mean_length))
        counts = lengths(corpus, count, generator)
        ids = token_ids(corpus, int(counts.sum()), generator)
        write_megatron(place / f"web-{shard:02}", ids, counts)
        if parquet:
            write_parquet(place / f"web-{shard:02}.parquet", corpus, ids, counts)
        documents, tokens = documents + len(counts), tokens + len(ids)
    facts = {**asdict(corpus), "documents": documents, "tokens_written": tokens}
    (place / STAMP).write_text(json.dumps(facts, indent=1) + "\n")
    return place


def facts_of(place: Path) -> dict[str, Any]:
    """What was written: the corpus' parameters, documents and tokens."""
    facts: dict[str, Any] = json.loads((place / STAMP).read_text())
    return facts


def token_ids(
    corpus: WebCorpus, count: int, generator: np.random.Generator
) -> npt.NDArray[np.uint16]:
    """Ids of `count` tokens, small ones more often."""
    drawn = generator.random(count, dtype=np.float32)
    drawn *= math.log(corpus.vocabulary - 2)
    np.exp(drawn, out=drawn)
    return drawn.astype(np.uint16)


def write_megatron(prefix: Path, ids: npt.NDArray[np.uint16], counts: Any) -> None:
    """PREFIX.bin and PREFIX.idx."""
    prefix.with_suffix(".bin").write_bytes(ids.astype("<u2", copy=False).tobytes())
    with prefix.with_suffix(".idx").open("wb") as file:
        file.write(_MAGIC + struct.pack("<QBQQ", 1, _UINT16, len(counts), len(counts) + 1))
        file.write(counts.astype("<i4").tobytes())
        file.write(((np.cumsum(counts) - counts) * 2).astype("<i8").tobytes())
        file.write(np.arange(len(counts) + 1, dtype="<i8").tobytes())


def write_parquet(path: Path, corpus: WebCorpus, ids: npt.NDArray[np.uint16], counts: Any) -> None:
    """A Parquet file of token lists."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    column = pa.ListArray.from_arrays(offsets, pa.array(ids.astype(np.int32)))
    pq.write_table(
        pa.table({COLUMN: column}),
        path,
        row_group_size=corpus.row_group,
        compression=corpus.compression,
    )
