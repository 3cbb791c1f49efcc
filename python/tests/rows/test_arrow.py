"""Arrow IPC against pyarrow, row by row: files, streams and directories of save_to_disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from corpora import VOCABULARY, job_config, made_up_documents, made_up_texts
from test_formats_oracle import (
    LIST_TYPES,
    TEXT,
    TOKENS,
    as_expected,
    bytes_of,
    check_rows,
    check_source,
    open_source,
)

import overlord as ol


def write_ipc(
    path: Path, table: pa.Table, *, stream: bool = False, rows: int = 37, **options: Any
) -> None:
    """A table as Arrow IPC, in batches of `rows`."""
    writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with writer(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table, max_chunksize=rows)


def read_ipc(path: Path, column: str) -> list[Any]:
    """What pyarrow reads."""
    with pa.memory_map(str(path)) as source:
        reader = (
            pa.ipc.open_file(source)
            if path.read_bytes()[:6] == b"ARROW1"
            else pa.ipc.open_stream(source)
        )
        values: list[Any] = reader.read_all().column(column).to_pylist()
    return values


def shards(folder: Path, arrays: Sequence[pa.Array], column: str, **options: Any) -> list[Any]:
    """One shard per array, with columns that nobody asks for; gives what pyarrow reads."""
    values: list[Any] = []
    for number, array in enumerate(arrays):
        other = pa.array(["x" * 50] * len(array))
        table = pa.table({"a": other.dictionary_encode(), column: array, "z": other})
        path = folder / f"part-{number}.arrow"
        write_ipc(path, table, **options)
        values += read_ipc(path, column)
    return values


@pytest.mark.parametrize("kind", LIST_TYPES)
def test_token_lists(kind: str, tmp_path: Path) -> None:
    shape, vocabulary = LIST_TYPES[kind]
    documents = [d.tolist() for d in made_up_documents(150, vocabulary=vocabulary - 1)]
    arrays = [pa.array(documents[:90], shape), pa.array(documents[90:], shape)]
    values = shards(tmp_path, arrays, "tokens")
    check_source(tmp_path, {"files": "*.arrow", **TOKENS}, as_expected(values), ["window"])


def test_fixed_size_lists(tmp_path: Path) -> None:
    rows = np.random.default_rng(3).integers(1, VOCABULARY, (120, 24)).tolist()
    values = shards(tmp_path, [pa.array(rows, pa.list_(pa.int32(), 24))], "tokens")
    check_source(tmp_path, {"files": "*.arrow", **TOKENS}, as_expected(values))


FORMS: dict[str, dict[str, Any]] = {
    "file": {},
    "stream": {"stream": True},
    "file-lz4": {"compression": "lz4"},
    "stream-zstd": {"stream": True, "compression": "zstd"},
    "old-stream": {"stream": True, "use_legacy_format": True},
    "one-batch": {"rows": 1000},
    "version-4": {"metadata_version": pa.ipc.MetadataVersion.V4},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, tmp_path: Path) -> None:
    documents: list[Any] = [d.tolist() for d in made_up_documents(200, seed=5)]
    documents[3], documents[50], documents[60] = None, [], [4, None, 5]
    arrays = [pa.array(part, pa.list_(pa.int32())) for part in (documents[:120], documents[120:])]
    expected = as_expected(shards(tmp_path, arrays, "tokens", **FORMS[form]))
    assert sum(document is None for document in expected) == 3
    check_source(tmp_path, {"files": "*.arrow", **TOKENS}, expected, ["window"])


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "large_binary"])
def test_text(kind: str, tmp_path: Path) -> None:
    texts: list[str | None] = [*made_up_texts(100, seed=1)]
    texts[7], texts[8], texts[9] = None, "", " \n"
    shape = getattr(pa, kind)()
    cells = [t if t is None or "string" in kind else t.encode() for t in texts]
    values = shards(tmp_path, [pa.array(cells, shape)], "text", compression="zstd")
    assert values == cells
    check_source(tmp_path, {"files": "*.arrow", **TEXT}, bytes_of(texts))


KINDS: dict[str, Any] = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "string_view": pa.string_view(),
}


@pytest.mark.parametrize("form", ["file", "stream", "file-lz4", "stream-zstd", "old-stream"])
@pytest.mark.parametrize("kind", KINDS)
def test_text_in_dictionaries(kind: str, form: str, tmp_path: Path) -> None:
    """Every batch has the values that its indices mean, whatever the writer did with them."""
    texts: list[Any] = [made_up_texts(9, seed=n % 7)[n % 9] for n in range(150)]
    texts[3], texts[50], texts[60] = None, "", None
    cells = [t if t is None or kind != "binary" else t.encode() for t in texts]
    values = list(dict.fromkeys(cell for cell in cells if cell is not None))
    codes = [None if cell is None else values.index(cell) for cell in cells]
    arrays = []
    for index, part in ((pa.int8(), slice(0, 80)), (pa.uint16(), slice(80, 150))):
        codes_of = pa.array(codes[part], index)
        arrays.append(pa.DictionaryArray.from_arrays(codes_of, pa.array(values, KINDS[kind])))
    assert shards(tmp_path, arrays, "text", **FORMS[form]) == cells
    check_source(tmp_path, {"files": "*.arrow", **TEXT}, bytes_of(texts), ["window"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("deltas", [False, True])
def test_dictionaries_that_change(deltas: bool, stream: bool, tmp_path: Path) -> None:
    """Batches with dictionaries of their own: replaced, or added to."""
    words = [f"word {n}" for n in range(12)]
    parts = [words[:4], words[:8] if deltas else words[4:8], words[:12] if deltas else words[8:]]
    schema = pa.schema([("text", pa.dictionary(pa.int32(), pa.string()))])
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
    expected: list[Any] = []
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    if not stream and not deltas:
        parts = parts[:1] * 3  # a file has one dictionary for all batches
    with make(tmp_path / "a.arrow", schema, options=options) as out:
        for number, part in enumerate(parts):
            codes = pa.array([(n * 5 + number) % len(part) for n in range(20)], pa.int32())
            array = pa.DictionaryArray.from_arrays(codes, pa.array(part))
            out.write_batch(pa.record_batch([array], schema=schema))
            expected += array.to_pylist()
    assert read_ipc(tmp_path / "a.arrow", "text") == expected
    check_source(tmp_path, {"files": "a.arrow", **TEXT}, bytes_of(expected), ["window"])


@pytest.mark.parametrize("form", ["file", "stream", "file-lz4"])
@pytest.mark.parametrize("kind", ["string_view", "binary_view"])
def test_views(kind: str, form: str, tmp_path: Path) -> None:
    texts: list[Any] = [*made_up_texts(120, seed=6)]
    texts[7], texts[8], texts[9] = None, "", "short"
    cells = [t if t is None or kind == "string_view" else t.encode() for t in texts]
    shape = getattr(pa, kind)()
    arrays = [pa.array(cells[:70], shape), pa.array(cells[70:], shape)]
    assert shards(tmp_path, arrays, "text", **FORMS[form]) == cells
    check_source(tmp_path, {"files": "*.arrow", **TEXT}, bytes_of(texts), ["window"])


def test_other_columns_in_dictionaries_and_views(tmp_path: Path) -> None:
    """Metadata, paths and bytes of media."""
    from overlord import _core as core

    texts = made_up_texts(40, seed=3)
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").write_bytes(b"picture " + name.encode())
    paths = ["ab"[n % 2] + ".png" for n in range(40)]
    blobs = [bytes([n]) * 50 for n in range(40)]
    table = pa.table(
        {
            "text": pa.array(texts, pa.string_view()),
            "class": pa.array([n % 5 for n in range(40)], pa.uint16()).dictionary_encode(),
            "path": pa.array(paths).dictionary_encode(),
            "blob": pa.array(blobs, pa.binary_view()),
        }
    )
    write_ipc(tmp_path / "a.arrow", table)
    media = {"one": "path", "two": "blob"}
    source = {"files": "a.arrow", **TEXT, "metadata": ["class"], "media": media}
    job = open_source(tmp_path, source)
    check_rows(job, bytes_of(texts))
    stream = job.open_stream()
    path = str(next(tmp_path.glob("index/s-*.index")))
    for row in range(40):
        found = core.read_media(path, stream.sources[0], row)
        assert found == {"one": b"picture " + paths[row][:1].encode(), "two": blobs[row]}
    split = {**source, "split": {"by": "class", "edges": [2]}, "window_rows": 16}
    config = job_config(tmp_path, {"s": split})
    config["mixture"] = {"weights": {"s/0": 1}}
    with ol.job(config).train() as loader:
        assert sum(batch.num_docs for batch in loader) == 16


def test_an_index_outside_of_its_dictionary_is_refused(tmp_path: Path) -> None:
    codes = pa.array([0, 1, 0, 1] * 10, pa.int32())
    array = pa.DictionaryArray.from_arrays(codes, pa.array(["aa", "bb"]))
    write_ipc(tmp_path / "a.arrow", pa.table({"text": array}), rows=100)
    data = (tmp_path / "a.arrow").read_bytes()
    at = data.index(codes.buffers()[1].to_pybytes())
    (tmp_path / "a.arrow").write_bytes(data[: at + 4] + b"\x07\0\0\0" + data[at + 8 :])
    row = open_source(tmp_path, {"files": "a.arrow", **TEXT}).open_stream().native
    from overlord._workers.tokenizer_worker import worker_command

    with pytest.raises(ol.BadDataError, match="index 7 of a dictionary of 2"):
        row.read_row(0, 0, worker_command())


def test_feather(tmp_path: Path) -> None:
    texts = made_up_texts(60, seed=2)
    table = pa.table({"text": texts})
    feather.write_feather(table, tmp_path / "a.feather", chunksize=16)
    check_source(tmp_path, {"files": "a.feather", **TEXT}, bytes_of(texts), ["window"])
    old = tmp_path / "old"
    old.mkdir()
    with pytest.warns(DeprecationWarning):
        feather.write_feather(table, old / "b.feather", version=1)
    with pytest.raises(ol.InvalidArgumentError, match="Feather version 1"):
        open_source(old, {"files": "b.feather", **TEXT}).open_stream()


def test_masks_and_metadata(tmp_path: Path) -> None:
    documents = [d.tolist() for d in made_up_documents(40, seed=9)]
    masks = [[i % 2 == 0 for i in range(len(d))] for d in documents]
    numbers = list(range(40))
    table = pa.table({"tokens": documents, "mask": masks, "n": pa.array(numbers, pa.int8())})
    write_ipc(tmp_path / "a.arrow", table, stream=True)
    source = {"files": "a.arrow", **TOKENS, "mask": "mask", "metadata": ["n"]}
    job = open_source(tmp_path, source)
    check_rows(job, as_expected(documents))
    weights = 0.0
    with job.train() as loader:
        for batch in loader:
            weights += float(np.asarray(batch.loss_weights).sum())
    assert 0 < weights < sum(map(len, documents)) * 0.6


# Directories that save_to_disk writes


def save_by_hand(folder: Path, tables: Sequence[pa.Table], **state: Any) -> Path:
    """The layout that datasets' save_to_disk leaves."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05}-of-{len(tables):05}.arrow" for i in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        features = {"text": {"dtype": "string", "_type": "Value"}}
        noted = {"huggingface": json.dumps({"info": {"features": features}})}
        write_ipc(folder / name, table.replace_schema_metadata(noted), stream=True)
    told = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": "0123456789abcdef",
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": "train",
    }
    (folder / "state.json").write_text(json.dumps({**told, **state}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return folder


@pytest.mark.parametrize("files", ["set/", "set"])
def test_a_saved_dataset(files: str, tmp_path: Path) -> None:
    texts = made_up_texts(90, seed=4)
    save_by_hand(tmp_path / "set", [pa.table({"text": texts[:50]}), pa.table({"text": texts[50:]})])
    declared = {} if files.endswith("/") else {"format": "arrow"}
    check_source(tmp_path, {"files": files, **declared, **TEXT}, bytes_of(texts))


def test_a_saved_dict_of_splits(tmp_path: Path) -> None:
    texts = made_up_texts(20, seed=4)
    for split in ("train", "test"):
        save_by_hand(tmp_path / "all" / split, [pa.table({"text": texts})])
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(ol.InvalidArgumentError, match=r"several splits \('train', 'test'\)"):
        open_source(tmp_path, {"files": "all/", **TEXT}).open_stream()
    check_source(tmp_path, {"files": "all/train/", **TEXT}, bytes_of(texts), ["window"])


def test_a_saved_selection_is_refused(tmp_path: Path) -> None:
    indices = [{"filename": "indices.arrow"}]
    save_by_hand(tmp_path / "set", [pa.table({"text": ["a"]})], _indices_data_files=indices)
    with pytest.raises(ol.InvalidArgumentError, match="flatten_indices"):
        open_source(tmp_path, {"files": "set/", **TEXT}).open_stream()


def test_a_folder_without_a_saved_dataset(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with pytest.raises(ol.OverlordError, match="no directory that save_to_disk wrote"):
        open_source(tmp_path, {"files": "set/", **TEXT}).open_stream()
    with pytest.raises(ol.ConfigError, match="a directory that save_to_disk wrote ends with `/`"):
        ol.job(job_config(tmp_path, {"s": {"files": "set", **TEXT}}))


def test_what_datasets_saves(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    texts = made_up_texts(70, seed=8)
    made = datasets.Dataset.from_dict({"text": texts, "n": list(range(70))}).select(range(5, 65))
    made.save_to_disk(tmp_path / "set", num_shards=3)
    expected = bytes_of(datasets.load_from_disk(tmp_path / "set")["text"])
    check_source(tmp_path, {"files": "set/", **TEXT}, expected)


# Shards that are broken


def test_cut_short_or_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    for stream in (False, True):
        write_ipc(path, pa.table({"text": made_up_texts(80)}), stream=stream)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ol.BadDataError, match=r"source 's', shard .*a\.arrow.*cut short"):
            open_source(tmp_path, {"files": "a.arrow", **TEXT}).open_stream()


def test_wrong_columns_are_named(tmp_path: Path) -> None:
    table = pa.table({"text": pa.array([1.5, 2.5]).dictionary_encode(), "n": [1.5, 2.5]})
    write_ipc(tmp_path / "a.arrow", table)
    for source, match in (
        (TEXT, "column 'text' is dictionary encoded .*strings, bytes and integers"),
        ({**TEXT, "text": "gone"}, "has no column 'gone'; it has 'text', 'n'"),
        ({"tokens": "n"}, "tokens must be a list of integers"),
    ):
        with pytest.raises(ol.OverlordError, match=match):
            open_source(tmp_path, {"files": "a.arrow", **source}).open_stream()
