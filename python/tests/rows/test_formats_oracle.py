"""Every format against its own library, document by document: row reads and delivered batches."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from corpora import (
    BOS,
    EOD,
    VOCABULARY,
    Tokens,
    cut,
    gzip_members,
    job_config,
    json_lines,
    made_up_documents,
    made_up_texts,
    token_lines,
    train_tokenizer,
    with_specials,
    write_megatron,
    zstd_frames,
)
from delivered import documents_of, read_pieces
from overlord._workers.tokenizer_worker import worker_command

import overlord as ol

Expected = Sequence[Tokens | None]  # None: a row that cannot be used
SHUFFLES = ["none", "window", "full"]


def open_source(folder: Path, source: dict[str, Any], bad: int = 0, **top: Any) -> ol.Job:
    """A job over one source `s`, with room for `bad` rows in quarantine."""
    source = {"window_rows": 16, "bad_rows_allowed": bad, **source}
    return ol.job(job_config(folder, {"s": source}, **top))


def check_rows(job: ol.Job, expected: Expected) -> None:
    """Every row, read alone, is what the format's own library reads."""
    native = job.open_stream().native
    assert job.open_stream().infos[0]["rows"] == len(expected)
    for row, document in enumerate(expected):
        got = native.read_row(0, row, worker_command())
        assert got["row"] == row
        if document is None:
            assert got["bad"] and f"row {got['row_in_shard']}" in got["bad"]
        else:
            assert got["bad"] is None and got["tokens"] == document.tolist()


def check_batches(job: ol.Job, source: dict[str, Any], expected: Expected) -> None:
    """Every good row arrives once, whole, in the place its lineage says."""
    native = job.open_stream().native
    with job.train() as loader:
        documents = documents_of(read_pieces(loader))
        reported = {note["row"] for note in loader.quarantine() if note["pass"] == 0}
    rows = {name: native.locate(*name)["row"] for name in documents}
    good = {row for row, document in enumerate(expected) if document is not None}
    assert sorted(rows.values()) == sorted(good)
    if source.get("shuffle") == "none":
        assert all(row == position for (_, _, position), row in rows.items())
    for name, delivered in documents.items():
        raw = expected[rows[name]]
        assert raw is not None and delivered.tolist() == with_specials(raw, source).tolist()
    assert reported == set(range(len(expected))) - good


def check_source(
    folder: Path, source: dict[str, Any], expected: Expected, shuffles: Sequence[str] = SHUFFLES
) -> None:
    """Rows and batches of a source, in every order."""
    bad = sum(document is None for document in expected)
    check_rows(open_source(folder, source, bad), expected)
    for shuffle in shuffles:
        shuffled = {**source, "shuffle": shuffle}
        check_batches(open_source(folder, shuffled, bad), shuffled, expected)


def as_expected(values: Sequence[Any]) -> list[Tokens | None]:
    """Lists as a library reads them; null, empty and lists with a null inside are bad rows."""
    return [np.array(value, np.int64) if value and None not in value else None for value in values]


def bytes_of(texts: Sequence[str | None]) -> list[Tokens | None]:
    """Texts as the built-in byte tokenizer sees them."""
    return [
        np.frombuffer(text.encode(), np.uint8).astype(np.int64) if text and text.strip() else None
        for text in texts
    ]


TEXT = {"text": "text", "tokenizer": "bytes", "eod": EOD}
TOKENS = {"tokens": "tokens", "eod": EOD}


# Parquet, by pyarrow


def parquet_shards(
    folder: Path, arrays: Sequence[pa.Array], column: str, **options: Any
) -> list[Any]:
    """Writes one shard per array, with a column that nobody asks for; gives what pyarrow reads."""
    values: list[Any] = []
    for number, array in enumerate(arrays):
        table = pa.table({"other": pa.array(["x" * 50] * len(array)), column: array})
        path = folder / f"part-{number}.parquet"
        pq.write_table(table, path, **{"row_group_size": 37, **options})
        values += pq.read_table(path, columns=[column]).column(0).to_pylist()
    return values


LIST_TYPES: dict[str, tuple[pa.DataType, int]] = {
    "uint8": (pa.list_(pa.uint8()), 256),
    "int8": (pa.list_(pa.int8()), 128),
    "uint16": (pa.list_(pa.uint16()), VOCABULARY),
    "int16": (pa.list_(pa.int16()), VOCABULARY),
    "uint32": (pa.list_(pa.uint32()), VOCABULARY),
    "int32": (pa.list_(pa.int32()), VOCABULARY),
    "uint64": (pa.list_(pa.uint64()), VOCABULARY),
    "int64": (pa.list_(pa.int64()), VOCABULARY),
    "large_list": (pa.large_list(pa.int32()), VOCABULARY),
    "required": (pa.list_(pa.field("element", pa.int32(), nullable=False)), VOCABULARY),
}


