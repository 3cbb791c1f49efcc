"""MDS, the shards of MosaicML's streaming: as its package wrote them, and written by hand."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from chat_rows import (
    as_alpaca,
    chat_job,
    chat_tokenizer,
    chatml,
    conversations,
    from_alpaca,
    tokens_and_mask,
)
from corpora import EOD, VOCABULARY, Tokens, job_config, made_up_documents, made_up_texts
from overlord.cli import main
from PIL import Image
from test_chat import stored
from test_formats_oracle import bytes_of, check_masks, check_rows, check_source, open_source
from test_formats_oracle import random_masks as made_up_masks

import overlord as ol
from overlord import _core as core

WRITTEN = Path(__file__).parent.parent / "mds"
SAMPLES: list[dict[str, Any]] = json.loads((WRITTEN / "samples.json").read_text())
PATCHES = "orient; resize width=16 height=16"
TEXTS = bytes_of([sample["text"] for sample in SAMPLES])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folders: indexes and other files go there."""
    shutil.copytree(WRITTEN, tmp_path / "mds")
    return tmp_path / "mds"


def text_source(files: str, **more: Any) -> dict[str, Any]:
    """A source of their texts."""
    return {"files": files, "format": "mds", "text": "text", "tokenizer": "bytes", **more}


# What the package wrote


@pytest.mark.parametrize("name", ["plain", "zstd", "gz", "merged"])
def test_text(name: str, folder: Path) -> None:
    check_source(folder, text_source(f"{name}/"), TEXTS, ["window", "full"])
    found = text_source(f"{name}/index.json")
    del found["format"]
    check_rows(open_source(folder, found, index_dir=str(folder / "other")), TEXTS)


def test_folders_of_several_writers(folder: Path) -> None:
    """Without an index.json of all, those below count; shards may be named themselves."""
    (folder / "merged" / "index.json").unlink()
    for files in ("merged/", "merged/**/index.json", "merged/{a,b}/", "merged/**/*.mds"):
        index_dir = folder / files.replace("/", "_").replace("*", "_")
        source = text_source(files)
        check_rows(open_source(folder, source, index_dir=str(index_dir)), TEXTS)
    one = text_source("merged/b/")
    check_rows(open_source(folder, one), TEXTS[6:])


TOKEN_COLUMNS: dict[str, dict[str, Any]] = {
    "tokens": {},
    "packed": {"dtype": "uint16"},
    "fixed": {},
    "any": {},
}


@pytest.mark.parametrize("name", ["plain", "zstd"])
@pytest.mark.parametrize("column", TOKEN_COLUMNS)
def test_tokens(column: str, name: str, folder: Path) -> None:
    expected = [np.array(sample[column], np.int64) for sample in SAMPLES]
    source = {"files": f"{name}/", "format": "mds", "tokens": column, "eod": EOD}
    check_source(folder, {**source, **TOKEN_COLUMNS[column]}, expected, ["window"])


@pytest.mark.parametrize("name", ["plain", "gz"])
def test_a_field_of_json(name: str, folder: Path) -> None:
    expected = bytes_of([sample["meta"]["caption"] for sample in SAMPLES])
    check_source(folder, text_source(f"{name}/", text="meta:caption"), expected, ["window"])


@pytest.mark.parametrize("name", ["plain", "zstd"])
def test_metadata(name: str, folder: Path) -> None:
    source = text_source(f"{name}/", metadata=["number", "small"])
    job = open_source(folder, source)
    check_rows(job, TEXTS)
    stream = job.open_stream()
    path = next(folder.glob("index/s-*.index"))
    columns = core.index_columns(str(path), stream.sources[0])
    assert stream.infos[0]["rows"] == 12
    assert "lengths" in columns
    split = {**source, "split": {"by": "number", "edges": [5000]}}
    config = job_config(folder, {"s": {**split, "window_rows": 16}})
    config["mixture"] = {"weights": {"s/0": 1}}
    with ol.job(config).train() as loader:
        assert sum(batch.num_docs for batch in loader) == 5


