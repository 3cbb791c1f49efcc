"""Chat and interleaved rows out of Arrow and tars: the same as pyarrow reads, in every layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from chat_rows import (
    chat_job,
    chat_tokenizer,
    chatml,
    conversations,
    json_members,
    tokens_and_mask,
    write_rows,
)
from corpora import job_config
from test_arrow import save_by_hand, write_ipc
from test_chat import Rows, delivered, stored, weights_of
from test_interleaved import MARKER, config_of, read, rows_of
from test_media_stream import CHAIN, PATCH, encoded, picture, train
from test_webdataset import tar_of

import overlord as ol
from overlord import _core as core

MESSAGE = [("role", pa.string()), ("content", pa.string())]
LARGE = pa.large_list(pa.struct([(name, pa.large_string()) for name, _ in MESSAGE]))
PLAIN = pa.list_(pa.struct(MESSAGE))
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def read_table(file: str) -> pa.Table:
    """All rows of a file, as pyarrow reads it."""
    with pa.memory_map(file) as source:
        try:
            return pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(source).read_all()


def by_pyarrow(tokenizer: Any, file: str) -> Rows:
    """Tokens and mask of every conversation that pyarrow finds in the file."""
    talks = read_table(file)["messages"].to_pylist()
    made = (chatml([dict(message.items()) for message in talk]) for talk in talks)
    return {row: tokens_and_mask(tokenizer, pieces) for row, pieces in enumerate(made)}


@pytest.mark.parametrize("kind", [PLAIN, LARGE], ids=["list", "large_list"])
@pytest.mark.parametrize("options", [{}, {"stream": True}, {"compression": "zstd"}], ids=str)
def test_conversations_in_every_layout(tmp_path: Path, kind: Any, options: Any) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    turns = conversations(150, seed=11)
    talks = pa.array(turns, kind)
    # Columns that nobody asked for lie around it, nested ones too.
    table = pa.table(
        {
            "before": pa.array([[i, i] for i in range(150)]),
            "messages": talks,
            "after": pa.array([{"a": f"{i}" * 5, "b": [b"x"] * (i % 3)} for i in range(150)]),
        }
    )
    file = str(tmp_path / "talks.arrow")
    write_ipc(Path(file), table, **options)
    config = chat_job(tmp_path, file, {"template": "chatml"})
    assert stored(ol.job(config), 150) == by_pyarrow(tokenizer, file)


def test_a_saved_dataset_of_conversations(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    turns = conversations(90, seed=12)
    tables = [pa.table({"messages": pa.array(part, PLAIN)}) for part in (turns[:50], turns[50:])]
    save_by_hand(tmp_path / "set", tables)
    config = chat_job(tmp_path, str(tmp_path / "set") + "/", {"template": "chatml"})
    names = sorted((tmp_path / "set").glob("*.arrow"))
    expected = [rows for name in names for rows in by_pyarrow(tokenizer, str(name)).values()]
    assert list(stored(ol.job(config), 90).values()) == expected
    assert len(expected) == 90
    _, rows, bad = delivered(config, engine="processes")
    assert not bad and all(
        rows[row] == (tokens, weights_of(mask))
        for row, (tokens, mask) in enumerate(expected)
        if row in rows
    )


def test_broken_text_is_one_bad_row(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    turns = conversations(30, seed=13)
    raw = pa.list_(pa.struct([(name, pa.binary()) for name, _ in MESSAGE]))
    talks = [
        [{name: text.encode() for name, text in one.items()} for one in talk] for talk in turns
    ]
    talks[7][0]["content"] = b"\xff\xfe"
    table = pa.table({"messages": pa.array(talks, raw)})
    # The same buffers under another type: how broken text gets into a file.
    told = pa.schema([("messages", PLAIN)])
    broken = pa.Table.from_batches(
        [
            pa.record_batch(
                [
                    pa.ListArray.from_arrays(
                        column.offsets,
                        pa.StructArray.from_arrays(
                            [
                                pa.StringArray.from_buffers(len(field), *field.buffers()[1:])
                                for field in (column.values.field(0), column.values.field(1))
                            ],
                            names=["role", "content"],
                        ),
                    )
                ],
                schema=told,
            )
            for column in table["messages"].chunks
        ]
    )
    write_ipc(tmp_path / "talks.arrow", broken)
    config = chat_job(
        tmp_path, str(tmp_path / "talks.arrow"), {"template": "chatml"}, bad_rows_allowed=2
    )
    _, rows, bad = delivered(config)
    assert bad.keys() == {7} and "not valid UTF-8" in bad[7]
    assert rows.keys() == set(range(30)) - {7}


def test_columns_that_are_no_conversation_are_refused(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    for number, (column, match) in enumerate(
        [
            (pa.array([[b"x"]]), "has binary in it"),
            (pa.array([["x"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))), "has dictionary"),
            (pa.array([[{"at": 3}]], pa.list_(pa.struct([("at", pa.date32())]))), "has date32"),
        ]
    ):
        file = tmp_path / f"{number}.arrow"
        write_ipc(file, pa.table({"messages": column}))
        config = chat_job(tmp_path, str(file), {"template": "chatml"})
        with pytest.raises(ol.OverlordError, match=match):
            ol.job(config).open_stream()
    write_ipc(tmp_path / "none.arrow", pa.table({"talk": ["x"]}))
    config = chat_job(tmp_path, str(tmp_path / "none.arrow"), {"template": "chatml"})
    with pytest.raises(ol.OverlordError, match="has no column 'messages'; it has 'talk'"):
        ol.job(config).open_stream()


@pytest.mark.parametrize("codec", [None, "lz4"])
def test_interleaved_rows_are_those_that_pyarrow_reads(tmp_path: Path, codec: str | None) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    rows = rows_of(150)
    large = b"\xff\xd8picture" * 5000  # more than a gap that is read along
    images = [[None if text is not None else {"bytes": large} for text in row] for row in rows]
    table = pa.table(
        {
            "images": pa.array(images, pa.list_(IMAGE)),
            "texts": pa.array(rows, pa.large_list(pa.large_string())),
        }
    )
    write_ipc(tmp_path / "pages.arrow", table, compression=codec)
    config = config_of(tmp_path, str(tmp_path / "pages.arrow"))
    _, documents, bad = read(config)
    found = read_table(str(tmp_path / "pages.arrow")).to_pylist()
    assert not bad and len(documents) == 150
    for row, page in enumerate(found):
        places = zip(page["texts"], page["images"], strict=True)
        text = "".join(MARKER if image is not None else words for words, image in places)
        assert documents[row] == tokenizer.encode(text, add_special_tokens=False).ids


def pages_with_pictures(count: int) -> list[tuple[list[str | None], list[bytes]]]:
    """Places of pages, and the pictures of those that are no text."""
    rng = np.random.default_rng(4)
    made = []
    for places in rows_of(count):
        pictures = [
            encoded(picture(rng, PATCH * (1 + number % 3), PATCH * 2), "PNG")
            for number, place in enumerate(places)
            if place is None
        ]
        made.append((places, pictures))
    return made


def as_arrow(pages: list[tuple[list[str | None], list[bytes]]], path: Path) -> None:
    images = []
    for places, pictures in pages:
        left = iter(pictures)
        images.append([None if text is not None else {"bytes": next(left)} for text in places])
    texts = pa.array([places for places, _ in pages], pa.list_(pa.string()))
    write_ipc(path, pa.table({"texts": texts, "images": pa.array(images, pa.list_(IMAGE))}))


def as_tar(pages: list[tuple[list[str | None], list[bytes]]], path: Path) -> None:
    samples = []
    for number, (places, pictures) in enumerate(pages):
        images = ["here" if text is None else None for text in places]
        sample: dict[str, Any] = {
            "__key__": f"{number:06d}",
            "json": json.dumps({"texts": places, "images": images}).encode(),
        }
        samples.append(sample | {f"{k}.png": one for k, one in enumerate(pictures)})
    path.write_bytes(tar_of(samples))


def test_pictures_take_the_places_of_their_markers(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    pad = tokenizer.token_to_id(MARKER)
    pages = pages_with_pictures(40)
    as_arrow(pages, tmp_path / "pages.arrow")
    as_tar(pages, tmp_path / "pages.tar")
    around = [tokenizer.token_to_id(f"<|vision_{word}|>") for word in ("start", "end")]
    tokens = {"pad": pad, "before": around[0], "after": around[1], "place": "text"}
    streams = []
    for file, origin in (("pages.arrow", "images"), ("pages.tar", "png")):
        field = {"from": origin, "many": True, "transform": CHAIN, "tokens": tokens}
        config = config_of(tmp_path, str(tmp_path / file), media={"image": field})
        config |= {"index_dir": str(tmp_path / f"index-{origin}")}
        config["sources"]["web"] |= {"over_length": "drop"}
        with train(config, hash=True) as loader:
            delivered_pads = 0
            for batch in loader:
                delivered_pads += int((batch.arrays()["tokens"] == pad).sum())
            assert not loader.quarantine()
            streams.append(delivered_pads)
    expected = sum(
        len(core.run_image_chain(one, CHAIN)[0]) for _, pictures in pages for one in pictures
    )
    assert streams == [expected, expected]


def test_rows_of_tars_that_are_none_are_named(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    rows: list[Any] = [{"messages": one} for one in conversations(20, seed=14)]
    rows[3] = ["no object"]
    rows[5] = {"talk": []}
    rows[7] = {"messages": None}
    (tmp_path / "talks.tar").write_bytes(json_members(rows))
    config = chat_job(
        tmp_path, str(tmp_path / "talks.tar"), {"template": "chatml"}, bad_rows_allowed=5
    )
    _, good, bad = delivered(config)
    assert bad.keys() == {3, 5, 7} and len(good) == 17
    assert "member .json is an array, not an object" in bad[3]
    assert "member .json: " in bad[5] and "messages" in bad[5]
    lonely = tar_of([{"__key__": "a", "txt": b"x"}])
    (tmp_path / "lonely.tar").write_bytes(lonely)
    source = {"files": "lonely.tar", "chat": {"template": "chatml"}, "tokenizer": "bytes"}
    with pytest.raises(ol.ConfigError, match="kind huggingface"):
        ol.job(job_config(tmp_path, {"s": source}))
    config = chat_job(tmp_path, str(tmp_path / "lonely.tar"), {"template": "chatml"})
    config["sources"]["sft"]["bad_rows_allowed"] = 1
    config["index_dir"] = str(tmp_path / "other")
    reason = ol.job(config).open_stream().native.read_row(0, 0, [])["bad"]
    assert "has no member .json; it has .txt" in reason


def test_megatron_has_no_conversations(tmp_path: Path) -> None:
    with pytest.raises(ol.ConfigError, match="megatron files have no such rows"):
        ol.job(chat_job(tmp_path, "a.bin", {"template": "chatml"}, format="megatron"))


def test_the_same_rows_in_one_stream(tmp_path: Path) -> None:
    """A conversation is the same tokens out of every format."""
    chat_tokenizer(tmp_path / "model")
    rows = [{"messages": one} for one in conversations(40, seed=15)]
    made = []
    for kind in ("jsonl", "parquet", "arrow", "webdataset"):
        folder = tmp_path / kind
        files = write_rows(folder, kind, rows)
        config = chat_job(tmp_path, files, {"template": "chatml"})
        made.append(stored(ol.job({**config, "index_dir": str(folder / "index")}), 40))
    assert made[0] and made == [made[0]] * 4
