"""Tables of paths and folders of files through the stream: CSV, labels, parts of clips."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from corpora import job_config
from delivered import documents_of, pieces_of
from test_media_columns_stream import columns_config, stream_of
from test_media_stream import IMAGE, image_of, made_up_pairs, media_content, train, whole_tokens
from test_named_media import pictures_of, reference, write_files
from trainers import embedded_hashes, hashes_of, trainers

import overlord as ol

Samples = list[dict[str, Any]]
NAMED = {**IMAGE, "from": "image"}


def csv_bytes(samples: Samples, delimiter: str = ",") -> bytes:
    """Rows as Python's csv module writes them, every third cell with quotes and line ends."""
    out = io.StringIO(newline="")
    table = csv.writer(out, delimiter=delimiter)
    table.writerow(["id", "image", "text"])
    for number, sample in enumerate(samples):
        path = f"in/{number}.img" if image_of(sample) is not None else ""
        odd = 'a "quoted"\r\ncell, with all' if number % 3 else number
        table.writerow([odd, path, sample["txt"].decode()])
    return out.getvalue().encode()


Pack = Callable[[Samples], bytes]
FILES: dict[str, Pack] = {
    "rows.csv": csv_bytes,
    "rows.tsv": lambda samples: csv_bytes(samples, "\t"),
    "rows.csv.gz": lambda samples: gzip.compress(csv_bytes(samples), mtime=0),
    "rows.tsv.zst": lambda samples: zstandard.compress(csv_bytes(samples, "\t")),
}


@pytest.mark.parametrize("name", FILES)
def test_rows_of_csv_are_those_of_a_table(tmp_path: Path, name: str) -> None:
    samples = made_up_pairs()
    write_files(tmp_path, {name: FILES[name](samples), **pictures_of(samples)})
    config = columns_config(tmp_path, name, NAMED)
    config["sources"]["s"]["shuffle"] = "none"
    assert stream_of(config) == reference(tmp_path / "table", samples)


def test_columns_of_numbers_cut_a_source(tmp_path: Path) -> None:
    rows = "text,kind,long\n" + "".join(f"row {n},{n % 3},true\n" for n in range(30))
    (tmp_path / "rows.csv").write_text(rows)
    source = {
        "files": "rows.csv",
        "text": "text",
        "tokenizer": "bytes",
        "metadata": ["kind", "long"],
        "split": {"by": "kind", "edges": [1, 2]},
    }
    config = job_config(tmp_path, {"s": source})
    config["mixture"] = {"weights": {"s/1": 1}}
    with ol.job(config).train() as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
    texts = {bytes(tokens.tolist()).decode() for tokens in documents_of(pieces).values()}
    assert texts == {f"row {n}" for n in range(30) if n % 3 == 1}


def test_a_csv_without_the_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id;caption\n1;a\n")
    config = job_config(
        tmp_path, {"s": {"files": "rows.csv", "text": "caption", "tokenizer": "bytes"}}
    )
    with pytest.raises(ol.OverlordError, match=r"no column 'caption'; its header has 'id;caption'"):
        stream_of(config)


# -- folders --------------------------------------------------------------------------------------

LABELS = ("cat", "dog", "größe 3")


def pets(folder: Path, samples: Samples) -> Samples:
    """A folder for each label; the samples with the label as their text."""
    out = []
    for number, sample in enumerate(one for one in samples if image_of(one) is not None):
        image, label = image_of(sample), LABELS[number % 3]
        assert image is not None
        write_files(folder / label, {f"{number:03}.{'jpg' if number % 2 else 'PNG'}": image})
        out.append({**sample, "txt": label.encode()})
    return out


def folder_config(folder: Path, files: str, **source: Any) -> dict[str, Any]:
    config = columns_config(folder, files, {**IMAGE, "from": ["jpg", "png"]})
    config["sources"]["s"].update({"format": "folder", "text": "label", **source})
    return config


