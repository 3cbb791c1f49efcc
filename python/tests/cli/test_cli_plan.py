"""`overlord plan` and `overlord diff` with strategies: explained, drawn, exported, compared."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from corpora import two_sources
from overlord.cli import main

STRATEGY = """
import overlord as ol

def even(graph, tree):
    return graph.tokens().cost(ol.cost.quadratic(1, 512)).balance().order().plan()
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A config file and a strategy beside it."""
    path = tmp_path / "mix.json"
    path.write_text(json.dumps(two_sources(tmp_path).config(bins=16, at_end="repeat", steps=4)))
    (tmp_path / "even.py").write_text(STRATEGY)
    return str(path)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_plan_says_what_limits_it(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", config, "--mesh", "pp=2,dp=4"]
    assert "add strategy.cost" in shown(capsys, *words)
    strategy = str(Path(config).parent / "even.py") + ":even"
    out = shown(capsys, *words, "--strategy", strategy, "--draw")
    assert "predicted step" in out and "advice: " in out and "    3 |" in out


def test_plan_explains_a_sample_and_writes_files(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strategy = str(tmp_path / "even.py") + ":even"
    words = ["plan", config, "--mesh", "dp=4", "--strategy", strategy]
    files = ["--svg", str(tmp_path / "plan.svg"), "--arrow", str(tmp_path / "plan.arrow")]
    plan = json.loads(shown(capsys, *words, *files, "--json"))
    assert plan["report"]["consumers"] == 4
    first = plan["bins"][0]["segments"][0]
    name = f"{first['source']}[{first['pass']}:{first['position']}]"
    out = shown(capsys, *words, "--sample", name)
    assert "packed into sequence 0" in out and "balanced to consumer" in out
    assert main([*words, "--sample", "web[9:9]"]) == 1
    assert "<svg" in (tmp_path / "plan.svg").read_text()
    table = pa.ipc.open_file(tmp_path / "plan.arrow").read_all()
    assert table.num_rows == sum(len(item["segments"]) for item in plan["bins"])


def test_inspect_shows_the_report(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "add strategy.cost" in shown(capsys, "inspect", config, "step", "1")


def test_diff_compares_steps_and_meshes(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "diff", config, "--mesh", "dp=2", "--other-mesh", "dp=4")
    assert "same contents" in out
    assert main(["diff", config, "--other-step", "1"]) == 1
    assert "contents differ" in capsys.readouterr().out
    assert main(["diff", config]) == 2
    assert "--other-mesh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("strategy", "named"),
    [("even.py", "FILE.py:NAME"), ("none.py:even", "cannot be read"), ("even.py:odd", "even")],
)
def test_strategies_that_are_not_there_are_refused(
    strategy: str, named: str, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(Path(config).parent / strategy)
    assert main(["plan", config, "--strategy", path]) == 2
    assert named in capsys.readouterr().err
