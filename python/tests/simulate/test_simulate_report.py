"""Reports of the simulator: deterministic data with a fixed schema, pictures, a page that stands
alone, and the command with its refusals."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from overlord._src.mesh import Mesh
from overlord._src.simulate import report as reports
from overlord._src.simulate.costs import parse_model
from overlord._src.simulate.page import html_page
from overlord._src.simulate.placing import STRATEGIES
from overlord._src.simulate.simulation import FORMAT, Settings, simulate
from overlord._src.simulate.workloads import synthetic
from overlord.cli import main

NUMBER = (int, float)
STRATEGY_KEYS = {
    "title": str,
    "description": str,
    "step_ms": dict,
    "backbone_ms": float,
    "encoder_ms": float,
    "speedup_vs_arrival": float,
    "over_even": float,
    "imbalance": dict,
    "largest_microbatch_tokens": int,
    "exchange_bytes": float,
    "per_step": dict,
    "first_step_loads_ms": list,
}
REPORT_KEYS = {
    "format": str,
    "workload": dict,
    "model": dict,
    "mesh": dict,
    "steps": int,
    "global_batch": int,
    "microbatches": int,
    "encoder_time": str,
    "bound": dict,
    "strategies": dict,
    "bytes_per_step": dict,
    "loaders": dict,
    "memory": dict,
    "measured": dict,
}


def make_report(seed: int = 1, workload: str = "coyo") -> dict[str, Any]:
    drawn = synthetic(workload, seed)
    mesh = Mesh.parse("pp=2,dp=4,tp=2")
    model = parse_model(drawn.default_model)
    return simulate(Settings(drawn, mesh, model, 3, 128, 4, drawn.default_context, seed=seed))


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return make_report()


def test_the_same_seed_gives_the_same_report(report: dict[str, Any]) -> None:
    again, other = make_report(), make_report(seed=2)
    first = {key: value for key, value in report.items() if key != "measured"}
    assert first == {key: value for key, value in again.items() if key != "measured"}
    assert other["strategies"] != report["strategies"]


def test_the_schema_of_the_json(report: dict[str, Any], tmp_path: Path) -> None:
    reports.write_json(report, tmp_path / "report.json")
    read = json.loads((tmp_path / "report.json").read_text())
    assert read == report and read["format"] == FORMAT == "overlord-simulate/1"
    assert {key: type(value) for key, value in read.items()} == REPORT_KEYS
    assert list(read["strategies"]) == list(STRATEGIES)
    for item in read["strategies"].values():
        assert {key: type(value) for key, value in item.items()} == STRATEGY_KEYS
        assert set(item["step_ms"]) == {"mean", "p50", "p99", "max"}
        assert set(item["imbalance"]) == {"dp", "microbatch", "encoder"}
        assert set(item["per_step"]) == {"step_ms", "dp", "microbatch", "encoder"}
        assert all(len(values) == 3 for values in item["per_step"].values())
        assert all(value >= 1 - 1e-9 for value in item["imbalance"].values())
        assert len(item["first_step_loads_ms"]) == 4
        assert all(isinstance(value, NUMBER) for value in item["step_ms"].values())
    assert set(read["memory"]["roles_bytes"]) == {"planner", "loaders", "constructors", "clients"}
    assert len(read["memory"]["appendix_a"]["cases"]) == 5


def test_arrival_is_what_speed_ups_are_against(report: dict[str, Any]) -> None:
    arrival, ours = (report["strategies"][name] for name in ("arrival", "ours"))
    assert arrival["speedup_vs_arrival"] == 1.0
    expected = arrival["step_ms"]["mean"] / ours["step_ms"]["mean"]
    assert ours["speedup_vs_arrival"] == pytest.approx(expected)
    assert f"{expected:.2f}x as fast as arrival order" in reports.headline(report)


def test_pictures_are_sound_and_labelled(report: dict[str, Any], tmp_path: Path) -> None:
    written = reports.write_pictures(report, tmp_path / "new" / "folder")
    assert [path.name for path in written] == [
        "step_time.svg",
        "steps.svg",
        "work.svg",
        "memory.svg",
    ]
    texts = {path.stem: path.read_text() for path in written}
    for text in texts.values():
        root = ElementTree.fromstring(text)
        assert root.get("role") == "img" and root.get("aria-label")
        assert "nan" not in text and "inf" not in re.sub(r"[a-z]*inf[a-z]+", "", text)
    titles = [item["title"] for item in report["strategies"].values()]
    assert all(f">{title}<" in texts["step_time"] for title in titles)
    assert all(f">{title}<" in texts["steps"] for title in titles)
    assert "milliseconds per step" in texts["step_time"] and ">step<" in texts["steps"]
    assert "microbatch, in running order" in texts["work"]
    assert texts["work"].count("<rect") > 3 * 4 * 4  # three panels of groups x microbatches


@pytest.mark.parametrize("workload", ["coyo", "web"])
def test_the_page_stands_alone(workload: str) -> None:
    page = html_page(make_report(workload=workload))
    for outside in ("http", "src=", "href", "<script", "<link", "@import", "url(", "//"):
        assert outside not in page, outside
    assert page.count("<svg") == 4 and page.count("<table") == 3
    assert "Nothing was trained" in page and "arrival order" in page


def test_many_groups_are_joined_in_the_picture() -> None:
    drawn = synthetic("web", 0)
    mesh = Mesh.parse("dp=200")
    settings = Settings(drawn, mesh, parse_model("llama-12b"), 1, 800, 70, 8192)
    loads = simulate(settings)["strategies"]["ours"]["first_step_loads_ms"]
    assert len(loads) == 64 and all(len(row) == 64 for row in loads)


def simulate_words(*words: str) -> list[str]:
    small = ["--mesh", "pp=2,dp=4", "--steps", "2", "--microbatches", "4"]
    return ["simulate", *words, *(small if "--mesh" not in words else [])]


def test_the_command_writes_what_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / name for name in ("new/r.json", "new/r.html", "pictures")}
    words = ["--json", str(files["new/r.json"]), "--html", str(files["new/r.html"])]
    words += ["--svg", str(files["pictures"]), "--baselines", "arrival,hybrid", "--seed", "3"]
    assert main(simulate_words("--workload", "coyo", *words)) == 0
    text = capsys.readouterr().out
    assert "as fast as arrival order" in text and "colocated loaders" in text
    data = json.loads(files["new/r.json"].read_text())
    assert list(data["strategies"]) == ["arrival", "hybrid", "ours"]
    assert data["workload"]["seed"] == 3 and data["global_batch"] == 4 * 4 * 8
    assert files["new/r.html"].read_text().startswith("<!doctype html>")
    assert len(list(files["pictures"].iterdir())) == 4


def test_the_command_takes_shapes_files_and_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"tokens": list(range(1, 400))}), path)
    words = ["--workload", str(path), "--model", "hidden=1024,layers=4", "--atoms", "sequences"]
    assert main(simulate_words(*words, "--context", "512")) == 0
    assert "16 sequences a step" in capsys.readouterr().out
    assert main(["simulate", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "navit_100" in listed and "equal_count" in listed and "llama-12b" in listed


def test_the_command_simulates_a_jobs_own_steps(
    starter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.json"
    assert main(simulate_words(str(starter), "--json", str(out))) == 0, capsys.readouterr().err
    data = json.loads(out.read_text())
    assert data["workload"]["atoms"] == "sequences" and data["steps"] == 2
    assert main(simulate_words(str(starter), "--context", "99")) == 2
    assert "--set context=8192" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["nothing to simulate", "coyo", "CONFIG"]),
        (["mix.yaml", "--workload", "web"], ["given beside a CONFIG"]),
        (["--workload", "cojo"], ["unknown workload", "navit_100", "did you mean coyo?"]),
        (["--workload", "web", "--mesh", "qp=2"], ["unknown axis", "pp, dp"]),
        (["--workload", "web", "--mesh", "dp=x"], ["cannot read", "like pp=2"]),
        (["--workload", "web", "--baselines", "hybird"], ["did you mean hybrid?", "arrival"]),
        (["--workload", "web", "--model", "lama-12b"], ["did you mean llama-12b?", "hidden="]),
        (["--workload", "web", "--model", "llama-12b+vit"], ["+vit-1b"]),
        (["--workload", "web", "--model", "hidden=9"], ["layers is missing"]),
        (["--workload", "web", "--model", "hidden=0,layers=2"], ["cannot read 'hidden=0'"]),
        (["--workload", "web", "--encoder", "after"], ["before, overlapped"]),
        (["--workload", "web", "--atoms", "tokens"], ["samples, sequences"]),
        (["--workload", "coyo", "--atoms", "sequences"], ["has media"]),
        (["--workload", "web", "--global-batch", "3"], ["--global-batch", "at least 4"]),
        (["--workload", "web", "--context", "1"], ["--context", "at least 16"]),
        (["--workload", "web", "--seed", "-1"], ["--seed", "at least 0"]),
    ],
)
def test_refusals_name_what_is_allowed(
    words: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(simulate_words(*words)) == 2
    error = capsys.readouterr().err
    assert "config error" in error and all(part in error for part in parts), error


def test_steps_must_be_one_or_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--workload", "web", "--steps", "0"]) == 2
    assert "--steps: too small; got 0; allowed: at least 1" in capsys.readouterr().err


def test_pngs_need_matplotlib(
    report: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = main(simulate_words("--workload", "web", "--png", str(tmp_path)))
    if importlib.util.find_spec("matplotlib") is None:
        assert done == 2 and "use --svg" in capsys.readouterr().err
    else:
        assert done == 0 and len(list(tmp_path.glob("*.png"))) == 3
