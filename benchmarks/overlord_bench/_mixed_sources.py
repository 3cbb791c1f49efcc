"""Many Parquet sources of one file each, from small to eight times as large."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from overlord_bench import _web_corpus

COLUMN = _web_corpus.COLUMN
_FACTS = "written.json"


@dataclass(frozen=True)
class MixedSources:
    """Sources of `least` to `most` documents, sizes spread evenly over their logarithm."""

    sources: int = 306
    least: int = 64
    most: int = 512
    mean_length: float = 350.0
    row_group: int = _web_corpus.WebCorpus.row_group
    seed: int = 7

    @property
    def name(self) -> str:
        """Folder of the sources."""
        spread = f"{self.least}-{self.most}-l{self.mean_length:g}"
        if self.row_group != _web_corpus.WebCorpus.row_group:
            spread += f"-g{self.row_group}"
        return f"mixed-v1-{self.sources}-{spread}-s{self.seed}"


def path_of(place: Path | str, number: int) -> Path:
    """The file of a source."""
    return Path(place) / f"source{number:04}.parquet"


def prepare(mixed: MixedSources, folder: Path) -> Path:
    """The folder of the sources, written where it is not there yet."""
    place = folder / mixed.name
    if (place / _FACTS).exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    generator = np.random.default_rng(mixed.seed)
    web = _web_corpus.WebCorpus(
        mean_length=mixed.mean_length, most=16_000, row_group=mixed.row_group
    )
    drawn = generator.uniform(np.log(mixed.least), np.log(mixed.most), mixed.sources)
    tokens = 0
    for number, documents in enumerate(np.exp(drawn).astype(int).tolist()):
        counts = _web_corpus.lengths(web, documents, generator)
        ids = _web_corpus.token_ids(web, int(counts.sum()), generator)
        _web_corpus.write_parquet(path_of(place, number), web, ids, counts)
        tokens += len(ids)
    files = sum(path.stat().st_size for path in place.glob("*.parquet"))
    facts = {"sources": mixed.sources, "tokens": tokens, "file_bytes": files}
    (place / _FACTS).write_text(json.dumps(facts) + "\n")
    return place


def facts_of(place: Path) -> dict[str, int]:
    """What was written: sources, tokens, bytes of the files."""
    facts: dict[str, int] = json.loads((place / _FACTS).read_text())
    return facts
