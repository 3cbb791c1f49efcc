"""Files of tokens and nothing else, as NumPy, nanoGPT, OLMo and llm.c write them."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import EOD, VOCABULARY, Tokens, job_config, made_up_documents, write_megatron
from overlord.cli import main
from test_formats_oracle import check_rows, check_source, open_source

import overlord as ol

DOCUMENTS = made_up_documents(180, seed=3)
ENDED = [np.append(document, EOD) for document in DOCUMENTS]
BEGUN = [np.append([EOD], document) for document in DOCUMENTS]
LLMC = {"uint16": (20240520, 1), "uint32": (20240801, 7)}


def write_llmc(path: Path, tokens: Tokens, dtype: str = "uint16", **header: int) -> None:
    """What write_datafile of llm.c's dev/data/data_common.py writes."""
    magic, version = LLMC[dtype]
    head = np.zeros(256, np.int32)
    head[:3] = [magic, header.get("version", version), header.get("count", len(tokens))]
    path.write_bytes(head.tobytes() + tokens.astype(dtype).tobytes())


def write_shards(folder: Path, documents: Sequence[Tokens], form: str, dtype: str) -> str:
    """Two files of a form; their pattern."""
    for number, part in enumerate((documents[:100], documents[100:])):
        tokens = np.concatenate(part)
        if form == "npy":
            np.save(folder / f"{number}.npy", tokens.astype(dtype))
        elif form == "olmo":  # an array without a header, whatever its name
            memory = np.memmap(folder / f"{number}.npy", dtype, "w+", shape=tokens.shape)
            memory[:] = tokens
            memory.flush()
        elif form == "nanogpt":
            tokens.astype(dtype).tofile(folder / f"{number}.bin")
        else:
            write_llmc(folder / f"{number}.bin", tokens, dtype)
    return "*.npy" if form in ("npy", "olmo") else "*.bin"


FORMS = [
    ("npy", "uint16"),
    ("npy", "int32"),
    ("npy", "uint32"),
    ("npy", "int64"),
    ("olmo", "uint16"),
    ("olmo", "uint32"),
    ("nanogpt", "uint16"),
    ("llmc", "uint16"),
    ("llmc", "uint32"),
]


def declared(form: str, dtype: str) -> dict[str, Any]:
    """What a config has to say of a form."""
    kind = {} if form in ("npy", "olmo") else {"format": "tokens"}
    return kind if form in ("npy", "llmc") else {**kind, "dtype": dtype}


@pytest.mark.parametrize(("form", "dtype"), FORMS, ids=lambda value: str(value))
def test_documents_that_end(form: str, dtype: str, tmp_path: Path) -> None:
    files = write_shards(tmp_path, ENDED, form, dtype)
    source = {"files": files, "document": {"eod": EOD}, **declared(form, dtype)}
    check_source(tmp_path, source, ENDED, ["window", "full"] if form == "olmo" else ["window"])


def test_documents_that_begin(tmp_path: Path) -> None:
    """As llm.c marks them; what is cut over two files is a document in each."""
    tokens = np.concatenate(BEGUN)
    half = len(tokens) // 2
    write_llmc(tmp_path / "a.bin", tokens[:half])
    write_llmc(tmp_path / "b.bin", tokens[half:])
    starts = np.flatnonzero(tokens == EOD)
    cuts = sorted({*starts.tolist(), half})
    expected = np.split(tokens, cuts[1:])
    assert len(expected) == len(BEGUN) + 1
    source = {"files": "{a,b}.bin", "format": "tokens", "document": {"bos": EOD}}
    check_source(tmp_path, source, expected, ["none", "window"])


def test_documents_of_one_length(tmp_path: Path) -> None:
    """The last of a file has what is left."""
    tokens = np.concatenate(ENDED)
    write_shards(tmp_path, ENDED, "nanogpt", "uint16")
    first = sum(map(len, ENDED[:100]))
    expected = [
        part[begin : begin + 48]
        for part in (tokens[:first], tokens[first:])
        for begin in range(0, len(part), 48)
    ]
    source = {"files": "*.bin", "format": "tokens", "dtype": "uint16", "document": {"length": 48}}
    check_source(tmp_path, {**source, "eod": EOD}, expected)


def test_runs_of_marks_are_documents_of_one_token(tmp_path: Path) -> None:
    tokens = np.array([EOD, 5, 6, EOD, EOD, 7, EOD, 8])
    np.save(tmp_path / "a.npy", tokens.astype(np.uint16))
    expected = [[EOD], [5, 6, EOD], [EOD], [7, EOD], [8]]
    source = {"files": "a.npy", "document": {"eod": EOD}}
    check_rows(open_source(tmp_path, source), [np.array(part) for part in expected])
    other = {**source, "document": {"bos": EOD}}
    expected = [[EOD, 5, 6], [EOD], [EOD, 7], [EOD, 8]]
    check_rows(open_source(tmp_path, other), [np.array(part) for part in expected])


