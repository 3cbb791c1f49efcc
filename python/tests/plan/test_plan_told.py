"""What plans tell: delay, debt, evenness by axis, remedies, and the memory limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import Corpus, two_sources
from overlord._src.lowering.strategy import cost_data
from overlord._src.plan_view.readable import planned_step
from overlord._src.plan_view.remedies import remedies
from overlord._src.plan_view.report import slice_imbalance, told
from overlord.cli import main

import overlord as ol

COST = {"kind": "quadratic", "a": 100, "b": 1}


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return two_sources(tmp_path)


def config_of(corpus: Corpus, **top: Any) -> dict[str, Any]:
    strategy = {"cost": COST, "balance": {}}
    return corpus.config(
        **{"bins": 16, "align": 4, "at_end": "repeat", "steps": 6, "strategy": strategy, **top}
    )


def test_delays_and_debts_are_told(corpus: Corpus) -> None:
    job = ol.job(config_of(corpus), mesh="dp=4")
    opened = job.open_stream()
    waited = 0
    for number in range(6):
        step = planned_step(opened, number)
        data = told(job, opened, step)
        assert sum(data["delay"]["histogram"]) == len(step.columns["bin"])
        assert data["delay"]["max_steps"] == step.plan.max_delay <= 4
        assert set(data["debt"]) == set(opened.source_names)
        assert max(data["debt"].values()) <= 1e-6, "no source is behind at the end of a step"
        assert data["fill"] == pytest.approx(step.plan.tokens / step.plan.capacity)
        waited += sum(data["delay"]["histogram"][1:])
    assert waited > 0


def brute_slices(job: ol.Job, opened: Any, step: Any, cp: int, slicing: str) -> float:
    """Token by token."""
    cost = cost_data(COST)["terms"][0]
    linear, quadratic = cost["linear_q32"] / 2**32, cost["quadratic_q32"] / 2**32
    context, align, columns = opened.resolved.context, opened.resolved.align, step.columns
    loads: dict[tuple[int, int], Any] = {}
    for number, place in enumerate(step.plan.placement()):
        row = loads.setdefault(tuple(place[:2]), np.zeros(cp))
        at = 0
        for segment in np.flatnonzero(columns["bin"] == number):
            count = int(columns["count"][segment])
            padded = -(-count // (2 * cp)) * 2 * cp
            for token in range(count):
                work = linear + quadratic * (2 * token + 1)
                if slicing == "document_zigzag":
                    chunk, chunks = token * 2 * cp // padded, 2 * cp
                else:
                    chunks = cp if slicing == "contiguous" else 2 * cp
                    chunk = (at + token) * chunks // context
                row[chunk if chunk < cp else chunks - 1 - chunk] += work
            at += -(-count // align) * align
    return float(
        sum(row.max() for row in loads.values()) / sum(row.mean() for row in loads.values())
    )


@pytest.mark.parametrize("slicing", ["sequence_zigzag", "document_zigzag", "contiguous"])
def test_context_parallel_peers_are_compared(corpus: Corpus, slicing: str) -> None:
    settings = config_of(corpus, delivery={"cp_slicing": slicing, "microbatch_size": 2})
    job = ol.job(settings, mesh="dp=2,cp=2")
    opened = job.open_stream()
    step = planned_step(opened, 1)
    found = slice_imbalance(job, opened, step, 2)
    assert found == pytest.approx(brute_slices(job, opened, step, 2, slicing), rel=1e-9)
    assert told(job, opened, step)["axes"]["cp"]["max_over_mean"] == found


def test_axes_and_remedies(corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    job = ol.job(config_of(corpus), mesh="pp=4,dp=4")
    opened = job.open_stream()
    data = told(job, opened, planned_step(opened, 0))
    axes = data["axes"]
    assert axes["dp"]["max_over_mean"] >= 1 and axes["microbatch"]["max_over_mean"] >= 1
    assert 0 < axes["pp"]["busy"] < 1
    what = [item["what"] for item in data["remedies"]]
    assert "microbatches" in what, "four microbatches in a pipeline of four stages"
    gains = [item["gain"] for item in data["remedies"]]
    assert gains == sorted(gains, reverse=True) and all(0 < gain < 1 for gain in gains)
    path = corpus.folder / "mix.json"
    path.write_text(json.dumps(config_of(corpus)))
    assert main(["plan", str(path), "--mesh", "pp=4,dp=4"]) == 0
    out = capsys.readouterr().out
    assert "segments by steps waited" in out and "mixture debt (tokens)" in out
    assert "max/mean by axis: dp" in out and "more microbatches per step" in out
    assert main(["plan", str(path), "--mesh", "pp=4,dp=4", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert report["axes"] == axes and report["delay"] == data["delay"]
    assert main(["inspect", str(path), "--mesh", "dp=2", "step", "1"]) == 0
    assert "segments by steps waited" in capsys.readouterr().out


def test_a_long_document_wants_to_be_split() -> None:
    report = {
        "step_ns": 120,
        "even_step_ns": 50,
        "halved_step_ns": 50,
        "consumer_max_ns": 120,
        "consumers": 4,
        "total_ns": 190,
        "lower_bound_ns": 120,
        "bound_by": "largest",
        "split_bound_ns": 50,
        "delay_bound_ns": 34,
    }
    found = [item["what"] for item in remedies(report)]
    assert found[:2] == ["delay", "split"]
    assert remedies({**report, "bound_by": "mean"}) == [], "no sample is in the way"


def test_the_memory_limit_is_kept_or_refused(corpus: Corpus) -> None:
    def placed(limit: int | str | None) -> Any:
        balance = {"memory_limit": limit}
        settings = config_of(corpus, delivery={"microbatch_size": 2})
        settings["strategy"] = {"cost": COST, "balance": balance}
        job = ol.job(settings, mesh="dp=2")
        return planned_step(job.open_stream(), 0)

    free = placed(None)
    assert free.report["memory_max_bytes"] == 0, "nobody asked"
    wide = placed("1GB")
    assert wide.plan.placement() == free.plan.placement()
    most = wide.report["memory_max_bytes"]
    assert 64 < most <= 2 * 64
    assert placed(most).report["memory_max_bytes"] <= most
    with pytest.raises(ol.InvalidArgumentError, match=r"memory_limit: no dealing.*position"):
        placed(1)


def test_a_memory_limit_needs_a_cost_and_sequences(corpus: Corpus) -> None:
    for strategy, message in (
        ({"balance": {"method": "arrival", "memory_limit": 5}}, "memory_limit: needs a cost"),
        ({"cost": COST, "balance": {"atoms": "samples", "memory_limit": 5}}, "microbatch_tokens"),
    ):
        with pytest.raises(ol.InvalidArgumentError, match=message):
            ol.job(config_of(corpus, strategy=strategy), mesh="dp=2").open_stream()
