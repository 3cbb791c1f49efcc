"""Patterns of file names in a config: what they stand for, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from braceexpand import braceexpand
from corpora import job_config, made_up_documents, made_up_texts, token_lines
from test_arrow import save_by_hand

import overlord as ol
from overlord import _core as core

NAMES = ["a/s-008.jsonl", "a/s-009.jsonl", "b/s-008.jsonl", "b/s-009.jsonl"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """JSON lines in two folders, each of its own content, below one with a brace in its name."""
    folder = tmp_path / "run{1}"
    for number, name in enumerate(NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(token_lines(made_up_documents(20, seed=number)))
    return folder


def config_of(files: Any, **source: Any) -> dict[str, Any]:
    """A job over files beside its config file."""
    config = job_config(Path(), {"s": {"files": "", "tokens": "tokens", **source}})
    config["sources"]["s"]["files"] = files
    return config


def stream_hash(folder: Path, files: Any, **source: Any) -> str:
    """The hash of the stream of a config that lies in the folder."""
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({**config_of(files, **source), "index_dir": "index"}))
    with ol.job(path).train(ranks="all", hash=True) as loaders:
        for _ in loaders.rounds():
            pass
        return loaders.stream_hash()


def test_braces_are_the_files_that_they_name(folder: Path) -> None:
    listed = stream_hash(folder, NAMES)
    assert stream_hash(folder, "{a,b}/s-{008..009}.jsonl") == listed
    assert stream_hash(folder, "{b,a}/*.jsonl") == listed
    assert stream_hash(folder, "{a/s-00{8,9},b/*}.jsonl") == listed
    assert stream_hash(folder, "a/s-{008..009}.jsonl") != listed


@pytest.mark.parametrize(
    "pattern",
    [
        "plain",
        "a{b,c}d{e,f}",
        "{a,b{1..3},}x",
        "s-{0000..0012}.tar",
        "{9..11}",
        "{a..f}",
        "{0..9..3}",
    ],
)
def test_braces_are_those_of_webdataset(pattern: str) -> None:
    assert core.expand_braces(pattern) == list(braceexpand(pattern))


def test_folders_of_a_saved_dataset(folder: Path) -> None:
    for name, seed in (("train", 1), ("more", 2)):
        save_by_hand(folder / name, [pa.table({"text": made_up_texts(30, seed)})])
    text: dict[str, Any] = {"tokens": None, "text": "text", "tokenizer": "bytes"}
    listed = stream_hash(folder, ["train/", "more/"], **text)
    assert stream_hash(folder, "{more,train}/", **text) == listed
    assert stream_hash(folder, "{more,train}", format="arrow", **text) == listed


REFUSED = {
    "one of a range": ("a/s-{008..010}.jsonl", ["stands for 3 names", "s-010.jsonl"]),
    "one of a list": ("{a,c}/*.jsonl", ["stands for 2 names", "c/*.jsonl"]),
    "open": ("a/s-{008.jsonl", ["without a closing one", "\\{"]),
    "no list": ("{a}/*.jsonl", ["neither a list", "\\{"]),
    "backwards": ("a/s-{009..008}.jsonl", ["runs backwards"]),
    "too many": ("a/s-{0..999999999}.jsonl", ["more than 1000000 names"]),
    "suffixes": ("a/s-008.{jsonl,json}", ["suffix tells no format", "format:"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, folder: Path) -> None:
    files, words = REFUSED[case]
    with pytest.raises(ol.ConfigError) as caught:
        stream_hash(folder, files)
    for word in [*words, "sources.s.files"]:
        assert word in str(caught.value)
