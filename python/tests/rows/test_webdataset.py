"""webdataset sources against the format's own library, sample by sample."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from corpora import index_file, job_config, made_up_texts
from delivered import documents_of, read_pieces
from overlord._workers.tokenizer_worker import worker_command

import overlord as ol
from overlord import _core as core

ROWS = 40
MEDIA = {"image": ["jpg", "png"], "sound": "flac"}
Pack = Callable[[bytes], bytes]
SUFFIXES: dict[str, Pack] = {
    ".tar": lambda data: data,
    ".tar.gz": lambda data: gzip.compress(data, mtime=0),
    ".tgz": lambda data: gzip.compress(data, mtime=0),
    ".tar.zst": lambda data: zstandard.compress(data),
}


def made_up_samples(seed: int = 3) -> list[dict[str, Any]]:
    """Samples as webdataset names them; some names are too long for a ustar header."""
    rng = np.random.default_rng(seed)
    samples: list[dict[str, Any]] = []
    for row, text in enumerate(made_up_texts(ROWS, seed)):
        deep = "deep/" * 30 if row % 7 == 0 else ""
        sample: dict[str, Any] = {
            "__key__": f"{deep}d.x/{row:06d}",
            "txt": text.encode(),
            "json": json.dumps({"caption": f"caption {row}", "width": row}).encode(),
        }
        if row % 3:
            sample["jpg" if row % 2 else "png"] = rng.bytes(int(rng.integers(1, 9000)))
        if row % 5 == 0:
            sample["flac"] = rng.bytes(700)
        samples.append(sample)
    return samples


def tar_of(samples: list[dict[str, Any]], form: int = tarfile.GNU_FORMAT) -> bytes:
    """The members of the samples, one after another, in a format of the tar family."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for sample in samples:
            for extension, body in sample.items():
                if extension == "__key__":
                    continue
                member = tarfile.TarInfo(f"{sample['__key__']}.{extension}")
                member.size = len(body)
                tar.addfile(member, io.BytesIO(body))
    return out.getvalue()


def open_pairs(folder: Path, file: str, **source: Any) -> ol.Job:
    """A job over one tar, a token per byte of its text."""
    pairs = {"files": file, "text": "txt", "tokenizer": "bytes", "media": MEDIA, **source}
    return ol.job(job_config(folder, {"s": pairs}))


def read_samples(folder: Path, job: ol.Job) -> list[tuple[str | None, dict[str, bytes]]]:
    """Text (None: bad) and media of every row, read through the engine's own index."""
    stream = job.open_stream()
    out: list[tuple[str | None, dict[str, bytes]]] = []
    for row in range(stream.infos[0]["rows"]):
        got = stream.native.read_row(0, row, worker_command())
        media = core.read_media(str(index_file(folder / "index", "s")), stream.sources[0], row)
        out.append((None if got["bad"] else got["text"], media))
    return out


def media_of(sample: dict[str, Any]) -> dict[str, bytes]:
    """What the declared fields take of a sample."""
    fields = {"image": ("jpg", "png"), "sound": ("flac",)}
    found = {name: [sample[e] for e in places if e in sample] for name, places in fields.items()}
    return {name: blobs[0] for name, blobs in found.items() if blobs}


@pytest.mark.parametrize("suffix", list(SUFFIXES))
def test_samples_are_those_of_webdataset(tmp_path: Path, suffix: str) -> None:
    webdataset = pytest.importorskip("webdataset")
    data = tar_of(made_up_samples())
    (tmp_path / "plain.tar").write_bytes(data)
    (tmp_path / f"a{suffix}").write_bytes(SUFFIXES[suffix](data))
    library = webdataset.WebDataset(
        str(tmp_path / "plain.tar"), shardshuffle=False, empty_check=False
    )
    expected = [(sample["txt"].decode(), media_of(sample)) for sample in library]
    assert len(expected) == ROWS
    assert read_samples(tmp_path, open_pairs(tmp_path, f"a{suffix}")) == expected


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_tar_cut_between_members_is_told(tmp_path: Path, engine: str) -> None:
    """Readers of tar take it in silence; the bad row counts under `bad_rows_allowed`."""
    samples = [{"__key__": f"s{i}", "txt": f"text {i} ".encode() * 9} for i in range(40)]
    whole = tar_of(samples)
    members = len(whole.rstrip(b"\0")) + 511 & ~511
    (tmp_path / "pairs.tar").write_bytes(whole[:members])
    with tarfile.open(tmp_path / "pairs.tar") as tar:
        assert len(tar.getnames()) == 40
    with (
        pytest.raises(ol.BudgetExceededError, match=rf"pairs.tar.* offset {members}"),
        open_pairs(tmp_path, "pairs.tar").train(engine=engine) as loader,
    ):
        list(loader)
    with open_pairs(tmp_path, "pairs.tar", bad_rows_allowed=1).train(engine=engine) as loader:
        assert len(list(loader)) > 0
        [row] = loader.quarantine()
    assert "behind sample 's39'" in row["reason"] and row["row"] == 40


def written_by_gnu_tar(folder: Path) -> bytes:
    (folder / "a.txt").write_text("text")
    return subprocess.run(
        ["tar", "-c", "-C", str(folder), "a.txt"], capture_output=True, check=True
    ).stdout


def written_by_webdataset(folder: Path) -> bytes:
    wds = pytest.importorskip("webdataset")
    with wds.TarWriter(str(folder / "wds.tar")) as writer:
        writer.write({"__key__": "a", "txt": "text"})
    return (folder / "wds.tar").read_bytes()


