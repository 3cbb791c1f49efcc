"""`overlord look`: what it says of every layout, and the config that it prints, trained from."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
import zstandard
from chat_rows import (
    TEMPLATES,
    as_sharegpt,
    chat_tokenizer,
    chatml,
    conversations,
    tokens_and_mask,
)
from corpora import json_lines, made_up_documents, made_up_texts, train_tokenizer, write_megatron
from delivered import documents_of, pieces_of
from overlord._src.corpus.chance import Chance
from overlord._src.corpus.media_files import drawn_picture
from overlord._src.look import places
from overlord.cli import main
from test_webdataset import tar_of

import overlord as ol

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXTS = made_up_texts(40, seed=5)
TOKENS = made_up_documents(40, seed=6)
PICTURES = [drawn_picture(Chance(key))[2] for key in range(6)]


def look(capsys: pytest.CaptureFixture[str], *words: Any) -> str:
    """What the command prints."""
    capsys.readouterr()
    assert main(["look", *map(str, words)]) == 0
    return capsys.readouterr().out


def printed(capsys: pytest.CaptureFixture[str], *words: Any) -> dict[str, Any]:
    """The part of a config that it prints."""
    return yaml.safe_load(look(capsys, *words, "--yaml"))


def trained(folder: Path, part: dict[str, Any], **top: Any) -> list[list[int]]:
    """All documents of a pass over what the printed part of a config reads."""
    config = {
        "job": "look",
        "seed": 3,
        "context": 2048,
        "bins": 2,
        "vocabulary": 1000,
        "at_end": "drop",
        "index_dir": str(folder / "index"),
        "mixture": {"weights": dict.fromkeys(part["sources"], 1)},
        **part,
        **top,
    }
    with ol.job(config).train() as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
    return sorted(tokens.tolist() for tokens in documents_of(pieces, check=False).values())


def in_bytes(texts: list[str]) -> list[list[int]]:
    """What the built-in tokenizer makes of texts."""
    return sorted(list(text.encode()) for text in texts)


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "jsonl.zst", "parquet", "arrow", "stream"])
def test_texts(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": row, "text": text} for row, text in enumerate(TEXTS)]
    folder = tmp_path / "web"
    folder.mkdir()
    table = pa.Table.from_pylist(rows)
    for shard in range(2):
        part, name = rows[shard::2], folder / f"part-{shard:05}.{kind}"
        some = pa.Table.from_pylist(part)
        if kind.startswith("jsonl"):
            pack = {"jsonl": bytes, "jsonl.gz": gzip.compress, "jsonl.zst": zstandard.compress}
            name.write_bytes(pack[kind](json_lines(part)))
        elif kind == "parquet":
            pq.write_table(some, name)
        else:
            opened = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
            with opened(name.with_suffix(".arrow"), table.schema) as out:
                out.write_table(some)
    part = printed(capsys, folder)
    ((name, source),) = part["sources"].items()
    assert name == "web" and source["text"] == "text" and source["files"].count("*") == 1
    assert trained(tmp_path, part) == in_bytes(TEXTS)
    told = look(capsys, folder, "--samples", 1)
    assert "2 files" in told and "40 rows; looked at 40 rows of 2 of 2 files" in told
    assert re.search(r"text +text +40/40", told) and re.search(r"id +int", told)
    assert re.search(r"text +characters +40", told)
    assert not (tmp_path / "index" / "look").exists() and len(list(folder.iterdir())) == 2


def test_one_file_and_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ready.parquet"
    columns = {"input_ids": pa.array(TOKENS, pa.list_(pa.int32())), "url": ["x"] * len(TOKENS)}
    pq.write_table(pa.table(columns), file)
    part = printed(capsys, file)
    assert part == {"sources": {"ready": {"files": str(file), "tokens": "input_ids"}}}
    assert trained(tmp_path, part) == sorted(document.tolist() for document in TOKENS)
    told = look(capsys, file)
    assert f"the greatest token id of those seen is {max(map(max, TOKENS)):,}" in told
    assert re.search(r"input_ids +tokens +40", told)


def test_saved_datasets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dictionary of splits is a source for each."""
    for split, texts in (("train", TEXTS[:30]), ("test", TEXTS[30:])):
        folder = tmp_path / "saved" / split
        folder.mkdir(parents=True)
        table = pa.table({"text": texts})
        with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as out:
            out.write_table(table)
        state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}
        (folder / "state.json").write_text(json.dumps(state))
        (folder / "dataset_info.json").write_text("{}")
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    part = printed(capsys, tmp_path / "saved")
    assert set(part["sources"]) == {"train", "test"}
    assert trained(tmp_path, part) == in_bytes(TEXTS)
    assert "left aside" not in look(capsys, tmp_path / "saved")


