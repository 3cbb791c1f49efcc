"""Rows with several pictures: lists and numbered members, and placeholders inside the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import index_file, job_config, made_up_texts
from delivered import flat, pieces_of
from test_media_stream import AFTER, BEFORE, CHAIN, PATCH, encoded, media_content, picture, train
from test_webdataset import tar_of
from trainers import embedded_hashes, hashes_of, trainers

import overlord as ol
from overlord import _core as core

MARK = 1  # a byte of the text, and the pad token
TOKENS = {"pad": MARK, "before": BEFORE, "after": AFTER, "place": "text"}
FIELD = {"from": ["png", "jpg"], "many": True, "transform": CHAIN, "tokens": TOKENS}
Row = tuple[bytes, list[bytes]]


def made_up_rows(count: int = 24, seed: int = 7) -> list[Row]:
    """Texts with none to three pictures, each with its mark somewhere in the text."""
    rng = np.random.default_rng(seed)
    rows = []
    for row, text in enumerate(made_up_texts(count, seed, longest=4)):
        images = [
            encoded(
                picture(rng, PATCH * int(rng.integers(1, 4)), PATCH * int(rng.integers(1, 4))),
                "JPEG" if (row + number) % 2 else "PNG",
            )
            for number in range(row % 4)
        ]
        parts = [text.encode()]
        for _ in images:
            parts.insert(int(rng.integers(0, len(parts) + 1)), bytes([MARK]))
        rows.append((b"".join(parts), images))
    return rows


def patches_of(image: bytes) -> np.ndarray[Any, Any]:
    """Rows of a picture as the chain makes them."""
    rows: np.ndarray[Any, Any] = core.run_image_chain(image, CHAIN)[0]
    return rows


def extension_of(image: bytes) -> str:
    """Of the file that the bytes are."""
    return "png" if image.startswith(b"\x89PNG") else "jpg"


def whole_tokens(row: Row) -> tuple[int, ...]:
    """The tokens that a row must become."""
    text, images = row
    left = iter(images)
    tokens: list[int] = []
    for byte in text:
        if byte == MARK:
            tokens += [BEFORE, *[MARK] * len(patches_of(next(left))), AFTER]
        else:
            tokens.append(byte)
    return tuple(tokens)


def as_tar(rows: list[Row]) -> bytes:
    """Numbered members, out of order; one picture alone has no number."""
    samples = []
    for number, (text, images) in enumerate(rows):
        sample: dict[str, Any] = {"__key__": f"{number:06d}", "txt": text}
        members = {f"{k * 5}.{extension_of(image)}": image for k, image in enumerate(images)}
        if len(images) == 1:
            members = {extension_of(images[0]): images[0]}
        sample.update(reversed(members.items()))
        samples.append(sample)
    return tar_of(samples)


def as_table(rows: list[Row]) -> pa.Table:
    """The Hub's layout, with nulls between the pictures as interleaved corpora have them."""
    lists = []
    for number, (_, images) in enumerate(rows):
        entries: list[Any] = [None]
        for image in images:
            entries += [{"bytes": image, "path": f"{number}.png"}, None]
        lists.append(entries if images or number % 8 else None)
    kind = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    texts = [text.decode() for text, _ in rows]
    return pa.table({"text": texts, "images": pa.array(lists, kind)})


def lists_config(
    folder: Path, rows: list[Row], form: str = "tar", field: Any = None, **top: Any
) -> dict[str, Any]:
    """A job over the rows in one file."""
    own = dict(FIELD if field is None else field)
    if form == "tar":
        (folder / "lists.tar").write_bytes(as_tar(rows))
    else:
        pq.write_table(as_table(rows), folder / "lists.parquet", row_group_size=7)
        own["from"] = "images"
    source = {
        "files": f"lists.{form}",
        "text": "txt" if form == "tar" else "text",
        "tokenizer": "bytes",
        "media": {"image": own},
        "over_length": "drop",
        "bad_rows_allowed": 8,
    }
    return job_config(folder, {"s": source}, **{"context": 128, **top})


