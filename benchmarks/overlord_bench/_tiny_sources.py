"""Many sources of many small files: Parquet and Megatron in turn."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from overlord_bench import _web_corpus


@dataclass(frozen=True)
class TinySources:
    """Every source has `files` files of `documents` short documents."""

    sources: int = 306
    files: int = 20
    documents: int = 100
    seed: int = 7

    @property
    def name(self) -> str:
        """Folder of the sources."""
        return f"tiny-v1-{self.sources}-{self.files}-{self.documents}-s{self.seed}"


def source_name(number: int) -> str:
    """Name and folder of a source."""
    return f"source{number:03}"


def is_parquet(number: int) -> bool:
    """Whether a source has Parquet files; the others have .bin/.idx."""
    return number % 2 == 0


def prepare(tiny: TinySources, folder: Path) -> Path:
    """The folder of the sources, written where it is not there yet."""
    place = folder / tiny.name
    stamp = place / "written"
    if stamp.exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    generator = np.random.default_rng(tiny.seed)
    web = _web_corpus.WebCorpus(mean_length=100.0, most=4000)
    for number in range(tiny.sources):
        source = place / source_name(number)
        source.mkdir(parents=True)
        for file in range(tiny.files):
            counts = _web_corpus.lengths(web, tiny.documents, generator)
            ids = _web_corpus.token_ids(web, int(counts.sum()), generator)
            if is_parquet(number):
                _web_corpus.write_parquet(source / f"{file:02}.parquet", web, ids, counts)
            else:
                _web_corpus.write_megatron(source / f"{file:02}", ids, counts)
    stamp.touch()
    return place
