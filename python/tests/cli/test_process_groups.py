"""Which sources share a process by the config, and what is said where that may cost something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from overlord._src.checkup.node import placement
from overlord._src.config.streams import resolve_stream
from overlord._src.mesh import as_mesh
from overlord._src.node.limits import node_memory
from overlord._src.node.process_groups import group_costs
from overlord.cli import main
from small_job import WEIGHTS, small_job

import overlord as ol

TURNING = [
    {"steps": [0, 9], "weights": WEIGHTS},
    {"steps": [9, None], "weights": {"books": 0.2, "code": 0.1, "web": 0.7}},
]


@pytest.fixture
def grouped(tmp_path: Path) -> dict[str, Any]:
    config, _ = small_job(tmp_path, steps=4)
    config["runtime"]["processes"]["isolate"] = [["books", "code"]]
    return config


def said(config: dict[str, Any], **millicores: int) -> list[str]:
    loaded = ol.job(config).loaded
    return [*group_costs(loaded, resolve_stream(loaded.config, "train"), millicores)]


def test_sharing_costs_nothing_while_weights_stay(grouped: dict[str, Any]) -> None:
    assert said(grouped) == []


def test_what_it_costs_is_said_where_weights_change(grouped: dict[str, Any]) -> None:
    grouped["mixture"] = {"stages": TURNING}
    [line] = said(grouped, books=200, code=1500)
    assert line == (
        "books and code share a process (runtime.processes.isolate), and their weights change: "
        "together they are asked for 50% of a step before step 9 and for 30% from it on (cores "
        "kept busy in the run before: books 0.2, code 1.5); slots that the scaler adds to one take "
        "it from the others"
    )
    grouped["mixture"] = {"weights": WEIGHTS, "schedule": {"kind": "odm"}}
    [line] = said(grouped)
    assert "their weights follow losses: nobody knows how much" in line
    grouped["runtime"]["processes"]["isolate"] = ["books", "code"]
    assert said(grouped) == [], "each has a process of its own"


def test_it_is_said_at_the_start_and_by_the_doctor(
    grouped: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grouped["mixture"] = {"stages": TURNING}
    with (
        pytest.warns(UserWarning, match="books and code share a process"),
        ol.job(grouped).train(engine="processes") as loader,
    ):
        next(iter(loader))
    (tmp_path / "mix.json").write_text(json.dumps(grouped))
    main(["doctor", str(tmp_path / "mix.json")])
    shown = " ".join(capsys.readouterr().out.split())
    assert "sources books, code: a process of its own, as declared" in shown
    assert "books and code share a process" in shown


def test_a_heavy_source_and_users_python_live_apart_by_rule(grouped: dict[str, Any]) -> None:
    placing = grouped["runtime"]["processes"]
    placing.update(isolate=[], loaders=3)
    grouped["sources"]["web"]["loaders"] = 2
    measured = {"books": 100, "code": 100, "web": 1000}
    placed = placement(ol.job(grouped).loaded, as_mesh("dp=1"), millicores=measured)
    assert placed["processes"] == {"loaders-0": 2, "loaders-1": 1, "loaders-2": 1} | {
        "constructors-0": 1
    }
    assert "source web: 2 processes of its own, since it costs 83%" in placed["reasons"][1]
    placing["isolate_by_rule"] = False
    placed = placement(ol.job(grouped).loaded, as_mesh("dp=1"), millicores=measured)
    assert placed["reasons"][0] == "3 sources share 3 processes"


def test_the_process_of_users_python_counts_in_budgets(
    grouped: dict[str, Any], tmp_path: Path
) -> None:
    placing = grouped["runtime"]["processes"]
    placing["isolate"] = []
    before = node_memory(ol.job(grouped).loaded, 1)
    (tmp_path / "talk.jsonl").write_text('{"text": "a"}\n')
    grouped["sources"]["talk"] = {
        "files": str(tmp_path / "talk.jsonl"),
        "text": "text",
        "tokenizer": "bytes",
        "transform": "own_transforms:loud",
    }
    loaded = ol.job(grouped).loaded
    assert node_memory(loaded, 1) == before + loaded.config.runtime.payload_budget
    placing["isolate_by_rule"] = False
    loaded = ol.job(grouped).loaded
    assert node_memory(loaded, 1) == before
