"""The generated corpus: shapes as published, verifiable bytes, formats as libraries read them."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
from overlord._src.corpus import (
    DEMO,
    STARTER,
    CorpusParameters,
    SourceShape,
    ensure_corpus,
    file_formats,
    generate,
    sampling,
    words,
)
from overlord._src.corpus.parameters import BOOKS, CAPTIONS, FORUM, WEB, Lengths

SMALL = CorpusParameters(
    seed=5,
    sources=tuple(
        replace(source, documents=max(4, source.documents // 400), shards=2)
        for source in DEMO.sources
    ),
)


def lengths_of(shape: Lengths, count: int = 400_000) -> Any:
    return sampling.row_lengths(shape, sampling.row_keys(1, count))


def test_caption_lengths_match_coyo() -> None:
    lengths = lengths_of(CAPTIONS)
    assert lengths.min() >= 3 and lengths.max() <= 1523
    assert lengths.mean() == pytest.approx(17.2, rel=0.02)
    assert (lengths > 64).mean() == pytest.approx(0.0177, abs=0.001)
    assert lengths[lengths > 64].sum() / lengths.sum() == pytest.approx(0.090, abs=0.006)


def test_web_lengths_match_their_quantiles() -> None:
    lengths = lengths_of(WEB)
    assert lengths.mean() == pytest.approx(700, rel=0.02)
    median, p90, p99 = np.quantile(lengths, [0.5, 0.9, 0.99])
    assert median == pytest.approx(425, rel=0.02)
    assert p90 == pytest.approx(1526, rel=0.02)
    assert p99 == pytest.approx(4400, rel=0.04)
    assert (lengths > 4096).mean() == pytest.approx(0.012, abs=0.001)
    assert lengths[lengths > 4096].sum() / lengths.sum() == pytest.approx(0.10, abs=0.01)


def test_means_span_from_forum_to_books() -> None:
    assert BOOKS.mean / FORUM.mean == pytest.approx(250, rel=0.01)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> generate.Corpus:
    return ensure_corpus(tmp_path_factory.mktemp("corpus"), SMALL)


def tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()


def test_it_is_deterministic_and_made_once(small: generate.Corpus, tmp_path: Path) -> None:
    again = ensure_corpus(tmp_path, SMALL)
    assert again.made and tree_hash(tmp_path) == tree_hash(small.folder)
    assert not ensure_corpus(tmp_path, SMALL).made
    victim = next((tmp_path / "forum").iterdir())
    victim.write_bytes(victim.read_bytes()[:-1])
    assert ensure_corpus(tmp_path, SMALL).made
    assert ensure_corpus(tmp_path, replace(SMALL, seed=6)).made


def test_shards_regenerate_independently(small: generate.Corpus, tmp_path: Path) -> None:
    for source in SMALL.sources:
        path = tmp_path / generate.shard_path(small.folder, source, 1).name
        generate.write_shard(path, SMALL, source, 1)
        assert path.read_bytes() == generate.shard_path(small.folder, source, 1).read_bytes()


def expected_rows(source: SourceShape, shard: int) -> list[Any]:
    tokens, counts = sampling.shard_tokens(
        SMALL, source, shard, words.VOCABULARY, words.FIRST_TOKEN
    )
    return np.split(tokens, np.cumsum(counts)[:-1])


def test_parquet_tokens_are_verifiable(small: generate.Corpus) -> None:
    for name, item in (("chat", pa.int32()), ("captions", pa.uint16())):
        source = SMALL.source(name)
        table = pq.read_table(generate.shard_path(small.folder, source, 0))
        assert table.schema.field("input_ids").type == pa.list_(item)
        rows = table["input_ids"].to_pylist()
        assert rows == [row.tolist() for row in expected_rows(source, 0)]
    masks = pq.read_table(generate.shard_path(small.folder, SMALL.source("chat"), 0))["loss_mask"]
    for mask in masks.to_pylist():
        assert mask == sorted(mask) and mask[0] == 0 and sum(mask) == len(mask) * 2 // 3


def read_megatron(path: Path) -> tuple[Any, list[Any]]:
    """As Megatron-LM's IndexedDataset reads it."""
    index = path.with_suffix(".idx").read_bytes()
    assert index[:9] == file_formats.MEGATRON_MAGIC
    version, code = np.frombuffer(index, "<u8", 1, 9)[0], index[17]
    sequences, documents = np.frombuffer(index, "<u8", 2, 18)
    lengths = np.frombuffer(index, "<i4", sequences, 34)
    pointers = np.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
    document_index = np.frombuffer(index, "<i8", documents, 34 + 12 * sequences)
    assert version == 1 and document_index.tolist() == list(range(sequences + 1))
    dtype = {4: np.int32, 8: np.uint16}[code]
    data = path.read_bytes()
    rows = [np.frombuffer(data, dtype, n, p) for n, p in zip(lengths, pointers, strict=True)]
    assert sum(lengths) * np.dtype(dtype).itemsize == len(data)
    return dtype, rows


def test_megatron_files(small: generate.Corpus) -> None:
    for name, dtype in (("law", np.int32), ("books", np.uint16)):
        source = SMALL.source(name)
        found, rows = read_megatron(generate.shard_path(small.folder, source, 1))
        assert found is dtype
        for row, expected in zip(rows, expected_rows(source, 1), strict=True):
            assert np.array_equal(row, expected)


def read_texts(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        texts: list[str] = pq.read_table(path)["text"].to_pylist()
        return texts
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        data = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return [json.loads(line)["text"] for line in data.decode().splitlines()]


def test_a_text_has_as_many_tokens_as_its_length(small: generate.Corpus) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(small.folder / generate.TOKENIZER))
    kinds = set()
    for source in SMALL.sources:
        if source.kind in ("parquet_tokens", "megatron", "pairs", "sounds", "interleaved"):
            continue
        kinds.add(source.kind)
        texts = read_texts(generate.shard_path(small.folder, source, 0))
        encoded = tokenizer.encode_batch(texts)
        assert [len(row.ids) for row in encoded] == [len(row) for row in expected_rows(source, 0)]
        assert max(max(row.ids) for row in encoded) < words.VOCABULARY
        assert tokenizer.decode(encoded[0].ids).strip() == texts[0]
    assert kinds == {"parquet_text", "jsonl", "jsonl_gz", "jsonl_zst"}


def test_words_follow_zipf() -> None:
    values = sampling.position_values(sampling.row_keys(3, 1), np.array([400_000]))
    units = words.draw_units(values, np.array([400_000]))
    counts = np.bincount(units, minlength=len(words.word_list()) + 1)
    assert counts[0] / counts.sum() == pytest.approx(1 / 14, rel=0.02)
    assert counts[1] > 5 * counts[20] > 25 * counts[200] / 2
    assert len(set(words.word_list())) == len(words.word_list())


def test_demo_has_every_format_and_some_100_mb() -> None:
    assert {source.kind for source in DEMO.sources} == set(generate.SUFFIXES)
    assert len(DEMO.sources) >= 6 and len(STARTER.sources) >= 3
    assert {"pairs", "sounds", "interleaved"} <= set(generate.SUFFIXES)
    tokens = sum(source.lengths.mean * source.documents for source in DEMO.sources)
    assert 20e6 < tokens < 60e6