def test_versions_of_numpy_headers(tmp_path: Path) -> None:
    """Whatever version of the header an array is written with."""
    tokens = np.concatenate(ENDED).astype(np.uint16)
    for version in ((1, 0), (2, 0), (3, 0)):
        with (tmp_path / "a.npy").open("wb") as file:
            np.lib.format.write_array(file, tokens, version)
        source = {"files": "a.npy", "document": {"eod": EOD}}
        check_rows(open_source(tmp_path, source, index_dir=str(tmp_path / str(version))), ENDED)


def test_ids_outside_of_the_vocabulary_are_bad_rows(tmp_path: Path) -> None:
    tokens = np.array([1, 2, EOD, 3, VOCABULARY, EOD, 4, EOD])
    np.save(tmp_path / "a.npy", tokens.astype(np.int32))
    expected = [np.array([1, 2, EOD]), None, np.array([4, EOD])]
    source = {"files": "a.npy", "document": {"eod": EOD}}
    check_rows(open_source(tmp_path, source, bad=1), expected)


def test_a_document_over_the_limit_is_a_bad_row(tmp_path: Path) -> None:
    tokens = np.concatenate([[5, EOD], np.full(9000, 6), [EOD, 7, EOD]])
    np.save(tmp_path / "a.npy", tokens.astype(np.uint16))
    limits = {"max_document": 8192}
    source = {"files": "a.npy", "document": {"eod": EOD}, "limits": limits}
    expected = [np.array([5, EOD]), None, np.array([7, EOD])]
    check_rows(open_source(tmp_path, source, bad=1), expected)


def save(path: Path, array: Any) -> None:
    np.save(path, array)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


GOOD = np.concatenate(ENDED).astype(np.uint16)


def refused_files(folder: Path) -> dict[str, tuple[str, dict[str, Any], list[str]]]:
    """Files that are not read: name, what the source says of them, words of the refusal."""
    save(folder / "floats.npy", GOOD.astype(np.float32))
    save(folder / "big.npy", GOOD.astype(">u2"))
    save(folder / "table.npy", GOOD[:100].reshape(10, 10))
    save(folder / "scalar.npy", np.uint16(3))
    save(folder / "fields.npy", np.zeros(3, [("a", "<u2"), ("b", "<u2")]))
    save(folder / "flags.npy", GOOD > 3)
    save(folder / "good.npy", GOOD)
    save(folder / "cut.npy", GOOD)
    cut_short(folder / "cut.npy")
    head = (folder / "good.npy").read_bytes()
    (folder / "version.npy").write_bytes(head[:6] + b"\x09" + head[7:])
    (folder / "header.npy").write_bytes(head[:8] + b"\xff\xff" + head[10:])
    (folder / "text.npy").write_bytes(head[:10] + b"no header" + head[19:])
    GOOD.tofile(folder / "raw.bin")
    (folder / "odd.bin").write_bytes(b"abc")
    write_llmc(folder / "llmc.bin", GOOD)
    write_llmc(folder / "llmc_cut.bin", GOOD, count=len(GOOD) + 1)
    write_llmc(folder / "llmc_new.bin", GOOD, version=2)
    (folder / "questions.bin").write_bytes(struct.pack("<i", 20240522) + bytes(2000))
    write_megatron(folder / "pair", [[d] for d in DOCUMENTS], "uint16")
    u16, i32 = {"dtype": "uint16"}, {"dtype": "int32"}
    return {
        "floats": ("floats.npy", {}, ["'<f4'", "integers", "uint16"]),
        "big-endian": ("big.npy", {}, ["'>u2'", "little-endian"]),
        "two dimensions": ("table.npy", {}, ["(10, 10)", "reshape(-1)"]),
        "no dimension": ("scalar.npy", {}, ["shape ()"]),
        "structures": ("fields.npy", {}, ["<u2", "integers"]),
        "flags": ("flags.npy", {}, ["'|b1'"]),
        "another dtype": ("good.npy", i32, ["uint16", "int32", "dtype"]),
        "cut": ("cut.npy", {}, ["cut short"]),
        "version": ("version.npy", {}, ["version 9"]),
        "long header": ("header.npy", {}, ["65535 bytes"]),
        "no header": ("text.npy", {}, ["header is none"]),
        "no dtype": ("raw.bin", {}, ["no header", "dtype"]),
        "odd size": ("odd.bin", u16, ["3 bytes", "uint16"]),
        "cut llm.c": ("llmc_cut.bin", {}, ["20240520", "cut short"]),
        "new llm.c": ("llmc_new.bin", {}, ["version 2"]),
        "another llm.c": ("llmc.bin", i32, ["20240520", "uint16", "int32"]),
        "questions": ("questions.bin", u16, ["questions"]),
        "Megatron": ("pair.bin", u16, ["pair.idx", "format: megatron"]),
        "no mark": ("raw.bin", {**u16, "document": {"eod": 990}}, ["990", "document.eod"]),
        "large mark": ("odd8.bin", {}, []),
    }


