"""Media that rows of JSON name by paths: lines and arrays, beside the file, below a root, in a tar,
in a bucket; conversations whose texts say where a picture belongs."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from chat_rows import TEMPLATES, as_sharegpt, chat_tokenizer, qwen2vl, tokens_and_mask
from corpora import job_config, json_lines
from delivered import pieces_of
from test_media_columns_stream import columns_config, stream_of, table_of, to_parquet
from test_media_stream import IMAGE, image_of, made_up_pairs, media_content, train, whole_tokens
from trainers import embedded_hashes, hashes_of, trainers

import overlord as ol

Samples = list[dict[str, Any]]
NAMED = {**IMAGE, "from": "image"}


def array(rows: list[dict[str, Any]]) -> bytes:
    """Rows as one array, laid out as json.dump does for people."""
    return json.dumps(rows, indent=2, ensure_ascii=False).encode()


def dense(rows: list[dict[str, Any]]) -> bytes:
    """The same without a space, behind a byte order mark."""
    return b"\xef\xbb\xbf" + json.dumps(rows, separators=(",", ":")).encode()


Written = Callable[[list[dict[str, Any]]], bytes]
FILES: dict[str, tuple[str, Written]] = {
    "lines": ("rows.jsonl", json_lines),
    "lines-gz": ("rows.jsonl.gz", lambda rows: gzip.compress(json_lines(rows), mtime=0)),
    "lines-zst": ("rows.ndjson.zst", lambda rows: zstandard.compress(json_lines(rows))),
    "array": ("rows.json", array),
    "array-dense": ("rows.json", dense),
    "array-gz": ("rows.json.gz", lambda rows: gzip.compress(array(rows), mtime=0)),
    "array-zst": ("rows.json.zst", lambda rows: zstandard.compress(dense(rows))),
}


def pictures_of(samples: Samples) -> dict[str, bytes]:
    """A path for every picture of the samples."""
    images = {f"in/{row}.img": image_of(sample) for row, sample in enumerate(samples)}
    return {name: image for name, image in images.items() if image is not None}


def rows_of(samples: Samples) -> list[dict[str, Any]]:
    """Rows that name them, some with a null, some without the field at all."""
    rows = []
    for number, sample in enumerate(samples):
        row: dict[str, Any] = {"id": "[{\\" + '"' * (number % 3), "text": sample["txt"].decode()}
        if image_of(sample) is not None:
            row["image"] = f"in/{number}.img" if number % 2 else [f"in/{number}.img"]
        elif number % 8 == 3:
            row["image"] = None
        rows.append(row)
    return rows


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def tar_of_files(files: Mapping[str, bytes]) -> bytes:
    """Members as `tar -C FOLDER -cf x.tar .` names them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def reference(folder: Path, samples: Samples) -> list[Any]:
    """The stream of the same rows out of Parquet with paths beside it."""
    folder.mkdir()
    config = columns_config(folder, to_parquet(folder, table_of(folder, samples, "paths")))
    config["sources"]["s"]["shuffle"] = "none"
    return stream_of(config)


@pytest.mark.parametrize("kind", FILES)
def test_rows_are_those_of_a_table(tmp_path: Path, kind: str) -> None:
    samples = made_up_pairs()
    name, written = FILES[kind]
    write_files(tmp_path, {name: written(rows_of(samples)), **pictures_of(samples)})
    config = columns_config(tmp_path, name, NAMED)
    config["sources"]["s"]["shuffle"] = "none"
    assert stream_of(config) == reference(tmp_path / "table", samples)


@pytest.mark.parametrize("root", ["media", "media/", "deep/../media", "media.tar"])
def test_paths_are_relative_to_a_root(tmp_path: Path, root: str) -> None:
    samples = made_up_pairs()
    (tmp_path / "deep").mkdir()
    write_files(tmp_path, {"rows.json": array(rows_of(samples))})
    if root.endswith(".tar"):
        write_files(tmp_path, {root: tar_of_files(pictures_of(samples))})
    else:
        write_files(tmp_path / "media", pictures_of(samples))
    config = columns_config(tmp_path, "rows.json", {**NAMED, "root": str(tmp_path / root)})
    config["sources"]["s"]["shuffle"] = "none"
    assert stream_of(config) == reference(tmp_path / "table", samples)