@pytest.mark.parametrize("form", ["tar", "parquet"])
def test_lists_are_read_as_they_were_written(tmp_path: Path, form: str) -> None:
    rows = made_up_rows()
    stream = ol.job(lists_config(tmp_path, rows, form)).open_stream()
    index = str(index_file(tmp_path / "index", "s"))
    for number, (_, images) in enumerate(rows):
        assert core.read_media(index, stream.sources[0], number) == {"image": images}
    if form == "parquet":
        table = pq.read_table(tmp_path / "lists.parquet")["images"].to_pylist()
        kept = [[one["bytes"] for one in each or [] if one is not None] for each in table]
        assert kept == [images for _, images in rows]


@pytest.mark.parametrize("form", ["tar", "parquet"])
def test_pictures_stand_where_their_marks_are(tmp_path: Path, form: str) -> None:
    rows = made_up_rows()
    expected = {whole_tokens(row): row for row in rows}
    with train(lists_config(tmp_path, rows, form)) as loader:
        for batch in loader:
            pieces = pieces_of(batch)
            tokens = flat(batch.tokens)
            found = [expected.pop(tuple(piece.tokens.tolist())) for piece in pieces]
            for piece in pieces:
                masked = np.isin(piece.targets, [MARK, BEFORE, AFTER])
                assert not piece.weights[masked].any() and piece.weights[:-1][~masked[:-1]].all()
            images = [(at, image) for at, row in enumerate(found) for image in row[1]]
            media = batch.media.get("image")
            assert (media is None) == (not images)
            if media is None:
                continue
            assert media.documents.tolist() == [at for at, _ in images]
            for item, (_, image) in enumerate(images):
                assert np.array_equal(media[item], patches_of(image))
                first, end = media.token_spans[item]
                assert end - first == len(media[item]) and np.all(tokens[first:end] == MARK)
                assert tokens[first - 1] == BEFORE and tokens[end] == AFTER
    assert not expected


def test_lists_may_stand_before_the_text(tmp_path: Path) -> None:
    rows = made_up_rows()
    field = {**FIELD, "tokens": {**TOKENS, "pad": 900, "place": "before"}}
    expected = set()
    for text, images in rows:
        pads: list[int] = []
        for image in images:
            pads += [BEFORE, *[900] * len(patches_of(image)), AFTER]
        expected.add((*pads, *text))
    with train(lists_config(tmp_path, rows, field=field)) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
    assert {tuple(piece.tokens.tolist()) for piece in pieces} == expected


def test_ready_tokens_may_have_pads_too(tmp_path: Path) -> None:
    rows = made_up_rows()
    table = as_table(rows)
    texts = pa.array([list(text) for text, _ in rows], pa.list_(pa.int32()))
    masks = pa.array([[i % 3 > 0 for i in range(len(text))] for text, _ in rows])
    table = pa.table({"tokens": texts, "mask": masks, "images": table["images"]})
    config = lists_config(tmp_path, rows, "parquet")
    pq.write_table(table, tmp_path / "lists.parquet", row_group_size=7)
    source = config["sources"]["s"]
    source.update(tokens="tokens", mask="mask")
    del source["text"], source["tokenizer"]
    expected = {whole_tokens(row): row for row in rows}
    with train(config) as loader:
        for batch in loader:
            for piece in pieces_of(batch):
                text, images = expected.pop(tuple(piece.tokens.tolist()))
                carries, left = [], iter(images)
                for at, byte in enumerate(text):
                    pads = len(patches_of(next(left))) + 2 if byte == MARK else 0
                    carries += [False] * pads if byte == MARK else [at % 3 > 0]
                assert piece.weights[:-1].astype(bool).tolist() == carries[1:]
    assert not expected


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_resuming_is_exact(tmp_path: Path, engine: str) -> None:
    config = lists_config(tmp_path, made_up_rows(), "parquet")
    with train(config, engine=engine) as loader:
        states, batches = [], []
        for batch in loader:
            batches.append(media_content(batch))
            states.append(loader.state_dict())
    for taken in range(1, len(batches), 4 if engine == "processes" else 1):
        with train(config, engine=engine) as loader:
            loader.load_state_dict(states[taken - 1])
            assert [media_content(batch) for batch in loader] == batches[taken:]


