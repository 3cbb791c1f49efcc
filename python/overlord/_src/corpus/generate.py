"""Makes a corpus on disk, shard by shard, and knows when what is there is still good."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlord._src.corpus import file_formats, media_files, sampling, words
from overlord._src.corpus.parameters import CorpusParameters, SourceShape

MARKER = "corpus.json"
TOKENIZER = "tokenizer.json"
SUFFIXES = {
    "parquet_text": ".parquet",
    "parquet_tokens": ".parquet",
    "jsonl": ".jsonl",
    "jsonl_gz": ".jsonl.gz",
    "jsonl_zst": ".jsonl.zst",
    "megatron": ".bin",
    "pairs": ".tar",
    "sounds": ".tar",
    "interleaved": ".parquet",
}
Progress = Callable[[str, int, int], None]  # (file, done, total)


@dataclass(frozen=True)
class Corpus:
    """A corpus on disk."""

    folder: Path
    parameters: CorpusParameters
    made: bool  # False: it was there already
    size_bytes: int

    def pattern(self, name: str) -> str:
        """Glob pattern of a source's files, relative to the folder."""
        return f"{name}/*{SUFFIXES[self.parameters.source(name).kind]}"


def ensure_corpus(
    folder: Path, parameters: CorpusParameters, progress: Progress | None = None
) -> Corpus:
    """Make the corpus, unless the folder already holds exactly it."""
    digest = parameters_digest(parameters)
    files = _read_marker(folder, digest)
    made = files is None
    if files is None:
        files = _generate(folder, parameters, digest, progress or (lambda *_: None))
    return Corpus(folder, parameters, made, sum(files.values()))


def parameters_digest(parameters: CorpusParameters) -> str:
    """Stands for everything that decides the corpus's bytes."""
    data = {
        "parameters": parameters.as_data(),
        "vocabulary": words.VOCABULARY,
        "tokenizer": hashlib.sha256(words.tokenizer_json().encode()).hexdigest(),
        "media": media_files.VERSION,
    }
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]


def _read_marker(folder: Path, digest: str) -> dict[str, int] | None:
    """Sizes of the corpus's files if all are there as they were written."""
    try:
        marker = json.loads((folder / MARKER).read_text())
        files: dict[str, int] = marker["files"]
        good = marker["digest"] == digest and all(
            (folder / name).stat().st_size == size for name, size in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return files if good else None


def shard_path(folder: Path, source: SourceShape, shard: int) -> Path:
    """Where one shard lies."""
    return folder / source.name / f"{source.name}-{shard:03d}{SUFFIXES[source.kind]}"


def _generate(
    folder: Path, parameters: CorpusParameters, digest: str, progress: Progress
) -> dict[str, int]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).unlink(missing_ok=True)
    (folder / TOKENIZER).write_text(words.tokenizer_json())
    total = sum(source.shards for source in parameters.sources)
    done = 0
    for source in parameters.sources:
        shutil.rmtree(folder / source.name, ignore_errors=True)
        (folder / source.name).mkdir()
        for shard in range(source.shards):
            path = shard_path(folder, source, shard)
            progress(str(path.relative_to(folder)), done, total)
            write_shard(path, parameters, source, shard)
            done += 1
    progress("", done, total)
    files = {
        str(path.relative_to(folder)): path.stat().st_size
        for source in parameters.sources
        for path in sorted((folder / source.name).iterdir())
    }
    files[TOKENIZER] = (folder / TOKENIZER).stat().st_size
    _write_atomically(folder / MARKER, json.dumps({"digest": digest, "files": files}, indent=1))
    return files


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def write_shard(path: Path, parameters: CorpusParameters, source: SourceShape, shard: int) -> None:
    """Make one shard; it depends on nothing but the parameters and its number."""
    if source.kind in ("parquet_tokens", "megatron"):
        tokens, counts = sampling.shard_tokens(
            parameters, source, shard, words.VOCABULARY, words.FIRST_TOKEN
        )
        if source.kind == "megatron":
            file_formats.write_megatron(path, source, tokens, counts)
        else:
            file_formats.write_parquet_tokens(path, source, tokens, counts)
        return
    if source.kind in ("pairs", "sounds", "interleaved"):
        chances = media_files.shard_chances(parameters, source, shard)
        if source.kind == "pairs":
            media_files.write_pairs(path, chances)
        elif source.kind == "sounds":
            media_files.write_sounds(path, chances)
        else:
            media_files.write_interleaved(path, source, chances)
        return
    texts = shard_texts(parameters, source, shard)
    if source.kind == "parquet_text":
        file_formats.write_parquet_text(path, source, texts)
    else:
        file_formats.write_jsonl(path, source, shard, texts)


def shard_texts(parameters: CorpusParameters, source: SourceShape, shard: int) -> list[str]:
    """All documents of a shard of a text source; a document of n tokens has n units."""
    key = sampling.shard_key(parameters, source.name, shard)
    keys = sampling.row_keys(key, sampling.shard_rows(source, shard))
    counts: Any = sampling.row_lengths(source.lengths, keys)
    units = words.draw_units(sampling.position_values(keys, counts), counts)
    return words.build_texts(units, counts, source.mark)