def test_a_table_of_paths_has_a_root_too(tmp_path: Path) -> None:
    samples = made_up_pairs()
    expected = reference(tmp_path / "beside", samples)
    (tmp_path / "beside" / "in").rename(tmp_path / "in")
    field = {**NAMED, "root": str(tmp_path)}
    config = columns_config(tmp_path / "beside", "pairs.parquet", field)
    config["sources"]["s"]["shuffle"] = "none"
    config["index_dir"] = str(tmp_path / "index")
    assert stream_of(config) == expected


def test_a_corpus_that_moved_is_the_same(tmp_path: Path) -> None:
    """Neither the file nor its root is in a digest: a state goes on elsewhere."""
    samples = made_up_pairs()
    states, rest = [], []
    for place in ("here", "there"):
        folder = tmp_path / place
        write_files(folder / "media", pictures_of(samples))
        write_files(folder, {"rows.json": array(rows_of(samples))})
        config = columns_config(folder, "rows.json", {**NAMED, "root": str(folder / "media")})
        with train(config) as loader:
            if states:
                loader.load_state_dict(states[0])
            else:
                next(loader)
                states.append(loader.state_dict())
            rest.append([media_content(batch) for batch in loader])
    assert rest[0] == rest[1] and rest[0]


def test_engines_give_the_same_stream(tmp_path: Path) -> None:
    samples = made_up_pairs()
    write_files(tmp_path, {"rows.json": array(rows_of(samples)), **pictures_of(samples)})
    config = columns_config(tmp_path, "rows.json", NAMED)
    config["sources"]["s"]["shuffle"] = "full"
    with trainers(config, {"dp": 2}, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})


def test_several_to_a_row(tmp_path: Path) -> None:
    """A string or a list, of the first of two fields that a row has."""
    samples = [sample for sample in made_up_pairs() if image_of(sample) is not None]
    pictures = pictures_of(samples)
    names = sorted(pictures, key=lambda name: int(name[3:-4]))
    rows = [
        {"text": "a b", "images": names[:3]},
        {"text": "c d", "image": names[3]},
        {"text": "e f", "images": [], "image": names[4]},  # an empty list is a value
        {"text": "g h", "images": None, "image": [names[5], None]},
    ]
    write_files(tmp_path, {"rows.jsonl": json_lines(rows), **pictures})
    field = {**NAMED, "from": ["images", "image"], "many": True}
    with train(columns_config(tmp_path, "rows.jsonl", field)) as loader:
        counts = {}
        for batch in loader:
            for number, piece in enumerate(pieces_of(batch)):
                text = bytes(piece.tokens[piece.tokens < 256].astype(np.uint8)).decode()
                media = batch.media.get("image")
                counts[text] = 0 if media is None else media.documents.tolist().count(number)
    assert counts == {"a b": 3, "c d": 1, "e f": 0, "g h": 1}


HOSTILE = {
    "../out.img": "leads out of it",
    "/etc/passwd": "is absolute",
    "s3://other/x.img": "is absolute",
    "a\\b.img": "no file name has",
    "in//0.img": "empty part",
    "": "is empty",
    "gone.img": "no file 'gone.img'",
    7: "is a number, not a path or a list of paths",
    ("in/0.img", 8): "is a number, not a path",
    ("in/0.img", "in/1.img"): "2 blobs, a row may have 1",
}


@pytest.mark.parametrize("root", ["", "media", "media.tar"])
@pytest.mark.parametrize("kind", ["lines", "array-gz"])
def test_what_a_row_must_not_say_is_a_bad_row(tmp_path: Path, kind: str, root: str) -> None:
    samples = made_up_pairs()
    (tmp_path / "out.img").write_bytes(b"secret")
    folder = tmp_path / "data"
    folder.mkdir()
    pictures = pictures_of(samples)
    rows = rows_of(samples)
    first = len(rows)
    for path in HOSTILE:
        value = list(path) if isinstance(path, tuple) else path
        rows.append({"text": "hostile", "image": value})
    name, written = FILES[kind]
    write_files(folder, {name: written(rows)})
    if root.endswith(".tar"):
        write_files(folder, {root: tar_of_files(pictures)})
    else:
        write_files(folder / root, pictures)
    field = {**NAMED, "root": str(folder / root)} if root else NAMED
    config = columns_config(folder, name, field)
    config["sources"]["s"]["bad_rows_allowed"] = len(HOSTILE)
    with train(config) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        notes = {note["row"]: str(note) for note in loader.quarantine()}
    assert sorted(piece.tokens.tolist() for piece in pieces) == sorted(map(whole_tokens, samples))
    for number, (path, words) in enumerate(HOSTILE.items()):
        assert words in notes[first + number], path
        assert "media 'image'" in notes[first + number] and name in notes[first + number]
    assert len(notes) == len(HOSTILE)


