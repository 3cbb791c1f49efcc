"""A small job over three Parquet sources whose node lies in a short folder of its own."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WEIGHTS = {"books": 0.2, "code": 0.3, "web": 0.5}


def small_job(folder: Path, *, steps: int, name: str = "watched") -> tuple[dict[str, Any], Path]:
    """Its config, and the folder of its sockets."""
    # Not below `folder`: addresses of sockets have at most 107 characters, and screens 80.
    sockets = Path(tempfile.mkdtemp(prefix="ol-"))
    atexit.register(shutil.rmtree, sockets, ignore_errors=True)
    dice = np.random.default_rng(3)
    sources = {}
    for source, documents in (("books", 200), ("code", 500), ("web", 900)):
        tokens = [dice.integers(1, 1000, dice.integers(5, 200)) for _ in range(documents)]
        table = pa.table({"tokens": pa.array(tokens, pa.list_(pa.int32()))})
        pq.write_table(table, folder / f"{source}.parquet", row_group_size=100)
        sources[source] = {"files": str(folder / f"{source}.parquet"), "tokens": "tokens"}
    config = {
        "job": name,
        "seed": 5,
        "context": 256,
        "bins": 16,
        "steps": steps,
        "vocabulary": 1000,
        "at_end": "repeat",
        "index_dir": str(folder / "index"),
        "mixture": {"weights": WEIGHTS},
        "sources": sources,
        "runtime": {"processes": {"directory": str(sockets)}},
    }
    return config, sockets