@pytest.mark.parametrize("slash", ["", "/"])
def test_every_file_of_a_folder_is_a_row(tmp_path: Path, slash: str) -> None:
    samples = pets(tmp_path / "pets", made_up_pairs())
    write_files(tmp_path / "pets", {"README.md": b"# pets", ".cache/x.png": b"x"})
    with train(folder_config(tmp_path, f"pets{slash}")) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        assert not loader.quarantine()
    assert sorted(piece.tokens.tolist() for piece in pieces) == sorted(map(whole_tokens, samples))


def test_a_folder_resumes_and_is_the_same_on_every_engine(tmp_path: Path) -> None:
    pets(tmp_path / "pets", made_up_pairs(40))
    config = folder_config(tmp_path, "pets/")
    states, batches = [], []
    with train(config) as loader:
        for batch in loader:
            batches.append(media_content(batch))
            states.append(loader.state_dict())
    for taken in range(1, len(batches), 2):
        with train(config) as loader:
            loader.load_state_dict(states[taken - 1])
            assert [media_content(batch) for batch in loader] == batches[taken:]
    with trainers(config, {"dp": 2}, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})


def test_what_comes_to_a_folder_is_a_change_of_it(tmp_path: Path) -> None:
    samples = pets(tmp_path / "pets", made_up_pairs())
    config = folder_config(tmp_path, "pets/")
    before = stream_of(config)
    image = image_of(samples[0])
    assert image is not None
    (tmp_path / "pets" / "cat" / "new.png").write_bytes(image)
    with pytest.raises(ol.SourceChangedError, match="pets/cat/"):
        stream_of(config)
    (tmp_path / "pets" / "cat" / "new.png").unlink()
    assert stream_of(config) == before
    (tmp_path / "pets" / "bird").mkdir()
    (tmp_path / "pets" / "bird" / "1.png").write_bytes(image)
    with pytest.raises(ol.SourceChangedError, match="pets/bird/"):
        stream_of(config)


def test_a_broken_file_of_a_folder_is_a_bad_row(tmp_path: Path) -> None:
    samples = pets(tmp_path / "pets", made_up_pairs())
    (tmp_path / "pets" / "dog" / "zzz.jpg").write_bytes(b"<html>")
    with train(folder_config(tmp_path, "pets/")) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        notes = [str(note) for note in loader.quarantine()]
    assert len(pieces) == len(samples) and len(notes) == 1
    assert "pets/dog/" in notes[0] and "HTML" in notes[0].upper()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"text": "name"}, "the name of the folder"),
        ({"media": {}}, "which files of the folder are rows"),
        ({"files": "pets/*"}, "a pattern"),
        ({"metadata": ["x"]}, "a folder of files has no columns"),
        ({"media": {"image": {"from": ["jpg"], "many": True}}}, "at most one blob"),
        ({"media": {"image": {"from": ["jpg"], "root": "x/"}}}, "name no files"),
        ({"media": {"image": [".jpg"]}}, "not a suffix of files"),
        ({"chat": "messages", "text": None}, "have no such rows"),
    ],
)
def test_what_folders_do_not_have_is_refused(
    tmp_path: Path, source: dict[str, Any], words: str
) -> None:
    pets(tmp_path / "pets", made_up_pairs(4))
    config = folder_config(tmp_path, "pets/")
    config["sources"]["s"].update(source)
    with pytest.raises(ol.ConfigError, match=words):
        ol.job(config)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A store with nothing in it."""
    pytest.importorskip("moto", reason="comes with `make setup` for tests")
    from stores import served_bucket

    with served_bucket() as served:
        yield served


def test_tables_and_folders_in_a_bucket(bucket: Any, tmp_path: Path) -> None:
    samples = made_up_pairs()
    folder = tmp_path / "data"
    write_files(folder, {"rows.csv.gz": FILES["rows.csv.gz"](samples), **pictures_of(samples)})
    pets(folder / "pets", samples)
    root = bucket.put_folder(folder, "tables")
    for config, files in (
        (columns_config(folder, "rows.csv.gz", NAMED), f"{root}/rows.csv.gz"),
        (folder_config(folder, "pets/"), f"{root}/pets"),
    ):
        expected = stream_of(config)
        config["sources"]["s"]["files"] = files
        config["index_dir"] = str(tmp_path / "remote")
        assert stream_of(config) == expected