def test_a_picture_that_changed_is_refused_by_name(tmp_path: Path) -> None:
    samples = made_up_pairs()
    write_files(tmp_path, {"rows.json": array(rows_of(samples)), **pictures_of(samples)})
    config = columns_config(tmp_path, "rows.json", NAMED)
    stream_of(config)
    (tmp_path / "in" / "1.img").write_bytes(b"another one")
    with pytest.raises(ol.SourceChangedError, match=r"in/1\.img"):
        stream_of(config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'[{"text": "a"}, {"text": "b"', "cut short"),
        (b'[{"text": "a"}] {"text": "b"}', "behind the end of its array"),
        (b'[{"text": "a"}}, {"text": "b"}]', "invalid JSON"),
        (b'[{"text": "a"}, 7]', "line is a number"),
        (b'[{"text": "a"}, "]"]', "line is a string"),
    ],
)
def test_arrays_that_are_none(tmp_path: Path, text: bytes, words: str) -> None:
    (tmp_path / "rows.json").write_bytes(text)
    source = {"files": "rows.json", "text": "text", "tokenizer": "bytes"}
    with pytest.raises(ol.OverlordError, match=words):
        stream_of(job_config(tmp_path, {"s": source}))


def test_roots_that_cannot_be_are_refused(tmp_path: Path) -> None:
    samples = made_up_pairs(8)
    write_files(tmp_path, {"rows.json": array(rows_of(samples)), "x.tar": b"x" * 700})
    for root, words in (("x.tar.gz", "plain .tar"), ("x.tar", "root"), ("none.tar", "none.tar")):
        config = columns_config(tmp_path, "rows.json", {**NAMED, "root": str(tmp_path / root)})
        with pytest.raises((ol.OverlordError, ol.ConfigError), match=words):
            stream_of(config)


# -- conversations, as LLaVA and ShareGPT have them -----------------------------------------------


def llava(folder: Path, samples: Samples, **field: Any) -> tuple[dict[str, Any], Any, list[Any]]:
    """A job over rows with `<image>` in the question, the tokenizer, and the conversations."""
    tokenizer = chat_tokenizer(folder / "model", (TEMPLATES / "qwen2vl.jinja").read_text())
    pad = tokenizer.token_to_id("<|image_pad|>")
    rows, talks = [], []
    for number, name in enumerate(pictures_of(samples)):
        question = [
            {"role": "user", "content": f"<image>\nWhat is in number {number}?"},
            {"role": "assistant", "content": f"It is {number}."},
        ]
        rows.append({"id": str(number), "image": name, "conversations": as_sharegpt(question)})
        parts = [{"type": "image"}, {"type": "text", "text": f"\nWhat is in number {number}?"}]
        talks.append([{"role": "user", "content": parts}, question[1]])
    plain = [{"role": "user", "content": "no picture"}, {"role": "assistant", "content": "none"}]
    rows.append({"id": "plain", "conversations": as_sharegpt(plain)})
    talks.append(plain)
    write_files(folder / "images", pictures_of(samples))
    (folder / "llava.json").write_bytes(array(rows))
    media = {
        "from": "image",
        "root": str(folder / "images"),
        "transform": IMAGE["transform"],
        "tokens": {"pad": pad, "place": "text"},
        **field,
    }
    source = {
        "files": "llava.json",
        "chat": {"format": "sharegpt", "parts": {"image": "<image>"}},
        "tokenizer": "own",
        "media": {"image": media},
        "over_length": "drop",
        "bad_rows_allowed": 3,
    }
    tokenizers = {"own": {"path": str(folder / "model" / "tokenizer.json")}}
    top = {"context": 256, "align": 4, "tokenizers": tokenizers}
    return job_config(folder, {"s": source}, **top), tokenizer, talks


def test_markers_in_conversations_become_pictures(tmp_path: Path) -> None:
    samples = made_up_pairs(12)
    config, tokenizer, talks = llava(tmp_path, samples)
    pad = tokenizer.token_to_id("<|image_pad|>")
    images = list(pictures_of(samples).values())
    expected = []
    for number, talk in enumerate(talks):
        tokens, mask = tokens_and_mask(tokenizer, qwen2vl(talk))
        patches = (
            len(whole_tokens({"txt": b"", "png": images[number]})) - 2
            if (number < len(images))
            else 1
        )
        at = tokens.index(pad) if pad in tokens else 0
        count = patches if pad in tokens else 0
        expected.append(
            (
                [*tokens[:at], *[pad] * count, *tokens[at + (pad in tokens) :]],
                [*mask[:at], *[0] * count, *mask[at + (pad in tokens) :]],
            )
        )
    with train(config) as loader:
        found = []
        for batch in loader:
            for piece in pieces_of(batch):
                found.append((piece.tokens.tolist(), [0, *piece.weights[:-1].astype(int)]))
        assert not loader.quarantine()
    assert sorted(found) == sorted(expected)


