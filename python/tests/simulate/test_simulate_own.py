"""`overlord simulate` with a job's own strategy: its Python functions are called and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from corpora import Corpus, two_sources
from overlord._src.simulate.own_strategy import NAME
from overlord.cli import main

import overlord as ol

BINS = 16
MESH = "pp=2,dp=2"
FUNCTIONS = """
import numpy as np
import overlord as ol

calls = []


def by_length(columns):
    calls.append("cost")
    return columns["tokens"] * 1000.0


def backwards(costs, seats):
    calls.append("balance")
    bins = len(costs)
    place = np.arange(bins)[::-1]
    return place % seats.consumers, place // seats.consumers // seats.microbatch_size


def in_turn(view):
    place = np.arange(view.bins)
    return place % view.seats.consumers, place // view.seats.consumers // view.seats.microbatch_size


def broken(columns):
    return np.full(len(columns["tokens"]), np.nan)


def strategy(graph, tree):
    text = graph.tokens().distribute(tree.dp).cost(by_length, version=1)
    return text.balance(backwards, version=1).plan()
"""
BY_NAME = {
    "cost": {"kind": "python", "name": "by_length", "version": 1},
    "balance": {"python": {"name": "backwards", "version": 1}},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two sources of short documents."""
    return two_sources(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    """The file with the user's functions."""
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)
    return path