def test_megatron(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [[document, document[:2]] for document in TOKENS]
    write_megatron(tmp_path / "code_document", documents, "uint16")
    part = printed(capsys, tmp_path)
    assert trained(tmp_path, part) == sorted([*a, *b] for a, b in ([*x] for x in documents))
    told = look(capsys, tmp_path)
    assert "40 rows" in told and re.search(r"tokens +tokens +40", told)
    assert "list of uint16" in told


@pytest.mark.parametrize("form", ["messages", "sharegpt", "alpaca", "json"])
def test_conversations(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model", CHATML)
    talks = conversations(20, seed=2)
    if form == "messages":
        rows: list[dict[str, Any]] = [{"messages": talk} for talk in talks]
    elif form == "sharegpt":
        rows = [{"conversations": as_sharegpt(talk)} for talk in talks]
    elif form == "json":
        rows = [{"turns": json.dumps(talk)} for talk in talks]
    else:
        talks = [[{"role": "user", "content": "a" * 9}, {"role": "assistant", "content": "b"}]] * 2
        rows = [{"instruction": "a" * 9, "output": "b"}] * 2
    file = tmp_path / "sft.jsonl"
    file.write_bytes(json_lines(rows))
    part = printed(capsys, file, "--tokenizer", tmp_path / "model" / "tokenizer.json")
    (source,) = part["sources"].values()
    wanted: Any = {"format": "messages", "column": "turns"} if form == "json" else form
    assert source["chat"] == wanted
    source["chat"] = {**({"format": wanted} if isinstance(wanted, str) else wanted)}
    source["chat"]["template"] = "chatml"
    expected = [tokens_and_mask(tokenizer, chatml(talk))[0] for talk in talks]
    assert trained(tmp_path, part) == sorted(expected)
    told = look(capsys, file)
    assert "--tokenizer" in told  # which it would need


def test_a_tar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = [
        {"__key__": f"{row:04}", "txt": TEXTS[row].encode(), "jpg": PICTURES[row]}
        for row in range(len(PICTURES))
    ]
    (tmp_path / "pairs-000.tar").write_bytes(tar_of(samples))
    tokenizer = tmp_path / "tokenizer.json"
    train_tokenizer(tokenizer, TEXTS)
    part = printed(capsys, tmp_path)
    (source,) = part["sources"].values()
    assert source["text"] == "txt" and source["over_length"] == "drop"
    assert source["media"]["image"]["from"] == ["jpg"]
    assert trained(tmp_path, part) == in_bytes(TEXTS[: len(PICTURES)])
    page = tmp_path / "out" / "look.html"
    look(capsys, tmp_path / "pairs-000.tar", "--html", page, "--tokenizer", tokenizer)
    text = page.read_text()
    assert text.count("<img") == len(PICTURES) and 'src="http' not in text
    assert "by the tokenizer" in text


def test_captions_in_json_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = [
        {"__key__": f"{row:04}", "json": json.dumps({"caption": text, "width": 3}).encode()}
        for row, text in enumerate(TEXTS)
    ]
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(tar_of(samples)))
    part = printed(capsys, tmp_path)
    assert trained(tmp_path, part) == in_bytes(TEXTS)


def test_pictures_in_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [[{"bytes": one, "path": None}] for one in PICTURES]
    kind = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    table = pa.table({"caption": TEXTS[: len(cells)], "pictures": pa.array(cells, kind)})
    pq.write_table(table, tmp_path / "hub.parquet")
    part = printed(capsys, tmp_path)
    (source,) = part["sources"].values()
    assert source["media"]["image"]["from"] == "pictures" and source["media"]["image"]["many"]
    assert trained(tmp_path, part) == in_bytes(TEXTS[: len(cells)])


@pytest.mark.parametrize("form", ["preference", "completion", "prompt"])
@pytest.mark.parametrize("kind", ["messages", "text"])
def test_prompts_and_preferences(
    form: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat_tokenizer(tmp_path / "model", CHATML)

    def value(role: str, text: str) -> Any:
        return text if kind == "text" else [{"role": role, "content": text}]

    rows: list[dict[str, Any]] = [{"prompt": value("user", f"ask {n}")} for n in range(9)]
    names = {"preference": ("chosen", "rejected"), "completion": ("completion",), "prompt": ()}
    for row in rows:
        row.update({name: value("assistant", f" {name}") for name in names[form]})
    (tmp_path / "rows.jsonl").write_bytes(json_lines(rows))
    tokenizer = tmp_path / "model" / "tokenizer.json"
    part = printed(capsys, tmp_path / "rows.jsonl", "--tokenizer", tokenizer)
    ((_, source),) = part["sources"].items()
    wanted: Any = form if kind == "messages" else {"format": form, "template": "none"}
    assert source["chat"] == wanted
    assert len(trained(tmp_path, part)) == len(rows) * (2 if form == "preference" else 1)


def as_llava(number: int, path: str) -> dict[str, Any]:
    """A row of LLaVA's."""
    turns = [
        {"from": "human", "value": f"<image>\nWhat is number {number}?"},
        {"from": "gpt", "value": f"It is {number}."},
    ]
    return {"id": str(number), "image": path, "conversations": turns}


@pytest.mark.parametrize("where", ["beside", "images", "tar"])
def test_rows_beside_media(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The root of the paths is found, and what lies there is no source of its own."""
    tokenizer = chat_tokenizer(tmp_path / "model", (TEMPLATES / "qwen2vl.jinja").read_text())
    folder = tmp_path / "data"
    root = folder / "images" if where == "images" else folder
    paths = [f"coco/{number}.png" for number in range(len(PICTURES))]
    for path, picture in zip(paths, PICTURES, strict=True):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(picture)
    if where == "tar":
        with tarfile.open(folder / "images.tar", "w") as tar:
            tar.add(folder / "coco", "coco")
        shutil.rmtree(folder / "coco")
    rows = [as_llava(number, path) for number, path in enumerate(paths)]
    (folder / "llava.json").write_text(json.dumps(rows))
    for what in (folder, folder / "llava.json"):
        part = printed(capsys, what, "--tokenizer", tmp_path / "model" / "tokenizer.json")
        ((_, source),) = part["sources"].items()
        assert source["chat"] == {"format": "sharegpt", "parts": {"image": "<image>"}}
        found = source["media"]["image"]
        wanted = {"beside": None, "images": f"{folder}/images/", "tar": f"{folder}/images.tar"}
        assert found["from"] == "image" and found.get("root") == wanted[where]
        assert found["tokens"] == {
            "pad": tokenizer.token_to_id("<|image_pad|>"),
            "place": "text",
        }
        assert len(trained(tmp_path, part)) == len(rows)
    told = look(capsys, folder, "--html", tmp_path / "look.html")
    assert "JSON array" in told and f"{len(rows)} rows" in told and "left aside" not in told
    assert (tmp_path / "look.html").read_text().count("<img") == (0 if where == "tar" else 6)


def test_tables_of_captions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """metadata.csv beside pictures, as imagefolder has it."""
    folder = tmp_path / "train"
    folder.mkdir()
    with (folder / "metadata.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["file_name", "text"])
        for number, picture in enumerate(PICTURES):
            (folder / f"{number}.jpg").write_bytes(picture)
            table.writerow([f"{number}.jpg", f'{TEXTS[number]}, "quoted"\nand more'])
    part = printed(capsys, folder)
    ((name, source),) = part["sources"].items()
    assert name == "train" and source["media"]["image"]["from"] == "file_name"
    texts = [f'{text}, "quoted"\nand more' for text in TEXTS[: len(PICTURES)]]
    assert trained(tmp_path, part) == in_bytes(texts)
    assert f"{len(PICTURES)} rows" in look(capsys, folder)


def test_folders_of_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split in ("train", "test"):
        for number, picture in enumerate(PICTURES):
            path = tmp_path / "pets" / split / ("cat" if number % 3 else "dog") / f"{number}.jpeg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)
    part = printed(capsys, tmp_path / "pets")
    assert set(part["sources"]) == {"train", "test"}
    assert part["sources"]["test"]["files"] == f"{tmp_path}/pets/test/"
    labels = ["dog" if number % 3 == 0 else "cat" for number in range(len(PICTURES))] * 2
    assert trained(tmp_path, part) == in_bytes(labels)
    told = look(capsys, tmp_path / "pets", "--html", tmp_path / "look.html")
    assert "2 labels: cat (4), dog (2)" in told
    assert (tmp_path / "look.html").read_text().count("<img") == 12


def test_a_folder_of_many_things(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Splits are sources of their own, other names of a folder are not; the rest is named."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, texts in (("a", TEXTS[:10]), ("b", TEXTS[10:20])):
        (folder / f"{name}.jsonl").write_bytes(json_lines({"text": text} for text in texts))
    for name, texts in (("train-0-of-2", TEXTS[20:28]), ("train-1-of-2", TEXTS[28:36])):
        pq.write_table(pa.table({"text": texts}), folder / f"{name}.parquet")
    pq.write_table(pa.table({"text": TEXTS[36:]}), folder / "test-0-of-1.parquet")
    (folder / "README.md").write_text("# data")
    (folder / "notes.xyz").write_bytes(b"\1\2")
    part = printed(capsys, folder)
    patterns = [os.path.basename(source["files"]) for source in part["sources"].values()]
    assert sorted(patterns) == ["*.jsonl", "test-0-of-1.parquet", "train-*.parquet"]
    assert trained(tmp_path, part) == in_bytes(TEXTS)
    told = look(capsys, folder)
    assert "left aside: 2 files" in told and "README.md" in told and "1 .xyz" in told


def test_little_of_much_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of many files some, of long files the beginning; and it says so."""
    lines = json_lines({"text": "x" * 1000} for _ in range(20_000))
    for shard in range(30):
        (tmp_path / f"{shard:02}.jsonl").write_bytes(lines)
    told = look(capsys, tmp_path)
    assert "of 8 of 30 files" in told and "about 600," in told
    read = int(re.search(r"read ([\d,]+) bytes", told)[1].replace(",", ""))  # type: ignore[index]
    assert read < 0.2 * 30 * len(lines)


def test_what_is_not_known_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "x.lance").write_bytes(b"LANCE\0\0")
    assert main(["look", str(tmp_path / "odd")]) == 1
    told = capsys.readouterr().out
    assert "x.lance begins with b'LANCE" in told and "WebDataset" in told
    (tmp_path / "empty").mkdir()
    assert main(["look", str(tmp_path / "empty")]) == 1
    assert "the folder is empty" in capsys.readouterr().out
    assert main(["look", str(tmp_path / "none")]) == 2
    assert "there is nothing of that name" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".tar", ".tar.gz", ".jsonl.zst", ".bin"])
