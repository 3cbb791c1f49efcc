"""Bad files: refused when they are indexed, by name, with the place, in bounded memory.

Numbers are those of the catalogue of bad inputs (research/reliability.md, 5).
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import (
    EOD,
    gzip_members,
    index_file,
    job_config,
    made_up_documents,
    token_lines,
    write_megatron,
)
from corpora import zstd_frames as zstd

import overlord as ol

DOCUMENTS = made_up_documents(100)
LISTS = pa.array([document.tolist() for document in DOCUMENTS], pa.list_(pa.int32()))
TOKENS = {"tokens": "t", "eod": EOD}
TEXT = {"text": "t", "tokenizer": "bytes"}


def refused(folder: Path, source: dict[str, Any], error: type[Exception], *parts: str) -> None:
    """Opening names source, shard and what is wrong, and leaves no index behind."""
    with pytest.raises(error) as caught:
        ol.job(job_config(folder, {"web": source})).open_stream()
    for part in ("'web'", *parts):
        assert part in str(caught.value), str(caught.value)
    assert not [*(folder / "index").glob("web-*.index")]


# Parquet


def parquet_bytes(folder: Path, column: pa.Array = LISTS, **options: Any) -> bytes:
    path = folder / "made.tmp"
    pq.write_table(pa.table({"t": column}), path, **{"row_group_size": 25, **options})
    data = path.read_bytes()
    path.unlink()
    return data


def footer_bytes(data: bytes) -> int:
    return int(struct.unpack("<I", data[-8:-4])[0])


def varint(value: int) -> bytes:
    """Thrift's compact encoding of a number without sign."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def with_footer(data: bytes, footer: bytes) -> bytes:
    return data + footer + struct.pack("<I", len(footer)) + b"PAR1"


def broken_footer(data: bytes) -> bytes:
    size = footer_bytes(data)
    return data[: -size - 8] + b"\xff" * size + data[-8:]


def without_middle(data: bytes) -> bytes:
    return data[:500] + data[-footer_bytes(data) - 8 :]


PARQUET_DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "33 empty": (lambda data: b"", "0 bytes"),
    "33 tiny": (lambda data: b"PAR1", "too short"),
    "33 cut": (lambda data: data[: len(data) // 2], "cut short"),
    "33 bad magic": (lambda data: data[:-1] + b"X", "magic"),
    "33 a web page": (lambda data: b"<html>not found</html>" * 99, "magic"),
    "33 footer longer than the file": (
        lambda data: data[:-8] + struct.pack("<I", 1 << 30) + b"PAR1",
        "footer length 1073741824 (at offset",
    ),
    "33 broken footer": (broken_footer, "footer"),
    "33 lost row groups": (without_middle, "row group 0"),
    "35 a list of a billion": (
        lambda data: with_footer(b"PAR1", b"\x15\x02\x19\xfc" + varint(10**9)),
        "footer",
    ),
    "35 a string of a billion": (
        lambda data: with_footer(b"PAR1", b"\x15\x02\x19\x2c\x48" + varint(10**9)),
        "footer",
    ),
}


@pytest.mark.parametrize("entry", PARQUET_DAMAGE)
def test_damaged_parquet(entry: str, tmp_path: Path) -> None:
    damage, part = PARQUET_DAMAGE[entry]
    good = parquet_bytes(tmp_path)
    (tmp_path / "a.parquet").write_bytes(good)
    (tmp_path / "b.parquet").write_bytes(damage(good))
    refused(tmp_path, {"files": "*.parquet", **TOKENS}, ol.BadDataError, "b.parquet", part)


def declare_rows(data: bytes, true_rows: int, rows: int) -> bytes:
    """A footer that tells another number of rows, in the file and in its row group."""
    size = footer_bytes(data)
    footer = data[-size - 8 : -8].replace(varint(2 * true_rows), varint(2 * rows))
    return with_footer(data[: -size - 8], footer)


def patch_codec(data: bytes, code: int) -> bytes:
    """The uncompressed file with another codec in its footer: the field after the path."""
    assert data.count(b"\x07element\x15\x00") == 1
    return data.replace(b"\x07element\x15\x00", b"\x07element\x15" + bytes([2 * code]))


def test_parquet_of_a_codec_nobody_has(tmp_path: Path) -> None:
    """36: told at the start, not when the row group's turn comes."""
    data = parquet_bytes(tmp_path, compression="none", row_group_size=200)
    (tmp_path / "a.parquet").write_bytes(patch_codec(data, 3))
    assert pq.read_metadata(tmp_path / "a.parquet").row_group(0).column(0).compression == "LZO"
    source = {"files": "a.parquet", **TOKENS}
    refused(tmp_path, source, ol.OverlordError, "a.parquet", "row group 0", "lzo")


@pytest.mark.parametrize("plain_footer", [False, True])
def test_encrypted_parquet(plain_footer: bool, tmp_path: Path) -> None:
    """36: without a key, with an encrypted footer and with a plain one."""
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class InMemory(encryption.KmsClient):  # type: ignore[misc, name-defined]
        def __init__(self, _: Any) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, wrapped: bytes, _: str) -> bytes:
            return base64.b64decode(wrapped)

    config = encryption.EncryptionConfiguration(
        footer_key="footer",
        column_keys={"column": ["t.list.element"]},
        plaintext_footer=plain_footer,
    )
    factory = encryption.CryptoFactory(InMemory)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    table = pa.table({"t": LISTS})
    with pq.ParquetWriter(
        tmp_path / "a.parquet", table.schema, encryption_properties=properties
    ) as writer:
        writer.write_table(table)
    source = {"files": "a.parquet", **TOKENS}
    refused(tmp_path, source, ol.OverlordError, "a.parquet", "encrypted")