def test_files_that_are_refused(tmp_path: Path) -> None:
    cases = refused_files(tmp_path)
    (tmp_path / "odd8.bin").write_bytes(bytes(100))
    large = {"dtype": "uint8", "document": {"eod": EOD}}
    cases["large mark"] = ("odd8.bin", large, ["uint8", str(EOD)])
    for case, (name, said, words) in cases.items():
        source = {"files": name, "format": "tokens", "document": {"eod": EOD}, **said}
        with pytest.raises(ol.OverlordError) as caught:
            open_source(tmp_path, source).open_stream()
        for word in [name, *words]:
            assert word in str(caught.value), (case, str(caught.value))


BAD_KEYS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no document": ({"document": None}, ["sources.s.document", "{length: N}"]),
    "two documents": ({"document": {"eod": 1, "length": 5}}, ["sources.s.document"]),
    "a column": ({"text": "text"}, ["sources.s.text", "no columns"]),
    "metadata": ({"metadata": ["n"]}, ["sources.s.metadata", "no columns"]),
    "media": ({"media": {"image": "jpg"}}, ["tokens files have no media"]),
    "chat": ({"chat": "messages"}, ["sources.s"]),
    "eod twice": ({"eod": EOD}, ["sources.s.eod", "have it already"]),
    "outside": ({"document": {"bos": VOCABULARY}}, ["sources.s.document.bos", "vocabulary"]),
    "short": ({"document": {"length": 1}}, ["sources.s.document.length", "at least 2"]),
    "floats": ({"dtype": "float32"}, ["sources.s.dtype", "uint16"]),
    "other format": ({"files": "a.jsonl", "tokens": "tokens"}, ["document", "format: tokens"]),
}


@pytest.mark.parametrize("case", BAD_KEYS)
def test_keys_that_are_refused(case: str, tmp_path: Path) -> None:
    said, words = BAD_KEYS[case]
    source = {"files": "a.npy", "document": {"eod": EOD}, **said}
    with pytest.raises(ol.ConfigError) as caught:
        ol.job(job_config(tmp_path, {"s": source}))
    for word in words:
        assert word in str(caught.value)


def test_a_bin_without_idx_says_what_it_may_be(tmp_path: Path) -> None:
    GOOD.tofile(tmp_path / "a.bin")
    with pytest.raises(ol.OverlordError, match=r"a\.idx.*format: tokens"):
        open_source(tmp_path, {"files": "a.bin"}).open_stream()


def test_what_a_document_is_decides_the_stream(tmp_path: Path) -> None:
    """Another cut is another index, and a state of one does not fit the other."""
    GOOD.tofile(tmp_path / "a.bin")
    source = {"files": "a.bin", "format": "tokens", "dtype": "uint16"}
    states = []
    for document in ({"eod": EOD}, {"bos": EOD}, {"length": 32}, {"length": 64}):
        job = open_source(tmp_path, {**source, "document": document}, at_end="repeat")
        with job.train() as loader:
            next(loader)
            states.append(loader.state_dict())
    assert len(list(tmp_path.glob("index/s-*.index"))) == 4
    with (
        open_source(
            tmp_path, {**source, "document": {"eod": EOD}}, at_end="repeat"
        ).train() as loader,
        pytest.raises(ol.StateMismatchError, match=r"sources\.s"),
    ):
        loader.load_state_dict(states[-1])


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    write_shards(tmp_path, ENDED, "nanogpt", "uint16")
    source = {"files": "*.bin", "format": "tokens", "dtype": "uint16", "document": {"eod": EOD}}
    job = open_source(tmp_path, source, at_end="repeat", steps=8)
    with job.train(hash=True) as loader:
        whole = [batch.tokens.tolist() for batch in loader]
    with job.train() as loader:
        first = [next(loader).tokens.tolist() for _ in range(9)]
        state = loader.state_dict()
    with job.train() as loader:
        loader.load_state_dict(state)
        assert first + [batch.tokens.tolist() for batch in loader] == whole


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """index and inspect; a count finds what reading finds late."""
    tokens = np.array([1, 2, EOD, 3, VOCABULARY, EOD, 4, EOD])
    np.save(tmp_path / "a.npy", tokens.astype(np.int32))
    source = {"files": "a.npy", "document": {"eod": EOD}, "bad_rows_allowed": 1}
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job_config(tmp_path, {"s": source})))
    for words in (["index", str(path)], ["index", str(path), "--lengths"]):
        assert main(words) == 0
    assert "bad" in capsys.readouterr().out
    assert main(["inspect", str(path), "sample", "s", "0"]) == 0
    assert "1 2 999" in capsys.readouterr().out.replace(",", "")
    check_rows(ol.job(json.loads(path.read_text())), [tokens[:3], None, tokens[6:]])
