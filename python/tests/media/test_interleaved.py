"""Interleaved rows: texts joined with a marker in place of each image, in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chat_rows import VOCABULARY, chat_tokenizer, write_rows
from delivered import documents_of, pieces_of

import overlord as ol

MARKER = "<|image_pad|>"
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def rows_of(count: int) -> list[list[str | None]]:
    """Places of rows: a text, or None for an image."""
    return [
        [f"text {row}.{place}" if (row + place) % 3 else None for place in range(1 + row % 5)]
        for row in range(count)
    ]


def written(folder: Path, kind: str, rows: list[list[str | None]]) -> str:
    """A file with these rows in OBELICS' form; images as URLs, or as the Hub writes them."""
    hub = kind in ("hub", "arrow-hub")

    def image(place: str | None) -> Any:
        if place is not None:
            return None
        return {"bytes": b"\xff\xd8picture", "path": None} if hub else "https://x/y.jpg"

    listed = [{"texts": row, "images": [image(place) for place in row]} for row in rows]
    images = pa.list_(IMAGE if hub else pa.string())
    schema = pa.schema([("texts", pa.list_(pa.string())), ("images", images)])
    form = {"hub": "parquet", "arrow-hub": "arrow"}.get(kind, kind)
    return write_rows(folder, form, listed, schema)


def config_of(folder: Path, files: str, interleaved: Any = None, **source: Any) -> Any:
    own = {
        "files": files,
        "interleaved": {"marker": MARKER, **(interleaved or {})},
        "tokenizer": "own",
        "eod": 2,
        **source,
    }
    return {
        "job": "interleaved",
        "seed": 7,
        "context": 256,
        "bins": 2,
        "vocabulary": VOCABULARY,
        "at_end": "stop",
        "index_dir": str(folder / "index"),
        "tokenizers": {"own": {"path": str(folder / "model" / "tokenizer.json")}},
        "mixture": {"weights": {"web": 1}},
        "sources": {"web": own},
    }


def read(config: Any, engine: str = "embedded") -> tuple[str, dict[int, list[int]], dict[int, str]]:
    job = ol.job(config)
    native = job.open_stream().native
    with job.train(rank=0, engine=engine, hash=True) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        documents = {
            native.locate(0, id[1], id[2])["row"]: tokens[:-1].tolist()
            for id, tokens in documents_of(pieces).items()
        }
        bad = {note["row"]: note["reason"] for note in loader.quarantine()}
        return loader.rank_hash(), documents, bad


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "hub", "arrow", "arrow-hub", "webdataset"])
def test_images_are_markers_between_the_texts(tmp_path: Path, kind: str) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    rows = rows_of(60)
    config = config_of(tmp_path, written(tmp_path, kind, rows), {"separator": "\n"})
    digest, documents, bad = read(config)
    assert not bad
    for row, places in enumerate(rows):
        text = "\n".join(MARKER if place is None else place for place in places)
        assert documents[row] == tokenizer.encode(text, add_special_tokens=False).ids
    pad = tokenizer.token_to_id(MARKER)
    assert sum(tokens.count(pad) for tokens in documents.values()) == sum(
        row.count(None) for row in rows
    )
    assert read(config, engine="processes") == (digest, documents, bad)


def test_rows_out_of_step_are_bad(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    rows: list[dict[str, Any]] = [{"texts": ["good"], "images": [None]} for _ in range(20)]
    rows[3] = {"texts": ["a"], "images": ["b"]}
    rows[5] = {"texts": ["a", None], "images": [None]}
    rows[7] = {"texts": [f"see {MARKER}"], "images": [None]}
    rows[9] = {"texts": [None], "images": [None]}
    rows[11] = {"texts": "a", "images": [None]}
    config = config_of(tmp_path, write_rows(tmp_path, "jsonl", rows), bad_rows_allowed=9)
    _, documents, bad = read(config)
    reasons = {3: "both a text and", 5: "2 places", 7: "marker", 9: "neither", 11: "not an array"}
    assert bad.keys() == reasons.keys() and len(documents) == 15
    for row, part in reasons.items():
        assert part in bad[row] and f"row {row}" in bad[row]


def test_another_marker_is_another_source(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    files = written(tmp_path, "jsonl", rows_of(20))
    one, other = (
        ol.job(config_of(tmp_path, files, {"marker": marker})).open_stream().sources[0]
        for marker in (MARKER, "<image>")
    )
    assert one.schema["marker"] != other.schema["marker"]
    states = []
    for marker in (MARKER, "<image>"):
        with ol.job(config_of(tmp_path, files, {"marker": marker})).train(rank=0) as loader:
            next(loader)
            states.append(loader.state_dict())
    with ol.job(config_of(tmp_path, files)).train(rank=0) as loader:
        loader.load_state_dict(states[0])
    with (
        ol.job(config_of(tmp_path, files)).train(rank=0) as loader,
        pytest.raises(ol.OverlordError),
    ):
        loader.load_state_dict(states[1])


def test_what_a_row_is_is_said_once(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    with pytest.raises(ol.ConfigError, match="says already what a row is"):
        ol.job(config_of(tmp_path, "a.jsonl", text="t"))


def test_texts_of_another_type_are_refused(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    for kind in ("parquet", "arrow"):
        files = write_rows(tmp_path / kind, kind, [{"texts": "x", "images": [None]}])
        with pytest.raises(ol.OverlordError, match="texts must be a list of strings"):
            ol.job(config_of(tmp_path, files)).open_stream()