def test_markers_without_a_picture_are_bad_rows(tmp_path: Path) -> None:
    samples = made_up_pairs(12)
    config, _, talks = llava(tmp_path, samples)
    rows = json.loads((tmp_path / "llava.json").read_bytes())
    del rows[1]["image"]
    rows[2]["conversations"][0]["value"] = "<image><image> twice"
    rows[3]["conversations"][0]["value"] = "not at all"
    (tmp_path / "llava.json").write_bytes(array(rows))
    with train(config) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        notes = {note["row"]: str(note) for note in loader.quarantine()}
    assert len(pieces) == len(talks) - 3 and sorted(notes) == [1, 2, 3]
    for row, (pads, blobs) in {1: (1, 0), 2: (2, 1), 3: (0, 1)}.items():
        assert f"{pads} times" in notes[row] and f"{blobs} blobs" in notes[row], notes[row]
        assert "llava.json" in notes[row]


def test_the_example_trains_a_qwen_vl(tmp_path: Path) -> None:
    """examples/llava.yaml over rows like LLaVA's: patches in the model's order, a grid for each
    picture, as many placeholders as merged patches, the answers' loss alone."""
    pytest.importorskip("torch")
    samples = made_up_pairs(12)
    _, tokenizer, talks = llava(tmp_path, samples)
    pad = tokenizer.token_to_id("<|image_pad|>")
    example = (Path(__file__).parents[3] / "examples" / "llava.yaml").read_text()
    example = example.replace("151936", "500").replace("151655", str(pad))
    (tmp_path / "llava.yaml").write_text(example.replace("8192", "512"))
    (tmp_path / "llava.json").rename(tmp_path / "llava_v1_5_mix665k.json")
    seen, answers = 0, 0
    with ol.job(tmp_path / "llava.yaml", overrides=["at_end=stop"]).train() as loader:
        for batch in loader:
            inputs = batch.model_inputs("qwen_vl")
            pads = int((inputs["input_ids"] == pad).sum())
            assert inputs["position_ids"].shape == (4, *inputs["input_ids"].shape)
            answers += int((inputs["labels"] >= 0).sum())
            grids = inputs.get("image_grid_thw", [])
            if not len(grids):
                assert pads == 0
                continue
            assert int(grids.prod(-1).sum()) == len(inputs["pixel_values"]) == 4 * pads
            assert inputs["pixel_values"].shape[1] == 2 * 3 * 14 * 14
            seen += len(grids)
    assert seen == len(pictures_of(samples))
    masks = [tokens_and_mask(tokenizer, qwen2vl(talk))[1] for talk in talks]
    assert answers == sum(map(sum, masks))


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A store with nothing in it."""
    pytest.importorskip("moto", reason="comes with `make setup` for tests")
    from stores import served_bucket

    with served_bucket() as served:
        yield served


@pytest.mark.parametrize("where", ["all", "pictures", "rows", "tar"])
def test_the_same_out_of_a_bucket(bucket: Any, tmp_path: Path, where: str) -> None:
    """Rows, pictures or both in a store; also a tar of them, read member by member."""
    samples = made_up_pairs()
    folder = tmp_path / "data"
    write_files(folder / "media", pictures_of(samples))
    write_files(folder, {"rows.json": array(rows_of(samples))})
    write_files(folder, {"media.tar": tar_of_files(pictures_of(samples))})
    remote = bucket.put_folder(folder, f"named-{where}")
    files = f"{remote}/rows.json" if where in ("all", "rows", "tar") else f"{folder}/rows.json"
    root = {"rows": f"{folder}/media", "tar": f"{remote}/media.tar"}.get(where, f"{remote}/media")
    config = columns_config(tmp_path, "rows.json", {**NAMED, "root": root})
    config["sources"]["s"].update(files=files, shuffle="none")
    expected = reference(tmp_path / "table", samples)
    assert stream_of(config) == expected
    with train(config) as loader:  # and goes on exactly
        next(loader)
        state = loader.state_dict()
    with train(config) as loader:
        loader.load_state_dict(state)
        assert [media_content(batch) for batch in loader] == expected[1:]
