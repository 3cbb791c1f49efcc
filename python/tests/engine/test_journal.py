"""`runtime.journal`: every plan is on the disk before anybody sees it, with both engines."""

from __future__ import annotations

import contextlib
import stat
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
    with contextlib.closing(
        ol.job(config, mesh={"dp": 2}).train(ranks="all", **options)
    ) as loaders:
        return len({batches[0].step for batches in loaders.rounds()})


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_run_leaves_its_last_plans(config: dict[str, Any], tmp_path: Path, engine: str) -> None:
    steps = read(config, engine=engine)
    [folder] = (tmp_path / "journal").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = [file for file in folder.iterdir() if file.name.startswith("term-")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    plans = core.journal_plans(str(folder))
    job = ol.job(config, mesh={"dp": 2})
    first = plans[0][0]
    expected = [job.plan(step) for step in range(first, steps)]
    assert plans == [
        (step, plan.content_hash, plan.plan_hash) for step, plan in enumerate(expected, first)
    ]


def test_each_process_that_plans_for_itself_leaves_its_own(
    config: dict[str, Any], tmp_path: Path
) -> None:
    job = ol.job(config, mesh={"dp": 2})
    with contextlib.ExitStack() as both:  # at the same time, as two processes would
        loaders = [both.enter_context(job.train(rank, engine="embedded")) for rank in (0, 1)]
        steps = [[batch.step for batch in loader] for loader in loaders]
    folders = {folder.name.rpartition("-rank-")[2]: folder for folder in tmp_path.glob("journal/*")}
    assert sorted(folders) == ["0", "1"]
    plans = [core.journal_plans(str(folders[rank])) for rank in ("0", "1")]
    last = max(steps[0])
    assert plans[0] == plans[1] and steps[0] == steps[1]
    assert plans[0][-1] == (last, job.plan(last).content_hash, job.plan(last).plan_hash)


def test_without_a_folder_nothing_is_written(config: dict[str, Any], tmp_path: Path) -> None:
    config["runtime"] = {}
    read(config, engine="embedded")
    assert not (tmp_path / "journal").exists()


def test_a_second_run_begins_its_own_and_keeps_the_first_aside(
    config: dict[str, Any], tmp_path: Path
) -> None:
    read(config, engine="embedded")
    [folder] = (tmp_path / "journal").iterdir()
    first = core.journal_plans(str(folder))
    read(config, engine="embedded")
    assert core.journal_plans(str(folder)) == first
    assert core.journal_plans(str(folder / "before-1")) == first


def test_a_folder_that_others_may_write_to_is_refused(
    config: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal").chmod(0o777)
    with pytest.raises(ol.InvalidArgumentError, match="mode 0700"):
        read(config, engine="embedded")
