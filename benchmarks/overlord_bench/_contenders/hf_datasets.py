"""Hugging Face datasets: Arrow batches of the list column, packed in process or in workers.

The tokens of .bin files are converted once to its own mapped Arrow format. Parquet is streamed from
the same files, without the conversion to its cache.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from overlord_bench._contenders.numpy_packer import Documents
from overlord_bench._contenders.torch_dataloader import measure_share
from overlord_bench._document_files import BinFiles, list_documents

BATCH = 2048
SHARDS = 8


def _rows(folder: str, column: str, files: list[int]) -> Iterator[dict[str, Any]]:
    source = BinFiles(folder)
    for file in files:
        for row in range(int(source.first_rows[file]), int(source.first_rows[file + 1])):
            yield {column: source.document(row)}


def converted(work: dict[str, Any]) -> Path:
    """The .bin files in the library's own format, written once."""
    import datasets  # type: ignore[import-not-found,unused-ignore]

    place = Path(work["folder"]) / "hf-arrow"
    stamp = place / "converted.json"
    if not stamp.exists():
        column = work["column"]
        features = datasets.Features({column: datasets.List(datasets.Value("uint16"))})
        made = datasets.Dataset.from_generator(
            _rows,
            features=features,
            gen_kwargs={
                "folder": work["folder"],
                "column": column,
                "files": list(range(len(BinFiles(work["folder"]).tokens))),
            },
            cache_dir=str(place / "cache"),
            keep_in_memory=False,
        )
        made.save_to_disk(str(place / "data"), num_shards=SHARDS)
        stamp.write_text(json.dumps({"rows": len(made)}))
    return place / "data"


def _tables(work: dict[str, Any], part: int, parts: int) -> Iterator[Any]:
    """Arrow tables of one worker's share, for one pass."""
    import datasets

    if work["format"] == "bin":
        data = datasets.load_from_disk(str(converted(work)))
        share = data.shard(parts, part, contiguous=True) if parts > 1 else data
    else:
        paths = sorted(str(path) for path in Path(work["folder"]).glob("*.parquet"))
        share = datasets.load_dataset(
            "parquet",
            data_files=paths[part::parts],
            split="train",
            streaming=True,
            columns=[work["column"]],
        )
    yield from share.with_format("arrow").iter(batch_size=BATCH)


def read_share(work: dict[str, Any], part: int, parts: int) -> Iterator[Documents]:
    """Documents of one worker's share, permuted inside each batch, without end."""
    order = np.random.default_rng((7, part))
    while True:
        for table in _tables(work, part, parts):
            documents: Documents = []
            for chunk in table.column(work["column"]).chunks:
                documents += list_documents(chunk, order)
            yield documents


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Figures of one run."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import datasets

    datasets.disable_progress_bars()
    if work["format"] == "bin":
        converted(work)
    figures = measure_share(partial(read_share, work), work)
    return {"version": datasets.__version__, **figures}