def test_a_broken_file_is_a_fault_of_its_own(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Garbage under a known name is told; what lies beside it is read all the same."""
    (tmp_path / f"bad{suffix}").write_bytes(b"<html>404</html>" * 50)
    (tmp_path / "good.jsonl").write_bytes(json_lines({"text": text} for text in TEXTS))
    told = look(capsys, tmp_path)
    assert f"bad{suffix}" in told
    part = printed(capsys, tmp_path)
    assert list(part["sources"]) == [tmp_path.name] or "good" in str(part)
    assert trained(tmp_path, part) == in_bytes(TEXTS)


def test_lines_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'{"text": "a b c"}\nnot json\n[1]\n' + b'{"text": "d"}\n')
    told = look(capsys, tmp_path)
    assert "a line is no JSON" in told and "a line is no object" in told and "4 rows" in told


def test_a_listing_has_an_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for shard in range(5):
        (tmp_path / f"{shard}.jsonl").write_bytes(json_lines([{"text": "a b"}]))
    monkeypatch.setattr(places, "MOST_LISTED", 3)
    told = look(capsys, tmp_path)
    assert "there are more files: the first 3 were listed" in told


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A store with nothing in it."""
    pytest.importorskip("moto", reason="comes with `make setup` for tests")
    from stores import served_bucket

    with served_bucket() as served:
        yield served


def test_the_same_in_a_bucket(
    bucket: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    pq.write_table(pa.table({"text": TEXTS[:20]}), folder / "deep" / "a.parquet")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(json_lines({"text": t} for t in TEXTS[20:])))
    (folder / "_SUCCESS").write_bytes(b"")
    root = bucket.put_folder(folder, "looked/at")
    for what in (root, f"{root}/"):
        part = printed(capsys, what)
        assert all(source["files"].startswith("s3://") for source in part["sources"].values())
        assert trained(tmp_path, part) == in_bytes(TEXTS)
    assert trained(tmp_path, printed(capsys, f"{root}/b.jsonl.gz")) == in_bytes(TEXTS[20:])
    assert trained(tmp_path, printed(capsys, f"{root}/**/*.parquet")) == in_bytes(TEXTS[:20])
    assert "left aside: 1 files of 0 bytes" in look(capsys, "s3://corpus/looked/")
    assert main(["look", f"{root}/none"]) == 2
    assert main(["look", "s3://corpus/none/"]) == 2