@pytest.mark.parametrize("name", ["plain", "zstd", "merged"])
def test_media(name: str, folder: Path) -> None:
    """Blobs are the bytes that were encoded; text is read without them."""
    media = {"image": "image", "images": {"from": "images", "many": True}}
    source = text_source(f"{name}/", media=media)
    job = open_source(folder, source)
    check_rows(job, TEXTS)
    stream = job.open_stream()
    path = str(next(folder.glob("index/s-*.index")))
    for row, sample in enumerate(SAMPLES):
        blobs = core.read_media(path, stream.sources[0], row)
        picture = Image.open(io.BytesIO(blobs["image"]))
        assert picture.format == "JPEG" and list(picture.size) == sample["image"]
        corners = [np.asarray(Image.open(io.BytesIO(one)))[0, 0] for one in blobs["images"]]
        assert [corner.tolist() for corner in corners] == sample["images"]


def test_media_travel(folder: Path) -> None:
    """Pictures of a plain folder and of a compressed one are the same batches."""
    hashes = set()
    for name in ("plain", "zstd"):
        media = {"image": {"from": "image", "kind": "image", "transform": PATCHES}}
        source = text_source(f"{name}/", media=media, over_length="drop")
        config = job_config(folder, {"s": source}, context=256, index_dir=str(folder / name / "i"))
        with ol.job(config).train(ranks="all", hash=True) as loaders:
            for _ in loaders.rounds():
                pass
            hashes.add(loaders.stream_hash())
    assert len(hashes) == 1


def test_chat(tmp_path: Path) -> None:
    """Conversations in a column of json, and in columns of their own, as in any other format."""
    tokenizer = chat_tokenizer(tmp_path / "model")
    turns = conversations(30, seed=3)
    rows = [{"messages": json.dumps(one).encode(), "id": bytes(8)} for one in turns]
    write_mds(tmp_path / "talk", {"messages": "json", "id": "int"}, rows, shards=2)
    config = chat_job(tmp_path, f"{tmp_path}/talk/", {"template": "chatml"}, format="mds")
    made = [tokens_and_mask(tokenizer, chatml(one)) for one in (*turns[::2], *turns[1::2])]
    assert stored(ol.job(config), 30) == dict(enumerate(made))
    asked = [as_alpaca(one, place) for place, one in enumerate(turns)]
    columns = dict.fromkeys(("instruction", "input", "output"), "str")
    write_mds(
        tmp_path / "ask",
        columns,
        [{name: (row.get(name) or "").encode() for name in columns} for row in asked],
    )
    config = chat_job(
        tmp_path,
        f"{tmp_path}/ask/",
        {"format": "alpaca", "template": "chatml"},
        format="mds",
        index_dir=str(tmp_path / "other"),
    )
    config["index_dir"] = config["sources"]["sft"].pop("index_dir")
    expected = [tokens_and_mask(tokenizer, chatml(from_alpaca(row))) for row in asked]
    assert stored(ol.job(config), 30) == dict(enumerate(expected))


# Written by hand, by the rules of the format


def write_shard(
    path: Path, columns: Mapping[str, str], rows: Sequence[Mapping[str, bytes]]
) -> bytes:
    """One shard; values are encoded already."""
    sizes = {"int": 8, "uint16": 2, "uint64": 8, "float32": 4}
    names = sorted(columns)
    config = {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": 1 << 26,
        "column_names": names,
        "column_encodings": [columns[name] for name in names],
        "column_sizes": [sizes.get(columns[name]) for name in names],
    }
    text = json.dumps(config, sort_keys=True).encode()
    samples = []
    for row in rows:
        said = [len(row[name]) for name in names if columns[name] not in sizes]
        samples.append(struct.pack(f"<{len(said)}I", *said) + b"".join(row[n] for n in names))
    ends = np.cumsum([0, *map(len, samples)]) + 4 + 4 * (len(samples) + 1) + len(text)
    data = struct.pack("<I", len(samples)) + ends.astype("<u4").tobytes() + text + b"".join(samples)
    path.write_bytes(data)
    return data