PICKLE = {"ARROW:extension:name": "arrow.py_extension_type"}


def test_extension_types_are_never_loaded(tmp_path: Path) -> None:
    """39: a type whose metadata is a pickle; nothing of it runs."""

    class Touch:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    metadata = {**PICKLE, "ARROW:extension:metadata": pickle.dumps(Touch(), 0)}
    schema = pa.schema([pa.field("t", LISTS.type, metadata=metadata)])
    pq.write_table(pa.table([LISTS], schema=schema), tmp_path / "a.parquet")
    source = {"files": "a.parquet", **TOKENS}
    refused(tmp_path, source, ol.InvalidArgumentError, "a.parquet", "'t'", "extension")
    assert not (tmp_path / "ran").exists()


def nullable(is_nullable: bool) -> pa.Table:
    schema = pa.schema([pa.field("t", LISTS.type, nullable=is_nullable)])
    return pa.table([LISTS.slice(0, 9)], schema=schema)


DRIFTS: dict[str, tuple[pa.Table, type[Exception], tuple[str, ...]]] = {
    "missing column": (pa.table({"u": LISTS}), ol.NotFoundError, ("has no column 't'", "'u'")),
    "strings": (
        pa.table({"t": pa.array([["a"]])}),
        ol.InvalidArgumentError,
        ("list<element: string>", "integers"),
    ),
    "another width": (
        pa.table({"t": LISTS.slice(0, 9).cast(pa.list_(pa.int64()))}),
        ol.InvalidArgumentError,
        ("a.parquet", "int32", "int64"),
    ),
    "nullability": (nullable(False), ol.InvalidArgumentError, ("a.parquet", "null")),
}


@pytest.mark.parametrize("drift", DRIFTS)
def test_schema_drift_between_shards(drift: str, tmp_path: Path) -> None:
    """37: stopped when the manifest is built, with what both have."""
    table, error, parts = DRIFTS[drift]
    pq.write_table(nullable(True), tmp_path / "a.parquet")
    pq.write_table(table, tmp_path / "b.parquet")
    refused(tmp_path, {"files": "*.parquet", **TOKENS}, error, "b.parquet", *parts)


