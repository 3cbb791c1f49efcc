"""Pictures in columns of Parquet and Arrow, through the stream: pixels, holes and engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import job_config
from delivered import pieces_of
from test_arrow import save_by_hand, write_ipc
from test_media_stream import (
    CHAIN,
    IMAGE,
    image_of,
    made_up_pairs,
    media_content,
    train,
    whole_tokens,
)
from trainers import embedded_hashes, hashes_of, trainers

from overlord import _core as core

Samples = list[dict[str, Any]]
FIELD = {**IMAGE, "from": "image"}


def in_structs(folder: Path, images: list[bytes | None]) -> pa.Array:
    """The Hub's layout: bytes, and a name that nobody needs; some lie beside the shard."""
    cells: list[Any] = []
    for row, image in enumerate(images):
        if image is not None and row % 3 == 0:
            (folder / f"{row}.img").write_bytes(image)
            cells.append({"bytes": None, "path": f"{row}.img"})
        else:
            cells.append(None if image is None else {"bytes": image, "path": f"x{row}.png"})
    return pa.array(cells, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def in_bytes(folder: Path, images: list[bytes | None]) -> pa.Array:
    """A plain column of bytes."""
    return pa.array(images, pa.binary())


def in_large_bytes(folder: Path, images: list[bytes | None]) -> pa.Array:
    """The same with wide offsets."""
    return pa.array(images, pa.large_binary())


def beside(folder: Path, images: list[bytes | None]) -> pa.Array:
    """Names of files beside the shard."""
    (folder / "in").mkdir(exist_ok=True)
    for row, image in enumerate(images):
        if image is not None:
            (folder / "in" / f"{row}.img").write_bytes(image)
    names = [None if image is None else f"in/{row}.img" for row, image in enumerate(images)]
    return pa.array(names, pa.string())


LAYOUTS: dict[str, Callable[[Path, list[bytes | None]], pa.Array]] = {
    "struct": in_structs,
    "bytes": in_bytes,
    "large": in_large_bytes,
    "paths": beside,
}


def to_parquet(folder: Path, table: pa.Table) -> str:
    pq.write_table(table, folder / "pairs.parquet", row_group_size=7)
    return "pairs.parquet"


def to_arrow(folder: Path, table: pa.Table) -> str:
    write_ipc(folder / "pairs.arrow", table, rows=7)
    return "pairs.arrow"


def to_packed_arrow(folder: Path, table: pa.Table) -> str:
    write_ipc(folder / "pairs.arrow", table, rows=7, stream=True, compression="zstd")
    return "pairs.arrow"


WRITERS: dict[str, Callable[[Path, pa.Table], str]] = {
    "parquet": to_parquet,
    "arrow": to_arrow,
    "arrow-zstd": to_packed_arrow,
}


def table_of(folder: Path, samples: Samples, layout: str) -> pa.Table:
    """Texts and pictures as columns."""
    images = LAYOUTS[layout](folder, [image_of(sample) for sample in samples])
    return pa.table({"text": [sample["txt"].decode() for sample in samples], "image": images})


def columns_config(folder: Path, files: str, field: Any = FIELD, **top: Any) -> dict[str, Any]:
    """A job over one shard of them."""
    source = {
        "files": files,
        "text": "text",
        "tokenizer": "bytes",
        "media": {"image": field},
        "over_length": "drop",
        "bad_rows_allowed": 8,
    }
    return job_config(folder, {"s": source}, **{"context": 96, **top})


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pixels_are_those_of_the_chain(tmp_path: Path, layout: str, writer: str) -> None:
    samples = made_up_pairs()
    files = WRITERS[writer](tmp_path, table_of(tmp_path, samples, layout))
    expected = {tuple(whole_tokens(sample)): sample for sample in samples}
    seen = 0
    with train(columns_config(tmp_path, files)) as loader:
        for batch in loader:
            found = [expected.pop(tuple(piece.tokens.tolist())) for piece in pieces_of(batch)]
            with_image = [image for one in found if (image := image_of(one)) is not None]
            media = batch.media.get("image")
            assert (media is None) == (not with_image)
            for item, image in enumerate(with_image):
                assert media is not None
                rows, _ = core.run_image_chain(image, CHAIN)
                assert np.array_equal(media[item], np.asarray(rows).reshape(len(media[item]), -1))
                seen += 1
        assert not loader.quarantine()
    assert not expected and seen == sum(image_of(sample) is not None for sample in samples)


def stream_of(config: dict[str, Any]) -> list[Any]:
    """Everything that a run delivers."""
    with train(config) as loader:
        return [media_content(batch) for batch in loader]


def test_formats_give_the_same_rows(tmp_path: Path) -> None:
    """Blocks of the same rows in the same order: only where the bytes lie differs."""
    samples = made_up_pairs()
    streams = []
    for layout in LAYOUTS:
        for name, write in WRITERS.items():
            folder = tmp_path / f"{layout}-{name}"
            folder.mkdir()
            config = columns_config(folder, write(folder, table_of(folder, samples, layout)))
            config["sources"]["s"]["shuffle"] = "none"
            streams.append(stream_of(config))
    assert all(stream == streams[0] for stream in streams[1:])


@pytest.mark.parametrize("writer", WRITERS)
def test_engines_give_the_same_stream(tmp_path: Path, writer: str) -> None:
    files = WRITERS[writer](tmp_path, table_of(tmp_path, made_up_pairs(), "struct"))
    config = columns_config(tmp_path, files)
    config["sources"]["s"]["shuffle"] = "full"
    with trainers(config, {"dp": 2}, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})


