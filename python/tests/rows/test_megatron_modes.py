"""Megatron's multimodal files: text and packed pictures in one .bin, by the modes of its .idx."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import EOD, MEGATRON_CODES, Tokens, job_config, made_up_documents
from PIL import Image
from test_formats_oracle import check_rows, open_source

import overlord as ol
from overlord import _core as core

PATCHES = "orient; resize width=16 height=16"


def png(seed: int) -> bytes:
    """A small picture."""
    values = np.random.default_rng(seed).integers(0, 255, (9, 7, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(values).save(out, format="PNG")
    return out.getvalue()


def packed(data: bytes) -> Any:
    """A file as tools/preprocess_mmdata.py of Megatron packs it."""
    padding = (4 - len(data) % 4) % 4
    numbers = np.frombuffer(data + bytes(padding), np.int32)
    return np.insert(numbers, 0, padding)


def write_multimodal(prefix: Path, documents: Sequence[tuple[Tokens, Sequence[bytes]]]) -> None:
    """What IndexedDatasetBuilder(multimodal=True) writes: text of mode 0, then files of mode 1."""
    sequences: list[Any] = []
    modes: list[int] = []
    ends = [0]
    for tokens, files in documents:
        sequences += [tokens.astype(np.int32), *map(packed, files)]
        modes += [0, *(1 for _ in files)]
        ends.append(len(sequences))
    lengths = np.array([len(one) for one in sequences], np.int32)
    pointers = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))[:-1] * 4])
    header = b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, MEGATRON_CODES["int32"])
    header += struct.pack("<QQ", len(sequences), len(ends))
    prefix.with_suffix(".bin").write_bytes(b"".join(one.tobytes() for one in sequences))
    prefix.with_suffix(".idx").write_bytes(
        header
        + lengths.tobytes()
        + pointers.astype(np.int64).tobytes()
        + np.array(ends, np.int64).tobytes()
        + np.array(modes, np.int8).tobytes()
    )


DOCUMENTS = made_up_documents(60, seed=2)
PICTURES = [[png(row * 5 + n) for n in range(row % 3)] for row in range(60)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards of them."""
    pairs = list(zip(DOCUMENTS, PICTURES, strict=True))
    write_multimodal(tmp_path / "a", pairs[:40])
    write_multimodal(tmp_path / "b", pairs[40:])
    return tmp_path


def test_text_alone(folder: Path) -> None:
    """Files that nobody declares are stepped over."""
    check_rows(open_source(folder, {"files": "*.bin"}), DOCUMENTS)


def test_files_are_media(folder: Path) -> None:
    media = {"image": {"from": "1", "many": True}}
    job = open_source(folder, {"files": "*.bin", "media": media})
    check_rows(job, DOCUMENTS)
    stream = job.open_stream()
    path = str(next(folder.glob("index/s-*.index")))
    for row, pictures in enumerate(PICTURES):
        assert core.read_media(path, stream.sources[0], row)["image"] == pictures


@pytest.mark.parametrize("shuffle", ["window", "full"])
@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_pictures_travel_with_their_text(
    engine: Any, shuffle: str, folder: Path, sockets: Path
) -> None:
    """Every document once, with as many pictures as it has, and the same after a resume."""
    image = {"from": "1", "many": True, "kind": "image", "transform": PATCHES}
    source = {"files": "*.bin", "media": {"image": image}, "over_length": "drop", "eod": EOD}
    config = job_config(folder, {"s": {**source, "shuffle": shuffle, "window_rows": 16}})
    config["runtime"] = {"processes": {"directory": str(sockets)}}
    job = ol.job(config)
    with job.train(engine=engine) as loader:
        batches = [(b.tokens.tolist(), b.media["image"].data.tolist()) for b in loader]
    assert sum(len(rows) for _, rows in batches) > 0
    with job.train(engine=engine) as loader:
        for _ in range(2):
            next(loader)
        state = loader.state_dict()
    with job.train(engine=engine) as loader:
        loader.load_state_dict(state)
        rest = [(b.tokens.tolist(), b.media["image"].data.tolist()) for b in loader]
    assert batches[2:] == rest


def test_keys_that_are_refused(folder: Path) -> None:
    for place in ("jpg", "0", "128", ["1", "2"]):
        with pytest.raises(ol.ConfigError, match=r"names no mode of sequences.*1 to 127"):
            source = {"files": "*.bin", "media": {"image": {"from": place}}}
            ol.job(job_config(folder, {"s": source}))