WRONG_COLUMNS: dict[str, tuple[pa.Array, dict[str, str], str]] = {
    "fractions": (pa.array([[1.5]]), {"tokens": "t"}, "tokens must be a list of integers"),
    "lists of lists": (pa.array([[[1]]]), {"tokens": "t"}, "tokens must be a list of integers"),
    "text as tokens": (pa.array(["a"]), {"tokens": "t"}, "tokens must be a list of integers"),
    "numbers as text": (pa.array([1, 2]), TEXT, "text must be string"),
    "lists as text": (LISTS, TEXT, "text must be string"),
    "a struct": (pa.array([{"x": 1}]), {"tokens": "t"}, "tokens must be a list of integers"),
}


@pytest.mark.parametrize("kind", WRONG_COLUMNS)
def test_columns_of_a_wrong_type(kind: str, tmp_path: Path) -> None:
    column, chosen, part = WRONG_COLUMNS[kind]
    pq.write_table(pa.table({"t": column}), tmp_path / "a.parquet")
    source = {"files": "a.parquet", **chosen}
    refused(tmp_path, source, ol.InvalidArgumentError, "a.parquet", "'t'", part)


# Compressed JSONL

LINES = token_lines(DOCUMENTS * 5, "t")


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :]


SPACES = LINES + b" " * 100_000_000
COMPRESSED: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "gzip cut": ("gz", lambda: gzip_members([LINES])[:-20], "cut short at offset"),
    "gzip checksum": ("gz", lambda: gzip_members([LINES])[:-8] + bytes(8), "near offset"),
    "gzip flipped": ("gz", lambda: flipped(gzip_members([LINES])), "near offset"),
    "gzip by name only": ("gz", lambda: LINES, "gzip"),
    "gzip with garbage": ("gz", lambda: gzip_members([LINES]) + b"garbage", "garbage"),
    "gzip empty": ("gz", lambda: b"", "empty"),
    "46 gzip bomb": ("gz", lambda: gzip_members([SPACES], 9), "max_expansion"),
    "zstd cut": ("zst", lambda: zstd([LINES])[:-50], "cut short at offset"),
    "zstd flipped": ("zst", lambda: flipped(zstd([LINES])), "near offset"),
    "zstd by name only": ("zst", lambda: LINES, "zstd"),
    "zstd with garbage": ("zst", lambda: zstd([LINES]) + b"garbage", "near offset"),
    "46 zstd bomb": ("zst", lambda: zstd([SPACES]), "max_expansion"),
    "46 zstd bomb of unknown size": ("zst", lambda: zstd([SPACES], sized=False), "max_expansion"),
}


@pytest.mark.parametrize("entry", COMPRESSED)
def test_damaged_compressed_lines(entry: str, tmp_path: Path) -> None:
    suffix, make, part = COMPRESSED[entry]
    (tmp_path / f"a.jsonl.{suffix}").write_bytes(make())
    source = {"files": f"a.jsonl.{suffix}", **TOKENS, "limits": {"max_expansion": 100}}
    refused(tmp_path, source, ol.BadDataError, f"a.jsonl.{suffix}", part)