@pytest.mark.parametrize("kind", LIST_TYPES)
def test_parquet_token_lists(kind: str, tmp_path: Path) -> None:
    shape, vocabulary = LIST_TYPES[kind]
    documents = [d.tolist() for d in made_up_documents(150, vocabulary=vocabulary - 1)]
    arrays = [pa.array(documents[:90], shape), pa.array(documents[90:], shape)]
    values = parquet_shards(tmp_path, arrays, "tokens")
    source = {"files": "*.parquet", **TOKENS}
    check_source(tmp_path, source, as_expected(values), ["window"])


def test_parquet_fixed_size_lists(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(1, VOCABULARY, (120, 24)).tolist()
    values = parquet_shards(tmp_path, [pa.array(rows, pa.list_(pa.int32(), 24))], "tokens")
    check_source(tmp_path, {"files": "*.parquet", **TOKENS}, as_expected(values))


WRITERS: list[dict[str, Any]] = [
    {"compression": "none"},
    {"compression": "snappy"},
    {"compression": "zstd"},
    {"compression": "gzip"},
    {"compression": "lz4"},
    {"compression": "brotli"},
    {"use_dictionary": False},
    {"use_dictionary": True, "row_group_size": 1000},
    {"use_dictionary": True, "dictionary_pagesize_limit": 64},  # falls back in mid-chunk
    {"data_page_version": "2.0", "compression": "zstd"},
    {"data_page_size": 128, "row_group_size": 7},
    {"write_page_checksum": True, "write_page_index": True},
    {"column_encoding": {"other": "PLAIN", "tokens.list.element": "DELTA_BINARY_PACKED"}},
]


@pytest.mark.parametrize(
    "options", WRITERS, ids=lambda options: "-".join(map(str, options.values()))
)
def test_parquet_as_writers_write_it(options: dict[str, Any], tmp_path: Path) -> None:
    if "column_encoding" in options:
        options = {"use_dictionary": False, **options}
    documents = [d.tolist() for d in made_up_documents(200, seed=5)]
    arrays = [
        pa.array(documents[:120], pa.list_(pa.int32())),
        pa.array(documents[120:], pa.list_(pa.int32())),
    ]
    values = parquet_shards(tmp_path, arrays, "tokens", **options)
    check_source(tmp_path, {"files": "*.parquet", **TOKENS}, as_expected(values), ["window"])


def test_parquet_nulls_keep_their_places(tmp_path: Path) -> None:
    documents: list[Any] = [d.tolist() for d in made_up_documents(100, seed=6)]
    for row in (0, 3, 36, 37, 99):
        documents[row] = None
    documents[50] = []
    documents[60] = [4, None, 5]
    values = parquet_shards(tmp_path, [pa.array(documents, pa.list_(pa.int32()))], "tokens")
    expected = as_expected(values)
    assert sum(document is None for document in expected) == 7
    check_source(tmp_path, {"files": "*.parquet", **TOKENS}, expected)


TEXT_TYPES = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}


@pytest.mark.parametrize("kind", TEXT_TYPES)
def test_parquet_text(kind: str, tmp_path: Path) -> None:
    texts: list[str | None] = [*made_up_texts(120, longest=8)]
    texts[11], texts[12], texts[80] = None, "", " \t\n"
    array = pa.array(texts, pa.string()).cast(TEXT_TYPES[kind])
    values = parquet_shards(tmp_path, [array.slice(0, 70), array.slice(70)], "text")
    check_source(tmp_path, {"files": "*.parquet", **TEXT}, bytes_of(values))


MASK_TYPES = {
    "bool": pa.list_(pa.bool_()),
    "uint8": pa.list_(pa.uint8()),
    "int32": pa.list_(pa.int32()),
}


def mask_weights(mask: Sequence[Any], source: dict[str, Any]) -> list[int]:
    """The weight of every token: that of the next one; bos and eod carry loss."""
    around = [*([1] if "bos" in source else []), *map(int, mask), *([1] if "eod" in source else [])]
    return [*around[1:], 0]


def check_masks(folder: Path, source: dict[str, Any], masks: Sequence[Sequence[Any]]) -> None:
    source = {**source, "shuffle": "none"}
    with open_source(folder, source).train() as loader:
        pieces = read_pieces(loader)
    weights: dict[int, list[int]] = {}
    for piece in sorted(pieces, key=lambda piece: (piece.id, piece.first)):
        weights.setdefault(piece.id[2], []).extend(int(weight) for weight in piece.weights)
    assert weights == {row: mask_weights(mask, source) for row, mask in enumerate(masks)}


def random_masks(documents: Sequence[Tokens]) -> list[list[int]]:
    rng = np.random.default_rng(9)
    masks = [rng.integers(0, 2, len(document)).tolist() for document in documents]
    masks[4] = [0] * len(documents[4])
    return masks


