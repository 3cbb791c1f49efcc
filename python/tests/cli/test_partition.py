"""Sizes by cost: what `overlord partition` says of a job that ran, and what `auto` makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from overlord._src.native import core
from overlord._src.scale.partitioning import Room, rows_per_step
from overlord._src.scale.sizes_file import sizes_path
from overlord.cli import main
from small_job import WEIGHTS, small_job
from test_profile import absolute

import overlord as ol


@pytest.fixture
def where(tmp_path: Path) -> str:
    config, _ = small_job(tmp_path, steps=6)
    config = absolute(config, tmp_path)
    (tmp_path / "mix.yaml").write_text(json.dumps(config))
    return str(tmp_path / "mix.yaml")


def run_once(where: str) -> str:
    """Leaves profiles; the stream's hash."""
    job = ol.job(where, mesh="dp=2")
    with job.train(ranks="all", engine="embedded", hash=True) as loaders:
        for _ in loaders.rounds():
            pass
        found: str = loaders.stream_hash()
    return found


def told(where: str, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["partition", where, "--mesh", "dp=2", "--json", *more]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_sources_that_never_ran_are_named(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", where]) == 2
    text = capsys.readouterr().err
    for name in WEIGHTS:
        assert name in text
    assert "overlord run" in text


def test_sizes_and_their_reasons(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_once(where)
    found = told(where, capsys, "--cores", "12", "--write", str(tmp_path / "sizes.yaml"))
    assert {size["name"] for size in found["sizes"]} == set(WEIGHTS)
    assert found["free_cores"] == 10
    workers = [size["loaders"] * size["workers"] for size in found["sizes"]]
    assert sum(workers) >= 10
    written = (tmp_path / "sizes.yaml").read_text()
    assert main(["partition", where, "--mesh", "dp=2"]) == 0
    shown = capsys.readouterr().out
    for name in WEIGHTS:
        assert f'"{name}": {{loaders: ' in written
        assert name in shown
    assert "because of" in shown


def test_auto_takes_them_and_the_stream_stays(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run_once(where)
    sizes = told(where, capsys, "--cores", "24", "--loader-workers", "2")["sizes"]
    config = json.loads(Path(where).read_text())
    for source in config["sources"].values():
        source |= {"loaders": "auto", "workers": "auto"}
    Path(where).write_text(json.dumps(config))
    job = ol.job(where, mesh="dp=2")
    lowered = {one.name: (one.loaders, one.workers) for one in job.open_stream().sources}
    assert lowered == {size["name"]: (size["loaders"], size["workers"]) for size in sizes}
    assert max(loaders for loaders, _ in lowered.values()) > 1
    assert run_once(where) == expected
    sizes_path(job.loaded).write_text("{")
    [first, *_] = ol.job(where, mesh="dp=2").open_stream().sources
    assert (first.loaders, first.workers) == (1, 2), "until the start, which reckons by profiles"


def test_memory_that_does_not_do_is_refused(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_once(where)
    capsys.readouterr()
    assert main(["partition", where, "--loader-memory", "1"]) == 1
    assert "a loader may have 1" in capsys.readouterr().err
    assert main(["partition", where, "--memory", "much"]) == 2
    assert "not a size" in capsys.readouterr().err
    assert main(["partition", where, "--cores", "0"]) == 2


def test_rows_of_a_step_are_counted(where: str) -> None:
    opened = ol.job(where, mesh="dp=2").open_stream()
    rows = rows_per_step(opened, 4)
    assert set(rows) == set(WEIGHTS)
    assert all(count > 0 for count in rows.values())
    assert rows_per_step(opened, 4) == rows


def test_a_rule_that_is_none_is_refused() -> None:
    with pytest.raises(ol.OverlordError, match="rule"):
        core.partition([], dict(vars(Room(cores=1, taken_cores=0, rule="best"))))