def write_mds(
    folder: Path, columns: Mapping[str, str], rows: Sequence[Mapping[str, bytes]], shards: int = 1
) -> Path:
    """A folder with an index.json."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for number in range(shards):
        name = f"shard.{number:05}.mds"
        data = write_shard(folder / name, columns, rows[number::shards])
        listed.append(entry(name, len(data)))
    write_index(folder, listed)
    return folder


def entry(name: str, size: int, **said: Any) -> dict[str, Any]:
    """What an index.json says of a shard."""
    raw = {"basename": name, "bytes": size, "hashes": {}}
    return {"format": "mds", "compression": None, "raw_data": raw, "zip_data": None, **said}


def write_index(folder: Path, shards: Any, version: int = 2) -> None:
    (folder / "index.json").write_text(json.dumps({"version": version, "shards": shards}))


def array(values: Tokens, dtype: str) -> bytes:
    """An ndarray of a declared dtype, whose shape is its own."""
    code, shape = (0, "<B") if len(values) < 256 else (1, "<H")
    return bytes([1 << 2 | code]) + struct.pack(shape, len(values)) + values.astype(dtype).tobytes()


DOCUMENTS = made_up_documents(150, seed=4, longest=400)


@pytest.mark.parametrize("shuffle", ["none", "window", "full"])
def test_several_blocks(shuffle: str, tmp_path: Path) -> None:
    rows = [{"tokens": array(d, "int64"), "x": b"y" * 20000} for d in DOCUMENTS]
    write_mds(tmp_path / "a", {"tokens": "ndarray:int64", "x": "bytes"}, rows, shards=2)
    expected = [*DOCUMENTS[::2], *DOCUMENTS[1::2]]
    source = {"files": "a/", "format": "mds", "tokens": "tokens", "eod": EOD}
    check_source(tmp_path, source, expected, [shuffle])
    assert open_source(tmp_path, source).open_stream().infos[0]["blocks"] > 2


@pytest.mark.parametrize("encoding", ["ndarray:uint8", "bytes", "ndarray:int64"])
def test_masks(encoding: str, tmp_path: Path) -> None:
    documents = made_up_documents(60, seed=8)
    masks = made_up_masks(documents)
    dtype = encoding.partition(":")[2]
    rows = [
        {
            "mask": array(np.array(mask), dtype) if dtype else bytes(mask),
            "tokens": array(document, "uint16"),
        }
        for mask, document in zip(masks, documents, strict=True)
    ]
    write_mds(tmp_path / "a", {"mask": encoding, "tokens": "ndarray:uint16"}, rows)
    source = {"files": "a/", "format": "mds", "tokens": "tokens", "mask": "mask", "eod": EOD}
    check_masks(tmp_path, source, masks)


def test_bad_rows_keep_their_places(tmp_path: Path) -> None:
    texts: list[Any] = [text.encode() for text in made_up_texts(40, seed=5)]
    texts[3], texts[9], texts[20] = b"", b"  \n", b"\xff\xfe"
    write_mds(tmp_path / "a", {"text": "str"}, [{"text": text} for text in texts])
    expected = bytes_of([None if n in (3, 9, 20) else t.decode() for n, t in enumerate(texts)])
    check_source(tmp_path, text_source("a/"), expected, ["window"])


def test_bad_arrays_are_bad_rows(tmp_path: Path) -> None:
    good = array(np.array([1, 2, 3]), "int32")
    values = [
        good,
        b"",
        bytes([2 << 2, 1, 3]) + good[2:],  # two dimensions
        bytes([1 << 2, 4]) + good[2:],  # more than there are
        good[:-1],
        bytes([1 << 2, 0]),  # none
        array(np.array([1, VOCABULARY]), "int32"),
        good,
    ]
    write_mds(tmp_path / "a", {"tokens": "ndarray:int32"}, [{"tokens": v} for v in values])
    three = np.array([1, 2, 3])
    expected = [three, None, None, None, None, None, None, three]
    source = {"files": "a/", "format": "mds", "tokens": "tokens"}
    check_source(tmp_path, source, expected, ["window"])


def test_bad_samples_are_bad_rows(tmp_path: Path) -> None:
    """Sizes that do not add up: with media they are found when it is indexed, else when read."""
    rows = [{"image": b"j" * 30, "text": b"some text", "n": struct.pack("<q", 5)}] * 4
    columns = {"image": "bytes", "text": "str", "n": "int"}
    data = write_shard(tmp_path / "a.mds", columns, rows)
    at = data.index(struct.pack("<II", 30, 9), 50)
    broken = data[:at] + struct.pack("<II", 31, 9) + data[at + 8 :]
    (tmp_path / "a.mds").write_bytes(broken)
    expected = bytes_of([None, "some text", "some text", "some text"])
    for number, more in enumerate(({}, {"media": {"image": "image"}}, {"metadata": ["n"]})):
        source = {"files": "a.mds", "text": "text", "tokenizer": "bytes", **more}
        job = open_source(tmp_path, source, bad=1, index_dir=str(tmp_path / str(number)))
        check_rows(job, expected)


def test_a_number_outside_of_metadata_is_a_bad_row(tmp_path: Path) -> None:
    rows = [{"n": struct.pack("<q", n), "text": b"word"} for n in (1, -1, 2**40, 7)]
    write_mds(tmp_path / "a", {"n": "int", "text": "str"}, rows)
    job = open_source(tmp_path, text_source("a/", metadata=["n"]), bad=2)
    check_rows(job, bytes_of(["word", None, None, "word"]))


def test_json_cannot_leave_its_place(tmp_path: Path) -> None:
    """What is no JSON value of its own is a bad row, whatever it makes of the record around it."""
    good = b'[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]'
    rows = [{"messages": value} for value in (good, good + b', "x": 1', b"[", b"", b"3", good)]
    write_mds(tmp_path / "a", {"messages": "json"}, rows)
    tokenizer = chat_tokenizer(tmp_path / "model")
    config = chat_job(tmp_path, f"{tmp_path}/a/", {"template": "chatml"}, format="mds")
    expected = tokens_and_mask(tokenizer, chatml(json.loads(good)))
    assert stored(ol.job(config), 6) == {0: expected, 5: expected}


# What is refused


def broken_folders(root: Path) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """What a source says of a folder or shard that is not read, and words of the refusal."""
    text = {"text": "str"}
    rows = [{"text": b"some text"}] * 3
    cases: dict[str, tuple[dict[str, Any], list[str]]] = {}

    def folder(name: str, shards: Any = None, **said: Any) -> Path:
        made = write_mds(root / name, text, rows)
        if shards is not None:
            write_index(made, shards, **said)
        return made

    def case(name: str, *words: str, **source: Any) -> None:
        cases[name] = (text_source(f"{name}/", **source), [f"{name}/", *words])

    size = len((folder("good") / "shard.00000.mds").read_bytes())
    folder("no-shards", [])
    case("no-shards", "index.json", "lists no shards")
    folder("other-version", [entry("shard.00000.mds", size)], version=3)
    case("other-version", "version 3")
    folder("other-format", [entry("shard.00000.mds", size, format="csv")])
    case("other-format", "'csv'")
    folder("outside", [entry("../good/shard.00000.mds", size)])
    case("outside", "leads out of it")
    folder("missing", [entry("shard.00007.mds", size)])
    case("missing", "shard.00007.mds")
    (folder("no-json") / "index.json").write_text("[1, 2")
    case("no-json", "no JSON object")
    (root / "empty").mkdir()
    case("empty", "no index.json")
    bad = folder("cut") / "shard.00000.mds"
    bad.write_bytes(bad.read_bytes()[:-1])
    case("cut", "shard.00000.mds", "is it MDS, and whole?")
    (folder("garbage") / "shard.00000.mds").write_bytes(b"\xff" * 5000)
    case("garbage", "is it MDS, and whole?")
    (folder("tiny") / "shard.00000.mds").write_bytes(b"\x01")
    case("tiny", "cut short")
    bad = folder("odd-config") / "shard.00000.mds"
    bad.write_bytes(bad.read_bytes().replace(b'"mds"', b'"mdx"'))
    case("odd-config", "'mdx'")
    bad = folder("odd-columns") / "shard.00000.mds"
    bad.write_bytes(bad.read_bytes().replace(b'["text"]', b'["te",1]'))
    case("odd-columns", "column")
    two = folder("two-schemas")
    write_shard(two / "shard.00001.mds", {"text": "bytes"}, [{"text": b"other"}])
    write_index(two, [entry("shard.00000.mds", size), entry("shard.00001.mds", size)])
    case("two-schemas", "shards differ in schema", "text: str", "text: bytes")
    case("good", "no column 'none'", "'text' (str)", text="none")
    return cases


def test_folders_that_are_refused(tmp_path: Path) -> None:
    for name, (source, words) in broken_folders(tmp_path).items():
        with pytest.raises((ol.OverlordError, ol.ConfigError)) as caught:
            open_source(tmp_path, source).open_stream()
        for word in words:
            assert word in str(caught.value), (name, str(caught.value))


ENCODINGS: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "text of numbers": ({"text": "c"}, "int", ["'int'", "text is str, bytes"]),
    "text of pickles": ({"text": "c"}, "pkl", ["'pkl'"]),
    "whole json": ({"text": "c"}, "json", ["c:FIELD"]),
    "tokens of text": ({"tokens": "c"}, "str", ["'str'", "ndarray"]),
    "floats": ({"tokens": "c"}, "ndarray:float32", ["integers"]),
    "no such type": ({"tokens": "c"}, "ndarray:int24", ["integers"]),
    "a table": ({"tokens": "c"}, "ndarray:int32:2,4", ["one dimension"]),
    "bytes": ({"tokens": "c"}, "bytes", ["dtype:", "uint16"]),
    "dtype of arrays": ({"tokens": "c", "dtype": "int32"}, "ndarray:int32", ["remove `dtype`"]),
    "raw pixels": ({"text": "t", "media": {"image": "c"}}, "pil", ["'pil'", "jpeg, png or bytes"]),
    "a list": ({"text": "t", "media": {"image": "c"}}, "list[png]", ["many: true"]),
    "no list": (
        {"text": "t", "media": {"image": {"from": "c", "many": True}}},
        "jpeg",
        ["list[jpeg]"],
    ),
    "metadata": ({"text": "t", "metadata": ["c"]}, "float32", ["metadata are integers"]),
}


@pytest.mark.parametrize("case", ENCODINGS)
def test_encodings_that_are_refused(case: str, tmp_path: Path) -> None:
    keys, encoding, words = ENCODINGS[case]
    fixed = {"int": b"\0" * 8, "float32": b"\0" * 4}
    rows = [{"c": fixed.get(encoding, b"x" * 9), "t": b"words"}]
    write_mds(tmp_path / "a", {"c": encoding, "t": "str"}, rows)
    tokenizer = {"tokenizer": "bytes"} if "text" in keys else {}
    source = {"files": "a/", "format": "mds", **keys, **tokenizer}
    with pytest.raises(ol.OverlordError) as caught:
        open_source(tmp_path, source).open_stream()
    for word in ["shard.00000.mds", "'c'", *words]:
        assert word in str(caught.value)


def test_other_compressions_are_refused(folder: Path) -> None:
    with pytest.raises(ol.InvalidArgumentError, match="compressed with 'br', and zstd and gz"):
        open_source(folder, text_source("br/")).open_stream()


def test_a_folder_that_was_decompressed(folder: Path) -> None:
    """The shards as they were before they were compressed: those count where no others are."""
    for path in (folder / "gz").glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    check_rows(open_source(folder, text_source("gz/")), TEXTS)


def test_compressed_shards_have_limits(folder: Path) -> None:
    small = text_source("zstd/", limits={"max_block": 2048, "max_document": 1024})
    with pytest.raises(ol.OverlordError, match=r"zstd.*limits\.max_block|frame of more than 2048"):
        open_source(folder, small).open_stream()
    bomb = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    (folder / "zstd" / "shard.00001.mds.zstd").write_bytes(bomb)
    with pytest.raises(ol.OverlordError, match=r"shard\.00001.*max_expansion"):
        open_source(folder, text_source("zstd/")).open_stream()
    (folder / "gz" / "shard.00001.mds.gz").write_bytes(b"\x1f\x8b garbage")
    with pytest.raises(ol.OverlordError, match=r"shard\.00001\.mds\.gz"):
        open_source(folder, text_source("gz/")).open_stream()


def test_a_folder_that_grew_is_refused(folder: Path) -> None:
    """Until it is indexed anew."""
    (folder / "merged" / "index.json").unlink()
    shutil.move(folder / "merged" / "b", folder / "b")
    source = text_source("merged/")
    check_rows(open_source(folder, source), TEXTS[:6])
    shutil.move(folder / "b", folder / "merged" / "b")
    with pytest.raises(ol.SourceChangedError, match="merged/b/"):
        open_source(folder, source).open_stream()


def test_keys_that_are_refused(tmp_path: Path) -> None:
    for said, words in (
        ({"document": {"eod": 1}}, ["document", "format: tokens"]),
        ({"dtype": "uint16"}, ["dtype", "column of bytes"]),
        ({"media": {"image": ["a", "b"]}}, ["more than one column"]),
    ):
        with pytest.raises(ol.ConfigError) as caught:
            ol.job(job_config(tmp_path, {"s": text_source("a/", **said)}))
        for word in words:
            assert word in str(caught.value)


def whole_config(folder: Path) -> dict[str, Any]:
    """A job over every layout of this file, with media that travel."""
    images = {"from": "images", "many": True, "kind": "image", "transform": PATCHES}
    sources = {
        "text": text_source("merged/", media={"images": images}, over_length="drop"),
        "packed": {"files": "zstd/", "format": "mds", "tokens": "packed", "dtype": "uint16"},
        "caption": text_source("gz/", text="meta:caption", metadata=["number"]),
    }
    return job_config(folder, sources, context=256, at_end="repeat", steps=6)


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_run_goes_on_where_it_stopped(engine: Any, folder: Path, sockets: Path) -> None:
    """With both engines the stream is one, whole or in two pieces."""
    config = whole_config(folder)
    config["runtime"] = {"processes": {"directory": str(sockets)}}

    def read(job: ol.Job, state: Any, count: int | None) -> tuple[list[Any], Any]:
        with job.train(engine=engine) as loader:
            if state is not None:
                loader.load_state_dict(state)
            batches = []
            for batch in loader:
                media = {name: field.data.tolist() for name, field in batch.media.items()}
                batches.append((batch.tokens.tolist(), media))
                if len(batches) == count:
                    break
            return batches, loader.state_dict()

    job = ol.job(config)
    whole, _ = read(job, None, None)
    first, state = read(job, None, 7)
    rest, _ = read(job, state, None)
    assert first + rest == whole
    assert any(media["images"] for _, media in whole)


def test_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """index and inspect, with and without lengths."""
    path = folder / "job.json"
    path.write_text(json.dumps(whole_config(folder)))
    for words in (["index", str(path)], ["index", str(path), "--lengths"]):
        assert main(words) == 0
    capsys.readouterr()
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("text", "packed", "caption"))
    assert main(["inspect", str(path), "sample", "caption", "3"]) == 0
    assert "caption of 3" in capsys.readouterr().out
    assert main(["inspect", str(path), "sample", "text", "2", "--out", str(folder / "out")]) == 0
    assert len(list((folder / "out").iterdir())) == len(SAMPLES[2]["images"])
