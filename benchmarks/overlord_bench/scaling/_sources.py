"""What the figures read: texts with a tokenizer, ready tokens, pictures; made once.

A file is listed several times: its blocks are read as if they were others, so that a run is not
answered by the cache of a small corpus.
"""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlord._src.corpus.generate import ensure_corpus
from overlord._src.corpus.parameters import WEB, CorpusParameters, SourceShape, lengths_of
from overlord._src.corpus.words import TOKENIZER_VOCABULARY
from overlord._src.native import core

from overlord_bench._contenders.media_stream import caption
from overlord_bench._contenders.picture_files import QUALITY, pixels_of

VOCABULARY = TOKENIZER_VOCABULARY
LONG = lengths_of(3_000, 0.5)
PICTURE = "decode jpeg=scaled; resize width=224 height=224 filter=bilinear"
PAD = 1  # a token in the place of a picture


@dataclass(frozen=True)
class Sources:
    """A corpus of these sizes, and the sources of a job over it."""

    folder: Path
    documents: int = 4000  # of every kind of text
    pictures: int = 48
    times: int = 8  # that a file is listed

    @property
    def place(self) -> Path:
        """Its own folder: other sizes are another corpus."""
        return self.folder / f"scaling-v1-{self.documents}"

    def prepare(self, *, pictures: bool = False) -> None:
        """Write what is not there yet; pictures take a fourth of a second each."""
        ensure_corpus(self.place / "text", CorpusParameters(7, self._shapes()))
        if pictures and not self._tar.exists():
            write_pictures(self._tar, self.pictures)

    def _shapes(self) -> tuple[SourceShape, ...]:
        few = max(16, self.documents // 4)
        return (
            SourceShape("web", "parquet_text", WEB, self.documents, 2, row_group=64),
            SourceShape("long", "parquet_text", LONG, few, 2, row_group=8),
            SourceShape("ready", "parquet_tokens", WEB, self.documents, 2, row_group=256),
        )

    @property
    def _tar(self) -> Path:
        return self.place / f"pictures-{self.pictures}.tar"

    def _files(self, name: str, first: int = 0) -> list[str]:
        """Listed again and again; another `first` is another order, so another source."""
        found = sorted(str(path) for path in (self.place / "text" / name).glob("*.parquet"))
        return (found[first:] + found[:first]) * self.times

    def text(self, name: str = "web", first: int = 0) -> dict[str, Any]:
        """Texts that are tokenised; small windows, so that many loaders have something to do."""
        return {
            "files": self._files(name, first),
            "text": "text",
            "tokenizer": "bpe",
            "allow_duplicates": True,
            "window_rows": 8 if name == "long" else 64,
        }

    def ready(self) -> dict[str, Any]:
        """Tokens that need no work."""
        files = self._files("ready")
        return {"files": files, "tokens": "input_ids", "allow_duplicates": True, "window_rows": 256}

    def picture(self) -> dict[str, Any]:
        """Photo-like JPEGs with a few words each."""
        field = {"from": ["jpg"], "transform": PICTURE, "tokens": {"pad": PAD, "count": 64}}
        return {
            "files": [str(self._tar)] * self.times,
            "text": "txt",
            "tokenizer": "bpe",
            "allow_duplicates": True,
            "window_rows": 64,
            "over_length": "drop",
            "media": {"image": field},
        }

    def job(self, name: str, sources: dict[str, Any], weights: Any, **more: Any) -> dict[str, Any]:
        """A job over some of them; `weights`: of all steps, or a whole mixture."""
        mixture = weights if "stages" in weights else {"weights": weights}
        return {
            "job": name,
            "seed": 7,
            "context": 4096,
            "vocabulary": VOCABULARY,
            "at_end": "repeat",
            "tokenizers": {"bpe": {"path": f"{self.place}/text/tokenizer.json"}},
            "sources": sources,
            "mixture": mixture,
            "index_dir": f"{self.place}/index-{name}",
            **more,
        }


def write_pictures(path: Path, count: int) -> None:
    """A tar of pictures with captions, as WebDataset has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(count):
            jpeg = core.encode_jpeg(pixels_of(number), QUALITY)
            for extension, data in (("jpg", jpeg), ("txt", caption(number).encode())):
                entry = tarfile.TarInfo(f"{number:06}.{extension}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    os.replace(part, path)