def written(corpus: Corpus, folder: Path, strategy: dict[str, Any] | None) -> Path:
    """The job's YAML."""
    config = corpus.config(bins=BINS, at_end="repeat", align=4)
    if strategy is not None:
        config["strategy"] = strategy
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def simulated(path: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit status and report of a simulation of three steps."""
    out = path.parent / "report.json"
    words = ("simulate", str(path), "--mesh", MESH, "--steps", "3", "--json", str(out), *words)
    done = main(list(words))
    return done, json.loads(out.read_text()) if out.exists() else {}


def test_functions_of_a_config_are_called(corpus: Corpus, tmp_path: Path, functions: Path) -> None:
    path = written(corpus, tmp_path, BY_NAME)
    done, report = simulated(path, "--functions", str(functions))
    assert done == 0
    assert report["model"]["name"] == "its own cost"
    own = report["strategies"][NAME]
    # The cost is 1,000 ns a token, so the work of all groups is that of the tokens of a step.
    job = ol.job(str(path), mesh=MESH, callouts=_functions(functions))
    plan = job.plan(0)
    ranks_of_a_group = 2
    tokens = sum(segment[4] for segments in plan.bins() for segment in segments)
    work_ms = np.sum(own["first_step_loads_ms"]) * ranks_of_a_group
    assert work_ms == pytest.approx(tokens * 1000 / 1e6, rel=1e-3)
    # And every microbatch has what the job's real plan gives it.
    loads = np.zeros((2, plan.microbatches))
    for segments, (bucket, microbatch, _) in zip(plan.bins(), plan.placement(), strict=True):
        loads[bucket, microbatch] += sum(segment[4] for segment in segments) * 1000 / 1e6
    assert np.array(own["first_step_loads_ms"]) * ranks_of_a_group == pytest.approx(loads, abs=2e-4)


def test_a_strategy_of_a_file_brings_its_functions(
    corpus: Corpus, tmp_path: Path, functions: Path
) -> None:
    named = simulated(written(corpus, tmp_path, BY_NAME), "--functions", str(functions))[1]
    traced = simulated(written(corpus, tmp_path, None), "--strategy", f"{functions}:strategy")[1]
    assert traced["strategies"][NAME]["step_ms"] == named["strategies"][NAME]["step_ms"]
    assert traced["strategies"]["ours"]["step_ms"] == named["strategies"]["ours"]["step_ms"]


def test_plan_raw_and_a_named_model(corpus: Corpus, tmp_path: Path, functions: Path) -> None:
    raw = {"plan_raw": {"name": "in_turn", "version": 1}}
    done, report = simulated(
        written(corpus, tmp_path, raw), "--functions", str(functions), "--model", "llama-12b"
    )
    assert done == 0
    assert report["model"]["name"] == "llama-12b"
    # Dealt in turn: what `arrival` does where microbatches are filled one after another.
    own, arrival = report["strategies"][NAME], report["strategies"]["arrival"]
    assert own["step_ms"]["mean"] == pytest.approx(arrival["step_ms"]["mean"])


def test_a_native_strategy_is_shown_too(corpus: Corpus, tmp_path: Path) -> None:
    strategy = {"cost": "llama-12b", "balance": {"method": "lpt_search"}}
    done, report = simulated(written(corpus, tmp_path, strategy))
    assert done == 0
    assert NAME in report["strategies"]
    assert NAME not in simulated(written(corpus, tmp_path, None))[1]["strategies"]


def test_samples_that_are_dealt_one_by_one(corpus: Corpus, tmp_path: Path) -> None:
    strategy = {"cost": "llama-12b", "balance": {"method": "lpt_search", "atoms": "samples"}}
    path = written(corpus, tmp_path, strategy)
    done, report = simulated(path)
    assert done == 0
    assert report["workload"]["atoms"] == "samples"
    own, arrival = report["strategies"][NAME], report["strategies"]["arrival"]
    assert own["step_ms"]["mean"] < arrival["step_ms"]["mean"]
    # The groups have the work of the samples that the job's real plan gives them.
    plan = ol.job(str(path), mesh=MESH).plan(0)
    tokens = np.zeros((2, plan.microbatches))
    for segments, (bucket, microbatch, _) in zip(plan.bins(), plan.placement(), strict=True):
        tokens[bucket, microbatch] += sum(segment[4] for segment in segments)
    loads = np.array(own["first_step_loads_ms"])
    assert loads.shape == tokens.shape
    assert ((loads > 0) == (tokens > 0)).all()
    assert main(["simulate", str(path), "--mesh", MESH, "--atoms", "sequences"]) != 0


@pytest.mark.parametrize("axis", ["world", "dp"])
def test_an_encoder_layer_has_the_owners_of_its_plan(axis: str, tmp_path: Path) -> None:
    """The slowest rank's encoder is as slow as the plan's samples make it."""
    rng = np.random.default_rng(4)
    rows = [
        {"tokens": [1] * int(rng.integers(5, 60)), "image_patches": int(rng.integers(0, 900))}
        for _ in range(400)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    config = {
        "job": "pairs",
        "seed": 3,
        "context": 128,
        "bins": BINS,
        "align": 4,
        "vocabulary": 10,
        "at_end": "repeat",
        "index_dir": str(tmp_path / "index"),
        "sources": {
            "pairs": {
                "files": str(tmp_path / "a.jsonl"),
                "tokens": "tokens",
                "metadata": ["image_patches"],
            }
        },
        "mixture": {"weights": {"pairs": 1}},
        "strategy": {
            "cost": "llama-12b",
            "balance": {"method": "lpt_search"},
            "encoder": {"column": "image_patches", "cost": "vit-2b", "distribute": {"axis": axis}},
        },
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(config))
    done, report = simulated(path, "--model", "llama-12b+vit-2b")
    assert done == 0
    plan = ol.job(str(path), mesh=MESH).plan(0)
    table = plan.encoder()
    owners = set(np.asarray(table["runners"])[table["columns"]["bucket"]].tolist())
    assert len(owners) == (4 if axis == "world" else 2)
    encoders = report["strategies"][NAME]["imbalance"]["encoder"]
    # Two of four ranks encode where the groups do, so the fullest has twice the mean of all.
    assert encoders < 1.5 if axis == "world" else 1.9 < encoders < 3


@pytest.mark.parametrize(
    ("strategy", "words", "told"),
    [
        (BY_NAME, (), "names a Python function that is not given"),
        (BY_NAME, ("--functions", "EMPTY"), "has no such function"),
        (BY_NAME, ("--functions", "nowhere.py"), "cannot be read"),
        (None, ("--functions", "FILE"), "names none"),
        (
            {"cost": {"kind": "python", "name": "broken", "version": 1}, "balance": {}},
            ("--functions", "FILE"),
            "broken",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    corpus: Corpus,
    tmp_path: Path,
    functions: Path,
    capsys: pytest.CaptureFixture[str],
    strategy: dict[str, Any] | None,
    words: tuple[str, ...],
    told: str,
) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("")
    places = {"EMPTY": str(empty), "FILE": str(functions)}
    given = [places.get(word, word) for word in words]
    done, _ = simulated(written(corpus, tmp_path, strategy), *given)
    assert done != 0
    shown = " ".join(capsys.readouterr().err.split())
    assert told in shown
    if told == "names a Python function that is not given":
        assert "by_length" in shown and "--functions" in shown


def _functions(path: Path) -> dict[str, Any]:
    import runpy

    names = runpy.run_path(str(path))
    return {name: names[name] for name in ("by_length", "backwards")}
