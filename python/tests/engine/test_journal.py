"""`runtime.journal`: every plan is in a file before anybody sees it, with both engines."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from corpora import job_config, made_up_documents, token_lines
from overlord._src.native import core

import overlord as ol


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "s.jsonl").write_bytes(token_lines(made_up_documents(60)))
    config = job_config(tmp_path, {"s": {"files": "s.jsonl", "tokens": "tokens"}})
    return {**config, "runtime": {"journal": str(tmp_path / "journal")}}


def read(config: dict[str, Any], **options: Any) -> int:
    """The stream, to its end; how many steps it has."""
    with closing(ol.job(config, mesh={"dp": 2}).train(ranks="all", **options)) as loaders:
        return len({batches[0].step for batches in loaders.rounds()})


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_run_leaves_its_plans(config: dict[str, Any], tmp_path: Path, engine: str) -> None:
    steps = read(config, engine=engine)
    [file] = (tmp_path / "journal").iterdir()
    assert file.name.endswith("-rank-0-attempt-1.journal")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    plans = core.journal_plans(str(file))
    job = ol.job(config, mesh={"dp": 2})
    expected = [job.plan(step) for step in range(steps)]
    assert plans[:steps] == [
        (step, plan.content_hash, plan.plan_hash) for step, plan in enumerate(expected)
    ]


def test_without_a_folder_nothing_is_written(config: dict[str, Any], tmp_path: Path) -> None:
    config["runtime"] = {}
    read(config, engine="embedded")
    assert not (tmp_path / "journal").exists()


def test_a_second_run_goes_on_behind_the_first(config: dict[str, Any], tmp_path: Path) -> None:
    steps = read(config, engine="embedded")
    read(config, engine="embedded")
    [file] = (tmp_path / "journal").iterdir()
    plans = core.journal_plans(str(file))
    assert [step for step, _, _ in plans] == [*range(steps)] * 2
    assert plans[:steps] == plans[steps:]


def test_a_folder_that_others_may_write_to_is_refused(
    config: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal").chmod(0o777)
    with pytest.raises(ol.InvalidArgumentError, match="mode 0700"):
        read(config, engine="embedded")
