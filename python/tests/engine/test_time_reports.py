"""Times that a trainer reports: kept with what microbatches held, written, and fitted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from corpora import Corpus, two_sources
from overlord._src.cost.fitting import fit
from overlord._src.cost.reported import read_reports
from overlord.cli import main

import overlord as ol


@pytest.fixture
def job(tmp_path: Path) -> ol.Job:
    corpus: Corpus = two_sources(tmp_path)
    return ol.job(corpus.config(bins=16, at_end="repeat", steps=12), mesh="dp=2")


def seconds(batch: ol.Microbatch) -> float:
    """0.3 ms, 2 us a token and 5 ns a squared length."""
    lengths = batch.lineage()["count"].astype(np.float64)
    return float(0.3e-3 + 2e-6 * lengths.sum() + 5e-9 * (lengths**2).sum())


def test_reported_times_give_the_coefficients_back(job: ol.Job, tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    with job.train(ranks="all") as loaders:
        for step in loaders.steps():
            for rank, batches in step.items():
                times = [seconds(batch) for batch in batches]
                assert loaders[rank].report(batches[0].step, times=times) == "noted"
        rows = loaders.save_reports(path)
        assert rows == len(loaders.reports()) == 12 * 2 * 8
    found = fit(read_reports(path))
    assert found.bin_ns == pytest.approx(0.3e6, rel=1e-3)
    assert found.linear_ns["tokens"] == pytest.approx(2000, rel=1e-3)
    assert found.quadratic_ns["tokens"] == pytest.approx(5, rel=1e-3)
    assert found.held_out.maximum < 1e-6 and found.folds == 5
    assert len(read_reports(path, skip_steps=3).lines) == 9 * 2 * 8


def test_the_command_fits_reports(
    job: ol.Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "reports.jsonl", tmp_path / "fit.json"
    with job.train(rank=1) as loader:
        for batches in loader.steps():
            loader.report(batches[0].step, times=[seconds(batch) for batch in batches])
        loader.report(11, times={"step": 0.25})
        loader.save_reports(path)
    assert json.loads(path.read_text().splitlines()[-1])["times"] == {"step": 0.25}
    assert main(["calibrate", "--from", str(path), "--skip", "2", "--json", str(out)]) == 0
    assert "held-out rows" in capsys.readouterr().out
    assert json.loads(out.read_text())[0]["held_out_errors"]["max"] < 1e-6
    assert main(["calibrate"]) == 2
    assert main(["calibrate", "times.csv", "--from", str(path)]) == 2
    assert main(["calibrate", "times.csv", "--skip", "2"]) == 2
    assert "--from" in capsys.readouterr().err


def test_times_that_cannot_be_are_refused(job: ol.Job) -> None:
    with job.train(rank=0) as loader:
        batches = next(loader.steps())
        with pytest.raises(ValueError, match="8 microbatches on rank 0, got 2 times"):
            loader.report(0, times=[0.1, 0.1])
        for wrong in (0, -1, float("nan"), "1", True):
            with pytest.raises(ValueError, match="seconds"):
                loader.report(0, times=[wrong] * len(batches))  # type: ignore[list-item]
        with pytest.raises(ValueError, match="holds nothing of step 5"):
            loader.report(5, times=[0.1] * len(batches))
        assert loader.reports() == []
        loader.report(0, times=[0.1] * len(batches))
        with pytest.raises(ValueError, match="holds nothing of step 0"):
            loader.report(0, times=[0.1] * len(batches))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has 0 microbatches"),
        ("nonsense", "line 1: not a report"),
        ('{"format": "overlord-reports/9", "time_ms": 1}', "overlord-reports/9"),
        (
            '{"format": "overlord-reports/1", "step": 0, "tokens": 9, "tokens_squares": 2, '
            '"time_ms": 1}',
            "impossible numbers",
        ),
    ],
)
def test_files_that_are_no_reports_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "reports.jsonl"
    path.write_text(text)
    with pytest.raises(ol.ConfigError, match=message):
        read_reports(path)