@pytest.mark.parametrize("writer", WRITERS)
def test_a_broken_picture_is_a_named_hole(tmp_path: Path, writer: str) -> None:
    samples = made_up_pairs()
    broken, lied = 1, 4
    key = "jpg" if "jpg" in samples[broken] else "png"
    assert image_of(samples[broken]) and image_of(samples[lied])
    whole = dict(samples[broken])
    samples[broken] = {**whole, key: b""}
    samples[lied] = {"txt": samples[lied]["txt"], "png": b"GIF89a, no picture that we read"}
    png = next(row for row in range(5, 24) if "png" in samples[row])
    good = dict(samples[png])
    samples[png] = {**good, "png": good["png"][:-30]}  # its header is whole
    table = table_of(tmp_path, samples, "bytes")
    cells = table.column("image").to_pylist()
    cells[broken] = b""
    table = table.set_column(1, "image", pa.array(cells, pa.binary()))
    with train(columns_config(tmp_path, WRITERS[writer](tmp_path, table))) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        notes = {note["row"]: str(note) for note in loader.quarantine()}
    holes = [piece for piece in pieces if piece.hole]
    assert len(holes) == 1 and len(pieces) == len(samples) - 2
    assert len(holes[0].tokens) == len(whole_tokens(good))
    assert sorted(notes) == sorted({broken, lied, png})
    for text in notes.values():
        assert "image" in text and "pairs." in text
    assert "PNG" in notes[png] and "GIF" in notes[lied]


def test_files_that_are_gone_or_lead_out_are_bad_rows(tmp_path: Path) -> None:
    samples = made_up_pairs()
    names = ["../out.png", "gone.png", *[None] * (len(samples) - 2)]
    texts = [sample["txt"].decode() for sample in samples]
    table = pa.table({"text": texts, "image": pa.array(names, pa.string())})
    for name, write in WRITERS.items():
        folder = tmp_path / name
        folder.mkdir()
        with train(columns_config(folder, write(folder, table))) as loader:
            pieces = [piece for batch in loader for piece in pieces_of(batch)]
            notes = {note["row"]: str(note) for note in loader.quarantine()}
        assert len(pieces) == len(samples) - 2
        assert "leads out of it" in notes[0] and "beside the shard" in notes[1]


def test_a_saved_dataset_of_pictures(tmp_path: Path) -> None:
    samples = made_up_pairs()
    table = table_of(tmp_path, samples, "bytes")
    image = table.column("image").combine_chunks()
    cells = [None if one is None else {"bytes": one, "path": None} for one in image.to_pylist()]
    shape = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = table.set_column(1, "image", pa.array(cells, shape))
    save_by_hand(tmp_path / "set", [table.slice(0, 10), table.slice(10)])
    with train(columns_config(tmp_path, "set/")) as loader:
        count = sum(len(batch.media.get("image", ())) for batch in loader)
    assert count == sum(image_of(sample) is not None for sample in samples)


def test_a_row_group_is_decoded_once_for_all_its_rows(tmp_path: Path) -> None:
    samples = [sample for sample in made_up_pairs(400) if image_of(sample) is not None]
    images = in_bytes(tmp_path, [image_of(sample) for sample in samples])
    table = pa.table({"text": [sample["txt"].decode() for sample in samples], "image": images})
    pq.write_table(table, tmp_path / "pairs.parquet", row_group_size=100, use_dictionary=False)
    source = {
        "files": "pairs.parquet",
        "text": "text",
        "tokenizer": "bytes",
        "media": {"image": FIELD},
        "over_length": "drop",
    }
    with train(job_config(tmp_path, {"s": source}, context=96, bins=2)) as loader:
        assert sum(1 for _ in loader) > 50
        [status] = loader.status()["loaders"]
    assert status["blocks_read"] == 6, "text and pictures of three row groups"
    assert status["read_bytes"] <= (tmp_path / "pairs.parquet").stat().st_size