@pytest.mark.parametrize("pack", [gzip_members, zstd])
def test_compressed_by_content_not_by_name(pack: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(pack([LINES]))
    source = {"files": "a.jsonl", **TOKENS}
    refused(tmp_path, source, ol.BadDataError, "a.jsonl", "name it .jsonl.")


# Memory: what a tiny file claims is not what it gets

HUNGRY = """
import json, resource, sys
import overlord as ol
import pyarrow.parquet
config = json.loads(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    with ol.job(config).train() as loader:
        for batch in loader:
            pass
    outcome = "served"
except ol.OverlordError as error:
    outcome = f"{type(error).__name__}: {error}"
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([outcome, grown * 1024]))
"""


def claims_of_rows(folder: Path) -> dict[str, Any]:
    """35: a billion rows in a file of a few kilobytes."""
    rows = 12345
    small = parquet_bytes(folder, pa.array([[1]] * rows, pa.list_(pa.int32())), row_group_size=rows)
    (folder / "a.parquet").write_bytes(declare_rows(small, rows, 10**9))
    assert pq.read_metadata(folder / "a.parquet").num_rows == 10**9
    return {"files": "a.parquet", **TOKENS, "bad_rows_allowed": 10}


def one_long_line(folder: Path) -> dict[str, Any]:
    """53, 46: a line of 300 MB, in a compressed file that may expand so far."""
    line = b'{"t": "' + b"ab" * 150_000_000 + b'"}\n'
    (folder / "a.jsonl.zst").write_bytes(zstd([LINES + line + LINES]))
    return {
        "files": "a.jsonl.zst",
        **TOKENS,
        "bad_rows_allowed": 1,
        "limits": {"max_expansion": 10**6, "max_document": "1MiB"},
    }


@pytest.mark.parametrize("make", [claims_of_rows, one_long_line])
def test_claims_cost_no_memory(make: Callable[[Path], dict[str, Any]], tmp_path: Path) -> None:
    config = job_config(tmp_path, {"web": make(tmp_path)})
    command = [sys.executable, "-c", HUNGRY, json.dumps(config)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    outcome, grown = json.loads(output)
    if make is claims_of_rows:
        assert "Error" in outcome and "web" in outcome and "a.parquet" in outcome
    else:
        assert outcome == "served"
    assert grown < 200 << 20


# Megatron


def patched(at: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + value + data[at + len(value) :]


ROWS = len(DOCUMENTS)
LENGTHS, POINTERS, BOUNDARIES = 34, 34 + 4 * ROWS, 34 + 12 * ROWS
IDX_DAMAGE: dict[str, tuple[Callable[[bytes], bytes], type[Exception], str]] = {
    "magic": (patched(0, b"XX"), ol.BadDataError, "MMIDIDX"),
    "version": (patched(9, struct.pack("<Q", 2)), ol.VersionMismatchError, "version 2"),
    "float dtype": (patched(17, b"\x06"), ol.InvalidArgumentError, "dtype code 6"),
    "unknown dtype": (patched(17, b"\x63"), ol.BadDataError, "dtype code 99"),
    "sequences": (patched(18, struct.pack("<Q", 10**15)), ol.BadDataError, "claims more"),
    "documents": (patched(26, struct.pack("<Q", 10**15)), ol.BadDataError, "claims more"),
    "cut": (lambda data: data[:-8], ol.BadDataError, "bytes, its header needs"),
    "tiny": (lambda data: data[:10], ol.BadDataError, "too short"),
    "empty": (lambda data: b"", ol.BadDataError, "too short"),
    "negative length": (patched(LENGTHS, struct.pack("<i", -5)), ol.BadDataError, "document 0"),
    "pointer": (patched(POINTERS + 8, struct.pack("<q", 1 << 40)), ol.BadDataError, "document 1"),
    "negative pointer": (patched(POINTERS, struct.pack("<q", -8)), ol.BadDataError, "document 0"),
    "boundary": (patched(BOUNDARIES + 8, struct.pack("<q", 50)), ol.BadDataError, "entry 2"),
    "first boundary": (patched(BOUNDARIES, struct.pack("<q", 1)), ol.BadDataError, "entry 0"),
}


@pytest.mark.parametrize("damage", IDX_DAMAGE)
def test_damaged_idx(damage: str, tmp_path: Path) -> None:
    change, error, part = IDX_DAMAGE[damage]
    write_megatron(tmp_path / "a", [[document] for document in DOCUMENTS], "int32")
    index = tmp_path / "a.idx"
    index.write_bytes(change(index.read_bytes()))
    refused(tmp_path, {"files": "a.bin", "eod": EOD}, error, "a.bin", "a.idx", part)


@pytest.mark.parametrize("left", [0, 100, -4])
def test_a_bin_that_is_cut_short(left: int, tmp_path: Path) -> None:
    binary = write_megatron(tmp_path / "a", [[document] for document in DOCUMENTS], "int32")
    data = binary.read_bytes()
    binary.write_bytes(data[:left])
    refused(tmp_path, {"files": "a.bin", "eod": EOD}, ol.BadDataError, "a.bin", "offset")


def test_a_bin_without_its_idx(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(np.arange(9, dtype=np.int32).tobytes())
    refused(tmp_path, {"files": "a.bin"}, ol.NotFoundError, "a.idx")


# An index of ours that is not what it was


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another version"])
def test_a_damaged_index(damage: str, tmp_path: Path) -> None:
    """Every byte of the index is under a checksum; the message says how to get a new one."""
    (tmp_path / "a.jsonl").write_bytes(LINES)
    config = job_config(tmp_path, {"web": {"files": "a.jsonl", **TOKENS}})
    ol.job(config).open_stream()
    path = index_file(tmp_path / "index", "web")
    data = path.read_bytes()
    if damage == "flipped":
        places = range(0, len(data), max(1, len(data) // 97))
        variants = [data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :] for at in places]
    else:
        variants = {"cut": [data[:-70], data[:100]], "empty": [b""]}.get(damage, [])
        variants = variants or [data[:8] + b"\x63" + data[9:], b"OTHER" + data[5:]]
    for variant in variants:
        path.write_bytes(variant)
        try:
            opened = ol.job(config).open_stream()
        except ol.OverlordError as error:
            assert "web" in str(error) and "overlord index" in str(error)
        else:  # padding between sections
            assert damage == "flipped" and opened.infos[0]["rows"] == 500


# Any byte of any file

FLIPPED = """
import json, pathlib, shutil, sys
import overlord as ol
config, path, step = json.loads(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
good = path.read_bytes()
outcomes = {}
for number, at in enumerate(range(0, len(good), step)):
    value = (good[at] ^ 1, 0xFF, good[at] ^ 0x80, 6)[number % 4]
    path.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
    shutil.rmtree(config["index_dir"], ignore_errors=True)
    try:
        with ol.job(config).train() as loader:
            for batch in loader:
                batch.lineage()
        outcome = "served"
    except ol.OverlordError as error:
        outcome = type(error).__name__
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
print(json.dumps(outcomes))
"""


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "jsonl.gz", "jsonl.zst", "bin", "idx"])
def test_a_changed_byte_never_crashes(suffix: str, tmp_path: Path) -> None:
    """33-35, 53: whatever byte is wrong, the answer is a batch or a typed error."""
    path = tmp_path / f"a.{suffix}"
    documents = DOCUMENTS[:60]
    if suffix == "parquet":
        data = parquet_bytes(tmp_path, LISTS.slice(0, 60), compression="none")
        path.write_bytes(data)
    elif suffix in ("bin", "idx"):
        write_megatron(tmp_path / "a", [[document] for document in documents], "uint16")
    else:
        lines = token_lines(documents, "t")
        pack = {"jsonl": b"".join, "jsonl.gz": gzip_members, "jsonl.zst": zstd}[suffix]
        path.write_bytes(pack([lines]))  # type: ignore[operator]
    source = {"files": "a.bin"} if suffix in ("bin", "idx") else {"files": path.name, "tokens": "t"}
    config = job_config(tmp_path, {"web": {**source, "bad_rows_allowed": 1000}}, steps=20)
    step = max(1, path.stat().st_size // 150)
    command = [sys.executable, "-c", FLIPPED, json.dumps(config), str(path), str(step)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    outcomes = json.loads(run.stdout)
    assert sum(outcomes.values()) >= 150 and "InternalError" not in outcomes


def test_messages_survive_odd_bytes(tmp_path: Path) -> None:
    """Names of files and columns that are not UTF-8 do not turn one error into another."""
    name = os.fsencode(tmp_path) + b"/a\xff.jsonl"
    with open(name, "wb") as file:
        file.write(b"")
    with pytest.raises((ol.OverlordError, ol.ConfigError), match=r"a.*\.jsonl"):
        ol.job(job_config(tmp_path, {"web": {"files": "*.jsonl", **TOKENS}})).open_stream()
    data = parquet_bytes(tmp_path, store_schema=False)
    size = footer_bytes(data)
    footer = data[-size - 8 : -8].replace(b"\x18\x01t", b"\x18\x01\xff")
    (tmp_path / "a.parquet").write_bytes(with_footer(data[: -size - 8], footer))
    with pytest.raises(ol.OverlordError, match=r"a\.parquet"):
        ol.job(job_config(tmp_path, {"web": {"files": "a.parquet", **TOKENS}})).open_stream()
