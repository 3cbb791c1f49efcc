"""`overlord run` with a mixture that follows losses: made up by a law, or read from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from corpora import json_lines, made_up_texts
from overlord._src.run.made_up_losses import Curve, parse_losses
from overlord._src.run.run_loop import RunLoop
from overlord.cli import main
from overlord.cli.live_view import course, mixture_table
from rich.console import Console

import overlord as ol

NAMES = ("code", "web")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    base = tmp_path_factory.mktemp("losses")
    for number, name in enumerate(NAMES):
        texts = made_up_texts(300, seed=number, longest=12)
        (base / f"{name}.jsonl").write_bytes(json_lines({"text": text} for text in texts))
    settings = {
        "job": "losses",
        "seed": 5,
        "context": 128,
        "bins": 8,
        "vocabulary": 300,
        "at_end": "repeat",
        "steps": 40,
        "mixture": {
            "weights": dict.fromkeys(NAMES, 1.0),
            "schedule": {"kind": "odm"},
            "feedback": {"delay": 4, "reporters": "all"},
        },
        "sources": {
            name: {"files": f"{name}.jsonl", "text": "text", "tokenizer": "bytes"} for name in NAMES
        },
    }
    path = base / "mix.json"
    path.write_text(json.dumps(settings))
    return str(path)


def run(config: str, losses: str, mesh: str = "dp=2") -> dict[str, Any]:
    with RunLoop(ol.job(config, mesh=mesh), "train", None, losses=losses) as loop:
        for _ in loop:
            pass
        return loop.report()


def test_the_mixture_follows_the_losses(config: str) -> None:
    hard_web = run(config, "power:web=9/0/0,code=1/0/0")
    hard_code = run(config, "power:web=1/0/0,code=9/0/0")
    for report, hard in ((hard_web, "web"), (hard_code, "code")):
        last = report["weights"][-1]["shares"]
        assert last[hard] > 0.55 and report["weights"][0]["shares"][hard] == 0.5
        assert report["mixture"][hard]["served"] > 0.52
    assert hard_web["content_hash"] != hard_code["content_hash"]
    again = run(config, "power:web=9/0/0,code=1/0/0", mesh="dp=4")
    assert again["content_hash"] == hard_web["content_hash"], "losses are a function of the stream"


def test_losses_come_from_a_file(config: str, tmp_path: Path) -> None:
    rows = [{"step": 0, "losses": {"web": 9, "code": 1}}, {"step": 12, "losses": {"web": 0.5}}]
    path = tmp_path / "losses.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = parse_losses(str(path), NAMES)
    assert [model.mean_loss("web", step, 0) for step in (0, 11, 12, 99)] == [9, 9, 0.5, 0.5]
    assert model.mean_loss("code", 99, 0) == 1
    report = run(config, str(path))
    shares = [point["shares"]["web"] for point in report["weights"]]
    assert max(shares) > 0.55 and shares[-1] < max(shares)


def test_the_view_shows_weights_move(config: str) -> None:
    with RunLoop(ol.job(config), "train", 12, losses="power:web=9/0.1/0,code=1/0.1/0") as loop:
        for _ in loop:
            pass
        table = mixture_table(loop)
        line = course(loop, "web").plain
    console = Console(width=160, record=True, file=None)
    console.print(table)
    text = console.export_text()
    assert "asked over the run" in text and "loss" in text and line in text
    assert line[0] != line[-1]


def test_the_command(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    words = ["run", config, "--no-live", "--steps", "8", "--losses", "power", "--json", str(file)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "weights of step 0 to 7" in out and "of the segments waited" in out
    report = json.loads(file.read_text())
    assert len(report["weights"]) == 8 and set(report["debts"]) == set(NAMES)
    assert {"waited", "mean_steps", "max_steps"} == set(report["delay"])
    assert main(["run", config, "--no-live"]) == 2
    assert "--losses power" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ("power:wbe=1/1/1", "did you mean web"),
        ("power:web=1/1", "three numbers"),
        ("power:web=-1/1/1", "height from 0"),
        ("nowhere.jsonl", "cannot be read"),
    ],
)
def test_losses_that_cannot_be_are_refused(losses: str, message: str) -> None:
    with pytest.raises(ol.ConfigError, match=message):
        parse_losses(losses, NAMES)


def test_bad_files_of_losses_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "losses.jsonl"
    for text, message in (
        ("", "has no losses"),
        ("{}", "not a step with losses"),
        ('{"step": 0, "losses": {"wbe": 1}}', "no such source: wbe"),
        ('{"step": 0, "losses": {"web": 1}}', "no loss of source code"),
    ):
        path.write_text(text)
        with pytest.raises(ol.ConfigError, match=message):
            parse_losses(str(path), NAMES)


def test_curves_fall_to_their_floor() -> None:
    curve = Curve(4, 0.5, 1)
    assert curve.at(0) == 5 and curve.at(3) == 3 and 1 < curve.at(1e9) < 1.001


def test_losses_need_a_mixture_that_follows_them(config: str) -> None:
    plain = ["mixture.schedule=null", "mixture.feedback=null"]
    with pytest.raises(ol.ConfigError, match="nothing in this mixture"):
        RunLoop(ol.job(config, overrides=plain), "train", 3, losses="power")
