"""Reports of ranks that live in several processes: the stream is that of one process with all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reported import more_of_the_worst
from test_serve import served
from trainers import embedded_hashes, hashes_of, trainers, until_nothing_left

import overlord as ol

MESH = {"dp": 2, "tp": 2}
pytestmark = pytest.mark.deadline(180)


def following(config: dict[str, Any], kind: str, reporters: Any) -> dict[str, Any]:
    """The config with weights that follow reports."""
    schedule = {"kind": kind, "version": 1} if kind == "rule" else {"kind": kind}
    feedback = {"delay": 3, "reporters": reporters}
    return {**config, "mixture": {**config["mixture"], "schedule": schedule, "feedback": feedback}}


@pytest.mark.parametrize("kind", ["odm", "rule"])
@pytest.mark.parametrize("reports", [[0, 1, 2, 3], [1, 3]], ids=["all", "two"])
def test_reporters_in_several_processes(
    config: dict[str, Any], sockets: Path, kind: str, reports: list[int]
) -> None:
    rule = ol.mix.rule(more_of_the_worst, version=1) if kind == "rule" else None
    still = embedded_hashes(config, MESH)
    config = following(config, kind, reports)
    expected = embedded_hashes(config, MESH, reports, rule)
    assert expected != still, "the weights move"
    named = "more_of_the_worst" if kind == "rule" else None
    with trainers(config, MESH, reports=reports, rule=named) as started:
        assert hashes_of(started) == expected
        for trainer in started:
            trainer.until("end")
    until_nothing_left(sockets)


def test_a_rule_goes_on_from_a_state(config: dict[str, Any]) -> None:
    reports = [0, 1, 2, 3]
    told: dict[str, Any] = {"reports": reports, "rule": "more_of_the_worst"}
    config = following(config, "rule", reports)
    with trainers(config, MESH, stop_after=5, **told) as started:
        saved = [trainer.until("state")["state"] for trainer in started]
    assert all(state == saved[0] for state in saved)
    with trainers(config, MESH, state=saved[0], **told) as started:
        ended = {trainer.until("content")["content"] for trainer in started}
    with trainers(config, MESH, **told) as started:
        whole = {trainer.until("content")["content"] for trainer in started}
    assert ended == whole and len(whole) == 1


def test_a_rule_that_fails_is_told_to_all_ranks(config: dict[str, Any]) -> None:
    """Where it ran it is the function's own error; elsewhere the stream ends where it counts."""
    config = following(config, "rule", [0, 1, 2, 3])
    with trainers(config, MESH, reports=[0, 1, 2, 3], rule="tired") as started:
        words = [trainer.until("end") for trainer in started]
    assert words[0]["error"] in ("ZeroDivisionError", "UserFunctionError")
    assert {word["error"] for word in words[1:]} == {"UserFunctionError"}
    for trainer, word in zip(started[1:], words[1:], strict=True):
        assert "the mixing rule, asked after step 3, raised ZeroDivisionError" in word["text"]
        steps = [said["step"] for said in trainer.words if "step" in said]
        assert steps == list(range(6)), "before the first step that needs it"


def test_reports_of_one_rank_reach_a_rule_in_its_process(config: dict[str, Any]) -> None:
    config = following(config, "rule", [2])
    rule = ol.mix.rule(more_of_the_worst, version=1)
    expected = embedded_hashes(config, MESH, [2], rule)
    with trainers(config, MESH, reports=[2], rule="more_of_the_worst") as started:
        assert hashes_of(started) == expected


def test_a_node_of_its_own_asks_a_rule_of_the_trainers(
    config: dict[str, Any], tmp_path: Path, sockets: Path
) -> None:
    config = following(config, "rule", [0, 1])
    expected = embedded_hashes(config, {"dp": 2}, [0, 1], ol.mix.rule(more_of_the_worst, version=1))
    config_file = tmp_path / "mix.yaml"
    config_file.write_text(json.dumps(config))
    node = sockets / "node"
    told: dict[str, Any] = {"node": str(node), "reports": [0, 1], "rule": "more_of_the_worst"}
    with served(config_file, node), trainers(str(config_file), {"dp": 2}, **told) as started:
        assert hashes_of(started) == expected
