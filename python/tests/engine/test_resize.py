"""Loaders of a source come and go while the stream runs: nothing of the stream changes, on any
engine, whoever asks and whoever dies meanwhile. The scaler does the same by itself."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from corpora import json_lines, made_up_texts, train_tokenizer
from test_node_comes_back import status_of

import overlord as ol
from overlord import _core as core

STEPS = 40
SIZES = (4, 1, 3, 2)


@pytest.fixture
def growing(config: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """A job of small windows, whose sources may have four loaders."""
    config["steps"] = STEPS
    config["runtime"] |= {"journal": str(tmp_path / "journal"), "scaling": {"policy": "off"}}
    config["runtime"]["processes"] |= {"loaders": 2}
    for source in config["sources"].values():
        source.update(most_loaders=4, window_rows=16)
    return config


def owners_in(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The newest decision about every source whose loaders have changed."""
    files = [path for path in Path(config["runtime"]["journal"]).rglob("*") if path.is_file()]
    looks = [core.look_at_journal(str(folder)) for folder in {path.parent for path in files}]
    return [one for look in looks for one in look["owners"] if one["reason"] != "at the start"]


def kill_some_loaders(sockets: Path, number: int) -> None:
    """One of the processes that have loaders dies."""
    status = status_of(sockets)
    assert status is not None
    found = [one["pid"] for one in status["processes"] if one["name"].startswith("loaders")]
    os.kill(found[number % len(found)], signal.SIGKILL)


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_the_stream_is_the_same(growing: dict[str, Any], sockets: Path, engine: str) -> None:
    quiet = ol.job(growing, mesh="dp=1").train(engine="embedded", hash=True)
    assert len(list(quiet)) >= STEPS
    with ol.job(growing, mesh="dp=1").train(engine=engine, hash=True) as loader:
        for steps, _ in enumerate(loader.steps(), 1):
            if steps % 2 == 0:
                for number, name in enumerate(sorted(growing["sources"])):
                    loader.resize(name, SIZES[(steps // 2 + number) % len(SIZES)])
            if engine == "processes" and steps % 13 == 0:
                kill_some_loaders(sockets, steps)
            if engine == "processes" and steps == STEPS // 2:
                assert {one["reason"] for one in owners_in(growing)} == {"wished by rank 0"}
        assert loader.rank_hash() == quiet.rank_hash()


@pytest.mark.parametrize("advise_only", [False, True])
def test_the_scaler_gives_a_busy_source_more(
    growing: dict[str, Any], tmp_path: Path, advise_only: bool
) -> None:
    texts = made_up_texts(200, longest=3000)
    (tmp_path / "talk.jsonl").write_bytes(json_lines({"text": text} for text in texts))
    train_tokenizer(tmp_path / "bpe.json", texts[:5])
    growing["tokenizers"] = {"bpe": {"path": str(tmp_path / "bpe.json")}}
    talk = {"files": str(tmp_path / "talk.jsonl"), "text": "text", "tokenizer": "bpe"}
    growing["sources"] = {"talk": {**talk, "most_loaders": 4, "window_rows": 16}}
    growing["mixture"] = {"weights": {"talk": 1}}
    growing["runtime"]["scaling"] = {"interval_seconds": 0.05, "advise_only": advise_only}
    del growing["steps"]
    with ol.job(growing, mesh="dp=1").train(engine="processes") as loader:
        decided: list[dict[str, Any]] = []
        for number, _ in enumerate(itertools.islice(loader, 20_000)):
            if number % 20 == 0 and (decided := owners_in(growing)):
                break
    assert decided
    for one in decided:
        assert "workers busy, asked for 1000 thousandths and 1000 soon: " in one["reason"]
        assert (one["advised"] > 1) == advise_only
        assert (one["slots"] > 1) != advise_only


@pytest.mark.parametrize(
    ("source", "loaders", "says"),
    [
        ("nobody", 2, "no source of this stream"),
        (None, 5, "1 to 4; sources"),
        (None, 0, "not a number of slots"),
        (None, True, "not a number of slots"),
    ],
)
def test_what_cannot_be_is_refused(
    growing: dict[str, Any], source: str | None, loaders: Any, says: str
) -> None:
    name = source or next(iter(growing["sources"]))
    with (
        ol.job(growing, mesh="dp=1").train(engine="embedded") as loader,
        pytest.raises(ValueError, match=says),
    ):
        loader.resize(name, loaders)
