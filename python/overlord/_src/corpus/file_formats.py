"""Writers of one shard per format. Each gives the names of the files it wrote."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlord._src.corpus.parameters import SourceShape

MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
_MEGATRON_TYPES = {"int32": 4, "uint16": 8}


def write_parquet_text(path: Path, source: SourceShape, texts: list[str]) -> None:
    """A Parquet file with an id and a text column."""
    table = pa.table(
        {"id": pa.array(range(len(texts)), pa.int64()), "text": pa.array(texts, pa.string())}
    )
    pq.write_table(table, path, row_group_size=source.row_group, compression="zstd")


def write_parquet_tokens(path: Path, source: SourceShape, tokens: Any, counts: Any) -> None:
    """A Parquet file of token lists; with a loss mask where the source has one."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    columns = {"input_ids": pa.ListArray.from_arrays(offsets, pa.array(tokens))}
    if source.mask:
        columns["loss_mask"] = pa.ListArray.from_arrays(offsets, pa.array(loss_mask(counts)))
    pq.write_table(
        pa.table(columns),
        path,
        row_group_size=source.row_group,
        compression="zstd",
        use_dictionary=False,
    )


def loss_mask(counts: Any) -> Any:
    """Zero for the first third of every document, one for the rest."""
    begins = np.cumsum(counts) - counts
    position = np.arange(int(counts.sum())) - np.repeat(begins, counts)
    return (position * 3 >= np.repeat(counts, counts)).astype(np.uint8)


def write_jsonl(path: Path, source: SourceShape, shard: int, texts: Iterable[str]) -> None:
    """JSON lines; compressed as the file's suffix says."""
    lines = "".join(
        json.dumps({"id": f"{source.name}-{shard}-{row}", "text": text}) + "\n"
        for row, text in enumerate(texts)
    ).encode()
    if path.suffix == ".gz":
        buffer = io.BytesIO()
        with gzip.GzipFile(
            filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0
        ) as file:
            file.write(lines)
        path.write_bytes(buffer.getvalue())
    elif path.suffix == ".zst":
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
            stream.write(lines)
    else:
        path.write_bytes(lines)


def write_megatron(path: Path, source: SourceShape, tokens: Any, counts: Any) -> None:
    """PREFIX.bin and PREFIX.idx as Megatron-LM's IndexedDataset reads them."""
    path.write_bytes(tokens.astype("<" + np.dtype(source.token_type).str[1:]).tobytes())
    size = np.dtype(source.token_type).itemsize
    pointers = (np.cumsum(counts) - counts) * size
    with path.with_suffix(".idx").open("wb") as file:
        file.write(MEGATRON_MAGIC + struct.pack("<QB", 1, _MEGATRON_TYPES[source.token_type]))
        file.write(struct.pack("<QQ", len(counts), len(counts) + 1))
        file.write(counts.astype("<i4").tobytes())
        file.write(pointers.astype("<i8").tobytes())
        file.write(np.arange(len(counts) + 1, dtype="<i8").tobytes())