def test_engines_give_the_same_stream(tmp_path: Path) -> None:
    config = lists_config(tmp_path, made_up_rows(), align=4)
    mesh = {"dp": 2}
    with trainers(config, mesh, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, mesh)


def test_wrong_counts_and_broken_pictures_are_named(tmp_path: Path) -> None:
    rows = made_up_rows()
    short, long, broken = 6, 5, 7  # 2, 1 and 3 pictures
    rows[short] = (rows[short][0].replace(bytes([MARK]), b"", 1), rows[short][1])
    rows[long] = (rows[long][0] + bytes([MARK]), rows[long][1])
    whole = whole_tokens(rows[broken])
    png = next(k for k, image in enumerate(rows[broken][1]) if extension_of(image) == "png")
    rows[broken][1][png] = rows[broken][1][png][:-30]  # its header is whole
    with train(lists_config(tmp_path, rows)) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        quarantined = "\n".join(sorted(str(note) for note in loader.quarantine()))
    assert len(pieces) == len(rows) - 2
    holes = [piece for piece in pieces if piece.hole]
    assert [len(hole.tokens) for hole in holes] == [len(whole)]
    text = quarantined.replace("\\", "")
    assert "row 6: media 'image': its tokens have the pad token 1 1 times, and it has 2" in text
    assert "row 5: media 'image': its tokens have the pad token 1 2 times, and it has 1" in text
    assert f"row 7, media 'image', blob {png}: " in text and "lists.tar" in text


def test_counts_are_sums_over_the_blobs(tmp_path: Path) -> None:
    rows = made_up_rows()
    cost = {"kind": "sum", "terms": [{"column": "image_patches", "linear_q32": 1 << 32}]}
    strategy = {"distribute": {"axis": "dp"}, "cost": cost, "balance": {"method": "lpt"}}
    with train(lists_config(tmp_path, rows, strategy=strategy)) as loader:
        seen = sum(len(batch.media.get("image", ())) for batch in loader)
    assert seen == sum(len(images) for _, images in rows)


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_all_pictures_go_to_the_ranks_that_encode_them(tmp_path: Path, engine: str) -> None:
    rows = made_up_rows()
    config = lists_config(tmp_path, rows, strategy={"encoder": {"bytes_per_unit": 8}})
    expected = sorted(
        [patches_of(image).tolist() for image in images] for _, images in rows if images
    )
    seen = []
    with train(config, engine=engine) as loader:
        for batch in loader:
            part = batch.encoder
            assert part is not None and all(one.data is None for one in batch.media.values())
            for media in part.media.values():
                by_sample: dict[int, list[Any]] = {}
                for sample, patches in zip(media.documents, media, strict=True):
                    by_sample.setdefault(int(sample), []).append(patches.tolist())
                seen += by_sample.values()
    assert sorted(seen) == expected


@pytest.mark.parametrize(
    ("media", "match"),
    [
        ({"image": FIELD, "other": {**FIELD, "from": "webp"}}, "pad token of media image"),
        ({"image": {**FIELD, "tokens": {**TOKENS, "place": "behind"}}}, "place"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(tmp_path: Path, media: Any, match: str) -> None:
    config = lists_config(tmp_path, made_up_rows(4))
    config["sources"]["s"]["media"] = media
    with pytest.raises(ol.ConfigError, match=match):
        train(config)


def test_a_column_of_one_blob_is_no_list(tmp_path: Path) -> None:
    rows = made_up_rows(8)
    config = lists_config(tmp_path, rows, "parquet")
    config["sources"]["s"]["media"]["image"]["many"] = False
    with pytest.raises(Exception, match="many: true"):
        train(config)