@pytest.mark.parametrize("kind", MASK_TYPES)
@pytest.mark.parametrize("specials", [{}, {"eod": EOD}, {"bos": BOS, "eod": EOD}])
def test_parquet_loss_masks(kind: str, specials: dict[str, int], tmp_path: Path) -> None:
    documents = made_up_documents(90, seed=8, longest=150)
    masks = random_masks(documents)
    table = pa.table(
        {
            "mask": pa.array(masks, pa.list_(pa.uint8())).cast(MASK_TYPES[kind]),
            "tokens": pa.array([d.tolist() for d in documents], pa.list_(pa.uint16())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    source = {"files": "a.parquet", "tokens": "tokens", "mask": "mask", **specials}
    check_masks(tmp_path, source, masks)


# JSONL, by json, gzip and zstandard


def lines_of(data: bytes, column: str) -> list[Any]:
    """What the json module reads of it."""
    text = data.decode("utf-8-sig")
    return [json.loads(line).get(column) for line in text.split("\n") if line.strip()]


LONG_TEXTS = made_up_texts(4000, seed=3, longest=60)  # over a megabyte: several restart points


def unzstd(data: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO(data), read_across_frames=True
    ) as file:
        return file.read()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "plain": ("a.jsonl", bytes, bytes),
    "gzip": ("a.jsonl.gz", lambda data: gzip_members([data]), gzip.decompress),
    "gzip-members": ("a.jsonl.gz", lambda data: gzip_members(cut(data, 9)), gzip.decompress),
    "gzip-stored": ("a.jsonl.gz", lambda data: gzip_members(cut(data, 3), 0), gzip.decompress),
    "gzip-padded": ("a.jsonl.gz", lambda data: gzip_members([data]) + bytes(512), gzip.decompress),
    "zstd": ("a.jsonl.zst", lambda data: zstd_frames([data]), unzstd),
    "zstd-frames": ("a.jsonl.zst", lambda data: zstd_frames(cut(data, 9)), unzstd),
    "zstd-unsized": ("a.jsonl.zst", lambda data: zstd_frames(cut(data, 2), sized=False), unzstd),
    "zstd-skippable": (
        "a.jsonl.zst",
        lambda data: b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd" + zstd_frames(cut(data, 3)),
        unzstd,
    ),
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("lines", ["text", "tokens"])
def test_jsonl(coding: str, lines: str, tmp_path: Path) -> None:
    name, pack, unpack = CODINGS[coding]
    if lines == "text":
        data = json_lines({"n": 1.5, "text": text} for text in made_up_texts(200))
    else:
        data = token_lines(made_up_documents(200))
    (tmp_path / name).write_bytes(pack(data))
    values = lines_of(unpack((tmp_path / name).read_bytes()), lines)
    assert len(values) == 200
    expected = bytes_of(values) if lines == "text" else as_expected(values)
    check_source(tmp_path, {"files": name, **(TEXT if lines == "text" else TOKENS)}, expected)


@pytest.mark.parametrize("coding", ["gzip", "gzip-members", "zstd", "zstd-unsized"])
def test_long_compressed_jsonl(coding: str, tmp_path: Path) -> None:
    """Blocks in the middle of a long file are entered at restart points."""
    name, pack, unpack = CODINGS[coding]
    (tmp_path / name).write_bytes(pack(json_lines({"text": text} for text in LONG_TEXTS)))
    texts = lines_of(unpack((tmp_path / name).read_bytes()), "text")
    expected = bytes_of(texts)
    job = open_source(tmp_path, {"files": name, **TEXT}, context=2048, bins=64)
    native = job.open_stream().native
    for row in [*range(0, len(texts), 397), len(texts) - 1]:
        assert native.read_row(0, row, [])["text"] == texts[row]
    source = {"files": name, **TEXT, "shuffle": "window", "window_rows": 128}
    job = open_source(tmp_path, source, context=2048, bins=64)
    assert job.open_stream().infos[0]["blocks"] > 2
    check_batches(job, source, expected)


ODD_LINES = (
    b'\xef\xbb\xbf{"text": "after a byte order mark"}\r\n'
    b"\r\n   \n"
    b'{"other": [1, {"text": "not this"}], "text": "in \\u00fc \\ud83d\\ude42 \\n", "z": null}\r\n'
    b'\t{ "text" : "spaces around" }  \n'
    b'{"text": "\\u0000 a NUL"}\n'
    b'{"te\\u0078t": "an escaped key"}\n'
    b'{"text": "no newline at the end"}'
)


@pytest.mark.parametrize("coding", ["plain", "gzip-members", "zstd-frames"])
def test_jsonl_odd_but_fine(coding: str, tmp_path: Path) -> None:
    name, pack, _ = CODINGS[coding]
    (tmp_path / name).write_bytes(pack(ODD_LINES))
    values = lines_of(ODD_LINES, "text")
    assert len(values) == 6
    check_source(tmp_path, {"files": name, **TEXT}, bytes_of(values))


def test_jsonl_loss_masks(tmp_path: Path) -> None:
    documents = made_up_documents(90, seed=8, longest=150)
    masks = random_masks(documents)
    rows = [
        {"tokens": d.tolist(), "mask": [bool(m) for m in mask] if number % 2 else mask}
        for number, (d, mask) in enumerate(zip(documents, masks, strict=True))
    ]
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows))
    source = {"files": "a.jsonl", "tokens": "tokens", "mask": "mask", "bos": BOS, "eod": EOD}
    check_masks(tmp_path, source, masks)


# Megatron .bin/.idx, by the layout written down in corpora.py


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "uint16"])
def test_megatron(dtype: str, tmp_path: Path) -> None:
    vocabulary = min(np.iinfo(dtype).max, VOCABULARY - 1)
    rng = np.random.default_rng(4)
    expected: list[Tokens | None] = []
    for shard in range(3):
        documents = made_up_documents(50, seed=shard, vocabulary=vocabulary)
        parts = [np.array_split(document, rng.integers(1, 4)) for document in documents]
        write_megatron(tmp_path / f"part-{shard}", parts, dtype)
        expected += documents
    check_source(tmp_path, {"files": "*.bin", "eod": EOD}, expected)


