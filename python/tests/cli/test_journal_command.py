"""`overlord journal`: what people are told of real journals: whole, cut, damaged, or none."""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from corpora import job_config, made_up_documents, token_lines
from overlord.cli import main
from trainers import processes_of

import overlord as ol

MESH = {"dp": 2}
RUNWAY = 4  # of a config that says nothing of it
MOST_AHEAD = 32  # plans for the sake of the disk


@pytest.fixture
def config(tmp_path: Path, sockets: Path) -> dict[str, Any]:
    (tmp_path / "s.jsonl").write_bytes(token_lines(made_up_documents(60)))
    config = job_config(tmp_path, {"s": {"files": "s.jsonl", "tokens": "tokens"}})
    processes = {"directory": str(sockets)}
    return {**config, "runtime": {"journal": str(tmp_path / "journal"), "processes": processes}}


def read(config: dict[str, Any], engine: str = "embedded") -> int:
    """The stream, to its end; how many steps it has."""
    with closing(ol.job(config, mesh=MESH).train(ranks="all", engine=engine)) as loaders:
        return len({batches[0].step for batches in loaders.rounds()})


def only_folder(config: dict[str, Any]) -> Path:
    [folder] = Path(config["runtime"]["journal"]).iterdir()
    return folder


def looks(folder: Path, capsys: pytest.CaptureFixture[str], status: int = 0) -> list[Any]:
    """What `--json` prints of it."""
    capsys.readouterr()
    assert main(["journal", str(folder), "--json"]) == status
    told: list[Any] = json.loads(capsys.readouterr().out)
    return told


def shown(folder: Path, capsys: pytest.CaptureFixture[str], status: int = 0) -> tuple[str, str]:
    """What people read of it, and of errors."""
    capsys.readouterr()
    assert main(["journal", str(folder)]) == status
    said = capsys.readouterr()
    return said.out, said.err


def last_segment(folder: Path) -> Path:
    return max(folder.glob("term-*"))


def test_a_run_that_ended_is_told(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    steps = read(config, "processes")
    folder = only_folder(config)
    [told] = looks(folder, capsys)
    assert (told["attempt"], told["term"], told["first_step"]) == (1, 1, 0)
    assert told["run"]
    assert told["next_step"] == steps
    assert told["counts"] == last_segment(folder).name
    assert told["cut_bytes"] == 0
    job = ol.job(config, mesh=MESH)
    last = job.plan(steps - 1)
    assert told["plans"][-1] == {
        "step": steps - 1,
        "content_hash": last.content_hash,
        "plan_hash": last.plan_hash,
    }
    again = f"make steps {steps - RUNWAY} to {steps - 1} again"
    assert (
        told["restart"]
        == f"a node of this run would {again} and end: the stream has no step {steps}"
    )
    text, _ = shown(folder, capsys)
    for value in (told["run"], told["config"], told["manifest"], told["restart"], told["counts"]):
        assert value in text


def test_a_run_that_goes_on_is_told_while_it_is_written(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    config["at_end"] = "repeat"
    with closing(ol.job(config, mesh=MESH).train(ranks="all", engine="processes")) as loaders:
        rounds = loaders.rounds()
        while next(rounds)[0].step < 2 * RUNWAY:
            pass
        [told] = looks(only_folder(config), capsys)
    first, following = told["remade_from"], told["next_step"]
    assert RUNWAY <= following - first <= RUNWAY + MOST_AHEAD
    assert told["restart"] == (
        f"a node of this run would make steps {first} to {following - 1} again "
        f"and go on with step {following}"
    )


def test_the_journal_in_a_nodes_directory_tells_of_the_term_after_its_death(
    config: dict[str, Any], sockets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del config["runtime"]["journal"]
    config["at_end"] = "repeat"
    with closing(ol.job(config, mesh=MESH).train(ranks="all", engine="processes")) as loaders:
        rounds = loaders.rounds()
        while next(rounds)[0].step < 2 * RUNWAY:
            pass
        [first] = looks(sockets, capsys)
        [node] = [pid for pid, name in processes_of(sockets).items() if name.endswith("-node")]
        os.kill(node, signal.SIGKILL)
        while next(rounds)[0].step < first["next_step"] + RUNWAY:
            pass
        [second] = looks(sockets, capsys)
    assert (first["term"], second["term"]) == (1, 2)
    assert (second["run"], second["first_step"]) == (first["run"], 0)
    assert second["next_step"] > first["next_step"]
    last = second["plans"][-1]
    assert last["plan_hash"] == ol.job(config, mesh=MESH).plan(last["step"]).plan_hash


def test_an_embedded_engine_does_not_come_back(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    read(config)
    text, _ = shown(only_folder(config), capsys)
    assert "from the state that the ranks load" in text


def test_a_torn_tail_counts_for_nothing(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    read(config, "processes")
    folder = only_folder(config)
    [whole] = looks(folder, capsys)
    segment = last_segment(folder)
    segment.write_bytes(segment.read_bytes()[:-3])
    [cut] = looks(folder, capsys)
    assert cut["cut_bytes"] > 0
    assert cut["valid_bytes"] + cut["cut_bytes"] == segment.stat().st_size
    assert cut["next_step"] < whole["next_step"]
    assert cut["plans"] == whole["plans"][: len(cut["plans"])]
    assert f"go on with step {cut['next_step']}" in cut["restart"]
    text, _ = shown(folder, capsys)
    assert f"torn tail: {cut['cut_bytes']} bytes" in text


def damage(folder: Path) -> Path:
    """A byte of the first frame is another; good frames follow."""
    segment = last_segment(folder)
    content = bytearray(segment.read_bytes())
    content[20] ^= 0xFF
    segment.write_bytes(content)
    return segment


def test_damage_is_told_with_file_and_offset(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    read(config, "processes")
    segment = damage(only_folder(config))
    _, error = shown(segment.parent, capsys, status=1)
    assert str(segment) in error
    assert "offset 0" in error


def test_of_several_the_good_ones_are_told_beside_a_damaged_one(
    config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    read(config)
    read(config)  # the first is kept aside now
    folder = only_folder(config)
    damage(folder / "before-1")
    bad, good = sorted(looks(folder.parent, capsys, status=1), key=lambda one: "error" not in one)
    assert good["folder"] == str(folder)
    assert good["plans"]
    assert bad["folder"] == str(folder / "before-1")
    assert "offset 0" in bad["error"]
    text, error = shown(folder.parent, capsys, status=1)
    assert good["config"] in text
    assert bad["error"] in error


def test_a_failure_is_told_with_its_step(
    config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = token_lines(made_up_documents(60)).splitlines()
    lines[30] = b"broken"
    (tmp_path / "s.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(ol.BudgetExceededError):
        read(config, "processes")
    [told] = looks(only_folder(config), capsys)
    assert "broken" in told["failure"]["message"] or "bad row" in told["failure"]["message"]
    assert f"end before step {told['failure']['step']}: " in told["restart"]


def test_what_nobody_made_durable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "term-00000001.00000001").touch()
    [told] = looks(tmp_path, capsys)
    assert told["counts"] == ""
    assert told["restart"].startswith("nothing was ever durable")
    text, _ = shown(tmp_path, capsys)
    assert "nothing was ever durable" in text


def test_where_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        _, error = shown(folder, capsys, status=1)
        assert "no journal at" in error
        assert "runtime.journal" in error