@pytest.mark.parametrize("write", [written_by_gnu_tar, written_by_webdataset])
def test_tars_of_other_writers_end(tmp_path: Path, write: Callable[[Path], bytes]) -> None:
    (tmp_path / "pairs.tar").write_bytes(write(tmp_path))
    [info] = open_pairs(tmp_path, "pairs.tar").open_stream().infos
    assert info["rows"] == 1 and not info["bad_rows"]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_are_those_of_tarfile(tmp_path: Path, form: int) -> None:
    samples = [
        {**sample, "__key__": sample["__key__"].removeprefix("deep/" * 15)}
        for sample in made_up_samples()
    ]
    (tmp_path / "a.tar").write_bytes(tar_of(samples, form))
    expected = [(sample["txt"].decode(), media_of(sample)) for sample in samples]
    assert read_samples(tmp_path, open_pairs(tmp_path, "a.tar")) == expected


def test_every_sample_is_delivered_once_with_its_metadata(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(made_up_samples()))
    job = open_pairs(tmp_path, "a.tar", text="json:caption", metadata=["width"])
    with job.train() as loader:
        documents = documents_of(read_pieces(loader))
    texts = sorted(bytes(document.astype(np.uint8)).decode() for document in documents.values())
    assert texts == sorted(f"caption {row}" for row in range(ROWS))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"tokens": "ids", "text": None}, "members of text"),
        ({"text": ".txt"}, "names no member"),
        ({"text": "json:"}, "names no member"),
        ({"media": {"image": ["JPG"]}}, "not a member extension"),
        ({"media": {"image": ["jpg", "jpg"]}}, "twice"),
    ],
)
def test_refused_configs(tmp_path: Path, source: dict[str, Any], words: str) -> None:
    (tmp_path / "a.tar").write_bytes(tar_of(made_up_samples()))
    with pytest.raises(ol.ConfigError, match=words):
        open_pairs(tmp_path, "a.tar", **source)


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.zst"])
@pytest.mark.parametrize("text", ["txt", "txt.gz", "json:caption", "json.gz:caption"])
def test_packed_members_are_those_of_webdataset(tmp_path: Path, text: str, suffix: str) -> None:
    """Members that are packed with gzip by themselves, as webdataset's decoder unpacks them."""
    webdataset = pytest.importorskip("webdataset")
    samples = [
        {
            "__key__": sample["__key__"],
            "txt.gz": gzip.compress(sample["txt"], mtime=0),
            "json.gz": gzip.compress(sample["json"], mtime=0),
        }
        for sample in made_up_samples()
    ]
    (tmp_path / "plain.tar").write_bytes(tar_of(samples))
    (tmp_path / f"a{suffix}").write_bytes(SUFFIXES[suffix](tar_of(samples)))
    library = webdataset.WebDataset(
        str(tmp_path / "plain.tar"), shardshuffle=False, empty_check=False
    ).decode()
    field = text.partition(":")[2]
    expected = [one["json.gz"][field] if field else one["txt.gz"] for one in library]
    if isinstance(expected[0], bytes):  # versions that unpack and leave the rest to others
        expected = [one.decode() for one in expected]
    assert len(expected) == ROWS
    job = open_pairs(tmp_path, f"a{suffix}", text=text, metadata=["width"])
    assert [got for got, _ in read_samples(tmp_path, job)] == expected
    split = {"split": {"by": "width", "edges": [7]}, "text": text, "metadata": ["width"]}
    pairs = {"files": f"a{suffix}", "tokenizer": "bytes", "window_rows": 16, **split}
    config = job_config(tmp_path, {"s": pairs})
    config["mixture"] = {"weights": {"s/0": 1}}
    with ol.job(config).train() as loader:
        assert sum(batch.num_docs for batch in loader) == 7


def test_packed_members_that_cannot_be_unpacked(tmp_path: Path) -> None:
    """Bad rows with a reason; where a plain member is there too, it counts."""
    good = gzip.compress(b"packed text", mtime=0)
    bomb = gzip.compress(bytes(5 << 20), mtime=0)
    members: list[dict[str, Any]] = [
        {"txt.gz": good},
        {"txt.gz": good[:-9]},
        {"txt.gz": b"\x1f\x8b\x08 garbage and more of it"},
        {"txt.gz": b""},
        {"txt.gz": bomb},
        {"txt.gz": gzip.compress(b"\xff\xfe")},
        {"txt.gz": good + gzip.compress(b" of two members")},
        {"txt": b"plain", "txt.gz": good},
        {"txt.gz": good, "txt": b"plain"},
        {"json.gz": good},
    ]
    samples = [{"__key__": f"s{n}", **one} for n, one in enumerate(members)]
    (tmp_path / "a.tar").write_bytes(tar_of(samples))
    limits = {"max_document": 1 << 20}
    job = open_pairs(tmp_path, "a.tar", bad_rows_allowed=9, limits=limits)
    rows = [job.open_stream().native.read_row(0, n, worker_command()) for n in range(10)]
    texts = [None if row["bad"] else row["text"] for row in rows]
    two = "packed text of two members"
    assert texts == ["packed text", None, None, None, None, None, two, "plain", "plain", None]
    for number, word in ((1, "cut short"), (2, "broken"), (3, "cut short"), (4, "expands to more")):
        assert f"row {number}: member .txt.gz" in rows[number]["bad"]
        assert word in rows[number]["bad"]