def test_megatron_empty_documents_keep_their_places(tmp_path: Path) -> None:
    documents = made_up_documents(40)
    parts = [[document] for document in documents]
    parts[0], parts[7], parts[39] = [], [np.array([], np.int64)], []
    write_megatron(tmp_path / "a", parts, "int32")
    expected = [d if row not in (0, 7, 39) else None for row, d in enumerate(documents)]
    check_source(tmp_path, {"files": "a.bin", "eod": EOD}, expected)


# Text through Hugging Face tokenizers


@pytest.mark.parametrize("add_special_tokens", [False, True])
@pytest.mark.parametrize("suffix", ["jsonl.zst", "parquet"])
def test_huggingface_text(suffix: str, add_special_tokens: bool, tmp_path: Path) -> None:
    texts = made_up_texts(150, seed=2)
    tokenizer = train_tokenizer(tmp_path / "tokenizer.json", texts)
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.table({"text": texts}), path, row_group_size=40)
    else:
        path.write_bytes(zstd_frames(cut(json_lines({"text": text} for text in texts), 4)))
    declared = {"path": str(tmp_path / "tokenizer.json"), "add_special_tokens": add_special_tokens}
    source = {"files": path.name, "text": "text", "tokenizer": "bpe", "eod": EOD, "window_rows": 16}
    expected = [
        np.array(tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)
        for text in texts
    ]
    job = ol.job(job_config(tmp_path, {"s": source}, tokenizers={"bpe": declared}))
    check_rows(job, expected)
    check_batches(job, source, expected)
    first = job.open_stream().native.read_row(0, 0, worker_command())
    assert tokenizer.decode(first["tokens"]) == texts[0] == first["text"]


# One pass and the next, all formats together


def test_every_document_once_per_pass(tmp_path: Path) -> None:
    """A mixture of all formats, three passes: each document once in each, in another order."""
    documents = {name: made_up_documents(60, seed=n) for n, name in enumerate(("j", "m", "p"))}
    (tmp_path / "j.jsonl").write_bytes(token_lines(documents["j"]))
    write_megatron(tmp_path / "m", [[document] for document in documents["m"]], "uint16")
    lists = pa.array([d.tolist() for d in documents["p"]], pa.list_(pa.int32()))
    pq.write_table(pa.table({"tokens": lists}), tmp_path / "p.parquet", row_group_size=16)
    shared = {"window_rows": 16, "at_end": "repeat", "eod": EOD}
    sources = {
        "j": {"files": "j.jsonl", "tokens": "tokens", **shared},
        "m": {"files": "m.bin", **shared},
        "p": {"files": "p.parquet", "tokens": "tokens", **shared},
    }
    job = ol.job(job_config(tmp_path, sources, steps=60))
    opened = job.open_stream()
    assert opened.source_names == ["j", "m", "p"]
    with job.train() as loader:
        delivered = documents_of(read_pieces(loader))
    for number, name in enumerate(opened.source_names):
        orders = []
        for number_of_pass in range(2):
            rows = [opened.native.locate(number, number_of_pass, p)["row"] for p in range(60)]
            assert sorted(rows) == list(range(60))
            orders.append(rows)
            for position, row in enumerate(rows):
                whole = with_specials(documents[name][row], sources[name])
                assert delivered[number, number_of_pass, position].tolist() == whole.tolist()
        assert orders[0] != orders[1]
