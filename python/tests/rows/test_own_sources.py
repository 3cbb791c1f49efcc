"""Readers of users' own: rows by their numbers, the same laws as for files, and what breaks them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from delivered import content, documents_of, pieces_of
from own_sources import BAD, ROWS, text_of
from trainers import embedded_hashes, hashes_of, trainers

import overlord as ol


def config_of(folder: Path, reader: Any, **source: Any) -> dict[str, Any]:
    """A job over one reader."""
    own = {"reader": reader, "text": "text", "tokenizer": "bytes", **source}
    return {
        "job": "readers",
        "seed": 7,
        "context": 96,
        "bins": 4,
        "vocabulary": 1000,
        "at_end": "stop",
        "index_dir": str(folder / "index"),
        "mixture": {"weights": {"own": 1}},
        "sources": {"own": {name: value for name, value in own.items() if value is not None}},
    }


def read(config: dict[str, Any], **options: Any) -> tuple[dict[int, str], dict[int, str]]:
    """Texts by row, and reasons of bad rows."""
    job = ol.job(config, **options)
    with job.train() as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        bad = {note["row"]: str(note) for note in loader.quarantine()}
        native = job.open_stream().native
        texts = {
            native.locate(0, id[1], id[2])["row"]: bytes(tokens.astype("uint8")).decode()
            for id, tokens in documents_of(pieces).items()
        }
    return texts, bad


WHOLE = {row: text_of(row) for row in range(ROWS)}


@pytest.mark.parametrize("reader", ["Texts", "pair"])
@pytest.mark.parametrize("shuffle", ["none", "window", "full"])
def test_rows_are_those_of_the_reader(tmp_path: Path, reader: str, shuffle: str) -> None:
    config = config_of(tmp_path, f"own_sources:{reader}", shuffle=shuffle)
    assert read(config) == (WHOLE, {})


def test_tokens_and_rows_that_are_dropped(tmp_path: Path) -> None:
    config = config_of(
        tmp_path, "own_sources:Tokens", text=None, tokenizer=None, tokens="ids", bad_rows_allowed=1
    )
    texts, bad = read(config)
    assert texts == {row: text for row, text in WHOLE.items() if row != BAD}
    assert list(bad) == [BAD] and "dropped by transform own_sources:Tokens" in bad[BAD]


def test_options_reach_it_and_are_in_the_digest(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps({"text": text_of(n)}) + "\n" for n in range(9)))
    config = config_of(
        tmp_path, {"function": "own_sources:OfAFile", "options": {"path": str(lines)}}
    )
    assert read(config)[0] == {row: text_of(row) for row in range(9)}
    plain = ol.job(config_of(tmp_path, "own_sources:Texts"))
    loud = {"function": "own_sources:Texts", "options": {"shout": True}}
    shouting = ol.job(config_of(tmp_path, loud))
    with plain.train() as loader:
        next(loader)
        state = loader.state_dict()
    with shouting.train() as loader, pytest.raises(ol.StateMismatchError):
        loader.load_state_dict(state)
    assert read(config_of(tmp_path, loud))[0][4] == text_of(4).upper()


def test_another_version_is_another_source(tmp_path: Path) -> None:
    with ol.job(config_of(tmp_path, "own_sources:Texts")).train() as loader:
        next(loader)
        state = loader.state_dict()
    again = ol.job(config_of(tmp_path, "own_sources:Again"))
    with again.train() as loader, pytest.raises(ol.StateMismatchError):
        loader.load_state_dict(state)


def test_it_resumes_exactly_and_is_the_same_on_every_engine(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_sources:Texts")
    states, batches = [], []
    with ol.job(config).train() as loader:
        for batch in loader:
            batches.append(content(batch))
            states.append(loader.state_dict())
    for taken in range(1, len(batches), 4):
        with ol.job(config).train() as loader:
            loader.load_state_dict(states[taken - 1])
            assert [content(batch) for batch in loader] == batches[taken:]
    with trainers(config, {"dp": 2}, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})


def test_it_is_the_stream_of_the_same_rows_in_a_file(tmp_path: Path) -> None:
    """Order, packing and content: only the digest tells them apart."""
    own = config_of(tmp_path, "own_sources:Texts", shuffle="none")
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in WHOLE.values()))
    other = config_of(tmp_path, None, files=str(file), shuffle="none")
    streams = []
    for config in (own, other):
        with ol.job(config).train() as loader:
            streams.append([content(batch) for batch in loader])
    assert streams[0] == streams[1]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("raise", "raised ValueError: row seventeen"),
        ("short", "answered 0 rows for 1"),
        ("type", "is int, and the source has a text in 'text'"),
        ("key", "has no 'text'; it has 'other'"),
        ("exit", "own_sources:bad_exit"),
        ("kill", "own_sources:bad_kill"),
        ("hang", "own_sources:bad_hang"),
    ],
)
def test_a_row_that_it_cannot_bear_is_bad(tmp_path: Path, kind: str, words: str) -> None:
    reader = {"function": f"own_sources:bad_{kind}", "batch": 8}
    if kind == "hang":
        reader["deadline_seconds"] = 0.5
    texts, bad = read(config_of(tmp_path, reader, bad_rows_allowed=1))
    assert texts == {row: text for row, text in WHOLE.items() if row != BAD}
    assert list(bad) == [BAD] and words in bad[BAD], bad


def test_one_that_answers_otherwise_is_found(tmp_path: Path) -> None:
    with pytest.raises(ol.UserFunctionError, match="own_sources:Fickle"):
        read(config_of(tmp_path, {"function": "own_sources:Fickle", "check_every": 1}))


@pytest.mark.parametrize(
    ("reader", "words"),
    [
        ("own_sources:none_at_all", "says that it has 0 rows"),
        ("own_sources:half_a_row", "2.5 rows, which is no whole number"),
        ("own_sources:count_raises", "raised ValueError: cannot count"),
        ("own_sources:count_exits", "ended with status 5"),
        ({"function": "own_sources:count_hangs", "deadline_seconds": 0.5}, "within 0.5 seconds"),
        ("own_sources:no_reader", "is no reader"),
        ("own_sources:nothing", "cannot be imported"),
        ("Texts", "names no module"),
        ({"function": "own_sources:Texts", "options": {"loud": 1}}, "raised TypeError"),
    ],
)
def test_one_that_cannot_be_counted_is_refused(tmp_path: Path, reader: Any, words: str) -> None:
    with pytest.raises(ol.ConfigError, match=words):
        read(config_of(tmp_path, reader))


@pytest.mark.parametrize(
    "source",
    [
        {"files": "x.jsonl"},
        {"metadata": ["a"]},
        {"media": {"image": "a"}},
        {"chat": "messages"},
        {"transform": "own_transforms:loud"},
        {"format": "jsonl"},
    ],
)
def test_what_a_reader_has_not_is_refused(tmp_path: Path, source: dict[str, Any]) -> None:
    with pytest.raises(ol.ConfigError, match="a source with a reader has none"):
        ol.job(config_of(tmp_path, "own_sources:Texts", **source))


def test_bytes_are_no_unit_of_it_and_files_are_needed(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_sources:Texts")
    config["mixture"]["unit"] = "bytes"
    with pytest.raises(ol.ConfigError, match="come out of a reader"):
        ol.job(config)
    with pytest.raises(ol.ConfigError, match=r"files: required"):
        ol.job(config_of(tmp_path, None))


def test_decorators_say_what_is_wrong() -> None:
    with pytest.raises(TypeError, match="no read"):
        ol.source(version=1)(type("Half", (), {"rows": lambda self: 1}))
    with pytest.raises(TypeError, match="rows="):
        ol.source(version=1)(lambda rows: rows)
    with pytest.raises(TypeError, match="whenever the rows change"):
        ol.source(version="")
