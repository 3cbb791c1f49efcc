"""Sizes that are found out at the start: by profiles, and without them by a look at some rows."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from overlord._src.index.source_profile import PROBE, profile_path, read_profiles
from overlord._src.job.open_stream import OpenStream
from overlord._src.scale.at_start import most_rows, told_sources
from overlord._src.scale.sizes_file import is_auto
from small_job import WEIGHTS, small_job

import overlord as ol


@pytest.fixture
def auto(tmp_path: Path) -> dict[str, Any]:
    """A job whose sizes nobody knows; one of its sources is text that goes through Python."""
    config, _ = small_job(tmp_path, steps=6)
    rows = (json.dumps({"text": f"row {number} " + "w" * (number % 90)}) for number in range(400))
    (tmp_path / "talk.jsonl").write_text("\n".join(rows) + "\n")
    talk = {"files": str(tmp_path / "talk.jsonl"), "text": "text", "tokenizer": "bytes"}
    config["sources"]["talk"] = {**talk, "transform": "own_transforms:loud"}
    config["mixture"] = {"weights": {**WEIGHTS, "talk": 0.2}}
    for source in config["sources"].values():
        source.update(loaders="auto", workers="auto")
    config["runtime"]["probe_seconds"] = 300  # a busy machine takes its time
    return config


def hash_of(config: dict[str, Any]) -> str:
    with ol.job(config).train(engine="embedded", hash=True) as loader:
        for _ in loader:
            pass
        found: str = loader.rank_hash()
    return found


def opened_of(config: dict[str, Any]) -> tuple[ol.Job, OpenStream]:
    job = ol.job(config)
    return job, job.open_stream()


def test_sources_without_a_profile_are_looked_at(auto: dict[str, Any]) -> None:
    job, opened = opened_of(auto)
    assert not read_profiles(job.loaded, opened.sources)
    told = told_sources(job.loaded, opened, hosts=8)
    profiles = read_profiles(job.loaded, opened.sources)
    assert {profile.engine for profile in profiles.values()} == {PROBE}
    assert set(told) == set(profiles) == {*WEIGHTS, "talk"}
    for name, one in told.items():
        assert one["loaders"] >= 1 and one["workers"] >= 1
        cost = one["measured"]
        assert cost == profiles[name].cost
        assert cost["work_ns"] > 0 and cost["tokens"] > cost["documents"] > 0
        assert cost["elapsed_ns"] == 0, "says what rows cost, and not how many are drawn"
    assert sum(one["loaders"] * one["workers"] for one in told.values()) > len(told)


def test_they_are_looked_at_once_and_runs_know_better(auto: dict[str, Any]) -> None:
    job, opened = opened_of(auto)
    told_sources(job.loaded, opened)
    paths = [profile_path(job.loaded, source) for source in opened.sources]
    before = [path.stat().st_mtime_ns for path in paths]
    told_sources(job.loaded, opened)
    assert [path.stat().st_mtime_ns for path in paths] == before
    hash_of(auto)
    engines = {one.engine for one in read_profiles(job.loaded, opened.sources).values()}
    assert engines == {"embedded"}


def test_the_stream_does_not_depend_on_it(auto: dict[str, Any], tmp_path: Path) -> None:
    found = hash_of(auto)
    for source in auto["sources"].values():
        source.update(loaders=1, workers=1)
    assert hash_of({**auto, "index_dir": str(tmp_path / "other")}) == found


@pytest.mark.parametrize(("seconds", "says"), [(0, "none is made"), (1e-9, "were too short")])
def test_where_there_is_no_time_they_begin_as_ever(
    auto: dict[str, Any], seconds: float, says: str
) -> None:
    auto["runtime"]["probe_seconds"] = seconds
    job, opened = opened_of(auto)
    with pytest.warns(UserWarning, match=says) as warned:
        told = told_sources(job.loaded, opened)
    assert "books, code, talk, web" in str(warned[0].message)
    assert {(one["loaders"], one["workers"]) for one in told.values()} == {(None, None)}
    assert {(one.loaders, one.workers) for one in opened.sources} == {(1, 2)}


def test_numbers_are_taken_as_they_are(auto: dict[str, Any]) -> None:
    for source in auto["sources"].values():
        source.update(loaders=3, workers=1)
    job, opened = opened_of(auto)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = told_sources(job.loaded, opened)
    assert all(one["loaders"] is None and one["workers"] is None for one in told.values())
    assert not read_profiles(job.loaded, opened.sources), "nobody looks where nobody asks"


def test_auto_is_the_default_of_several_hosts(auto: dict[str, Any]) -> None:
    for source in auto["sources"].values():
        del source["loaders"], source["workers"]
    loaded = ol.job(auto).loaded
    assert not is_auto(loaded, "web", "loaders")
    auto["sources"]["web"]["workers"] = 5
    auto["runtime"]["wire"] = {"planner": "127.0.0.1:1"}
    loaded = ol.job(auto).loaded
    assert is_auto(loaded, "web", "loaders") and is_auto(loaded, "code", "workers")
    assert not is_auto(loaded, "web", "workers")


def test_rows_are_those_of_the_step_that_asks_most(auto: dict[str, Any]) -> None:
    job, opened = opened_of(auto)
    told_sources(job.loaded, opened)
    profiles = read_profiles(job.loaded, opened.sources)
    turning = {**WEIGHTS, "talk": 0.2}
    constant = most_rows(opened, profiles)
    stages = [
        {"steps": [0, 3], "weights": turning},
        {"steps": [3, None], "weights": {**turning, "talk": 9.0}},
    ]
    _, later = opened_of({**auto, "mixture": {"stages": stages}})
    rows = most_rows(later, profiles)
    assert rows["talk"] > 4 * constant["talk"]
    assert rows["web"] == pytest.approx(constant["web"])
