"""Mixtures that move: schedules from the config to the stream, and losses that are reported."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from corpora import json_lines, made_up_texts
from overlord._src.config.schedule import normalise
from overlord._src.config.weights import WEIGHT_ONE, fixed_point
from overlord._src.run.run_loop import RunLoop
from overlord_bench import mix

import overlord as ol

NAMES = ("code", "math", "web")
DELAY = 3
STEPS = 14


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("mixing")
    for number, name in enumerate(NAMES):
        texts = made_up_texts(400, seed=number, longest=12)
        (base / f"{name}.jsonl").write_bytes(json_lines({"text": text} for text in texts))
    return base


def config(folder: Path, **mixture: Any) -> dict[str, Any]:
    return {
        "job": "mixing",
        "seed": 5,
        "context": 128,
        "bins": 8,
        "substeps": 2,
        "vocabulary": 300,
        "at_end": "repeat",
        "steps": STEPS,
        "index_dir": str(folder / ".overlord"),
        "mixture": {"weights": dict.fromkeys(NAMES, 1.0), **mixture},
        "sources": {
            name: {
                "files": str(folder / f"{name}.jsonl"),
                "text": "text",
                "tokenizer": "bytes",
                "eod": 299,
            }
            for name in NAMES
        },
    }


def served(folder: Path, **mixture: Any) -> list[dict[str, float]]:
    """The share of each source in what every step asked for."""
    settings = config(folder, **mixture)
    if settings["mixture"].get("stages"):
        del settings["mixture"]["weights"]
    job = ol.job(settings)
    opened = job.open_stream()
    planner = opened.native.planner(None, [])
    steps = []
    while (plan := planner.next()) is not None:
        asked = dict(zip(opened.source_names, plan.asked, strict=True))
        steps.append({name: asked.get(name, 0) / sum(plan.asked) for name in NAMES})
    return steps


def test_a_warm_up_moves_from_start_to_the_weights(folder: Path) -> None:
    for kind in ("linear", "cosine"):
        steps = served(folder, schedule={"kind": kind, "start": {"web": 1}, "steps": [2, 10]})
        assert [step["web"] for step in steps[:3]] == [1, 1, 1]
        for number in range(3, 10):
            part = (number - 2) / 8
            part = part if kind == "linear" else (1 - math.cos(math.pi * part)) / 2
            assert steps[number]["code"] == pytest.approx(part / 3, abs=0.01), (kind, number)
        assert steps[10]["code"] == pytest.approx(1 / 3, abs=0.01)
    steps = served(folder, schedule={"kind": "linear", "start": {"web": 1}, "steps": [0, 4]})
    assert steps[0]["web"] == 1 and steps[2]["web"] == pytest.approx(2 / 3, abs=0.01)


def test_a_curriculum_adds_sources_in_order(folder: Path) -> None:
    schedule = {"kind": "curriculum", "order": ["web", "math", "code"], "steps": [0, 9]}
    steps = served(folder, schedule=schedule)
    joined = [sorted(name for name, share in step.items() if share > 0) for step in steps]
    assert joined[:3] == [["web"]] * 3 and joined[3:6] == [["math", "web"]] * 3
    assert joined[6:] == [sorted(NAMES)] * (STEPS - 6)


def test_temperature_evens_weights_out() -> None:
    shares = normalise({"a": 16, "b": 1}, 2.0)
    assert float(shares["a"]) == pytest.approx(0.8, abs=1e-15)
    assert sum(fixed_point({"a": 0.7, "b": 0.2, "c": 0}, 3.3).values()) == WEIGHT_ONE
    assert fixed_point({"a": 3, "b": 1}, 1.0) == fixed_point({"a": 3, "b": 1})


def test_a_group_in_the_weights_reads_as_its_parts_do(folder: Path) -> None:
    """One process that hosts all ranks, from the config to the bytes."""

    def read(weights: dict[str, Any]) -> str:
        job = ol.job({**config(folder, weights=weights), "steps": 3}, mesh="dp=2")
        with job.train(ranks="all", engine="embedded", hash=True) as loaders:
            for _ in loaders.steps():
                pass
            return loaders.stream_hash()

    inner = {"weight": 1, "of": {"math": 5}}
    grouped = read({"web": 0.5, "rest": {"weight": 0.5, "of": {"code": 3, "more": inner}}})
    assert grouped == read({"web": 0.5, "code": 0.375, "math": 0.125})
    assert grouped != read({"web": 0.5, "code": 0.125, "math": 0.375})


def test_a_source_ends_after_its_passes(folder: Path) -> None:
    settings = config(folder, max_passes={"code": 1}, weights={"code": 20.0, "web": 1.0})
    settings["steps"] = 60
    opened = ol.job(settings).open_stream()
    planner = opened.native.planner(None, [])
    asked = []
    while (plan := planner.next()) is not None:
        asked.append(plan.asked)
    ended = next(number for number, step in enumerate(asked) if step[0] == 0)
    assert 0 < ended < 50 and all(step[0] == 0 for step in asked[ended:])


def test_substeps_may_have_weights_of_their_own(folder: Path) -> None:
    stage = {"steps": [0, None], "substep_weights": [{"web": 1}, {"code": 1}]}
    settings = config(folder, stages=[stage], grain="substep")
    del settings["mixture"]["weights"]
    settings["packing"] = {"method": "concat"}
    opened = ol.job(settings).open_stream()
    planner = opened.native.planner(None, [])
    plan = planner.next()
    first = {row[0] for bin_ in plan.bins()[:4] for row in bin_}
    assert {opened.source_names[source] for source in first} == {"web"}
    last = {row[0] for row in plan.bins()[7]}
    assert {opened.source_names[source] for source in last} == {"code"}


def test_bytes_are_a_unit(folder: Path) -> None:
    steps = served(folder, unit="bytes")
    assert sum(step["web"] for step in steps) / STEPS == pytest.approx(1 / 3, abs=0.01)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"schedule": {"kind": "linear"}}, "schedule.start: required"),
    ({"schedule": {"kind": "odm", "order": ["web"]}}, "order: kind odm has no use"),
    ({"schedule": {"kind": "cosine", "start": {"web": 1}, "steps": [3, None]}}, "needs an end"),
    ({"schedule": {"kind": "cosine", "start": {"wbe": 1}, "steps": [3, 9]}}, "did you mean web"),
    ({"schedule": {"kind": "curriculum", "order": ["web", "web"], "steps": [0, 9]}}, "once"),
    ({"schedule": {"kind": "curriculum", "order": ["wbe"], "steps": [0, 9]}}, "no such source"),
    ({"schedule": {"kind": "curriculum", "order": list(NAMES), "steps": [0, 2]}}, "leave 0 steps"),
    ({"feedback": {"delay": 4}}, "nothing in this mixture follows"),
    ({"max_passes": {"wbe": 4}}, "did you mean web"),
    ({"temperature": 0.0}, "temperature"),
    ({"schedule": {"kind": "odm"}, "grain": "substep"}, "once a step"),
    ({"schedule": {"kind": "odm"}, "grain": "epoch", "epoch": {"steps": 3}}, "once a step"),
    ({"grain": "epoch"}, "what an epoch is"),
    ({"grain": "epoch", "epoch": {"steps": 3, "source": "web"}}, "what an epoch is"),
    ({"grain": "epoch", "epoch": {"source": "wbe"}}, "did you mean web"),
    ({"epoch": {"steps": 3}}, "needs `grain: epoch`"),
    ({"schedule": {"kind": "odm"}, "feedback": {"delay": 0}}, "delay"),
]


@pytest.mark.parametrize(("mixture", "message"), REFUSED)
def test_what_makes_no_sense_is_refused(
    folder: Path, mixture: dict[str, Any], message: str
) -> None:
    with pytest.raises(ol.ConfigError, match=message):
        ol.job(config(folder, **mixture))


def driven(folder: Path, kind: str = "odm", **changes: Any) -> ol.Job:
    feedback = {"delay": DELAY, **changes}
    return ol.job(config(folder, schedule={"kind": kind}, feedback=feedback))


def losses(step: int, web: float = 9.0) -> dict[str, tuple[float, int]]:
    tokens = 300 + step
    return {"code": (2.0 * tokens, tokens), "math": (1.5 * tokens, tokens), "web": (web * 300, 300)}


def read(loader: ol.Loader, steps: int, web_at: int = -1) -> list[str]:
    """Hash of the content after every step; reports each."""
    hashes = []
    for batches in loader.steps():
        step = batches[0].step
        assert loader.report(step, losses(step, 400.0 if step == web_at else 9.0)) == "accepted"
        hashes.append(loader.content_hash())
        if len(hashes) == steps:
            break
    return hashes


@pytest.mark.parametrize("kind", ["odm", "ado"])
def test_resume_with_feedback_is_as_if_it_had_not_stopped(folder: Path, kind: str) -> None:
    with driven(folder, kind).train() as loader:
        whole = read(loader, STEPS)
    for stop in range(1, STEPS):
        with driven(folder, kind).train() as loader:
            read(loader, stop)
            state = json.loads(json.dumps(loader.state_dict()))
        with driven(folder, kind).train(prefetch=1, threads=1) as loader:
            loader.load_state_dict(state)
            assert read(loader, STEPS) == whole[stop:], stop


def test_a_report_counts_from_the_promised_step_on(folder: Path) -> None:
    with driven(folder).train() as loader:
        before = read(loader, STEPS)
    with driven(folder).train() as loader:
        after = read(loader, STEPS, web_at=4)
    assert before[: 4 + DELAY] == after[: 4 + DELAY]
    assert before[-1] != after[-1]


def test_reports_are_answered(folder: Path) -> None:
    with driven(folder).train() as loader:
        steps = loader.steps()
        next(steps)
        with pytest.raises(ValueError, match="has not consumed step 1"):
            loader.report(1, losses(1))
        with pytest.raises(ValueError, match="no source 'wbe'"):
            loader.report(0, {"wbe": (1.0, 1)})
        with pytest.raises(ValueError, match="finite"):
            loader.report(0, {"web": (math.nan, 1)})
        assert loader.report(0, losses(0), times={"forward": 0.25}) == "accepted"
        assert loader.report(0, losses(0, 1.0)) == "duplicate"
        assert list(loader.reported_times) == [(0, {"forward": 0.25})]
        state = loader.state_dict()
        loader.load_state_dict(state)
        next(loader.steps())
        assert loader.report(0, losses(0)) == "late"
    with ol.job(config(folder)).train() as loader:
        next(loader.steps())
        with pytest.raises(ValueError, match="follows no losses"):
            loader.report(0, losses(0))


def test_several_ranks_report_their_parts(folder: Path) -> None:
    def run(reporters: Any, parts: int) -> str:
        settings = config(
            folder, schedule={"kind": "odm"}, feedback={"delay": DELAY, "reporters": reporters}
        )
        job = ol.job(settings, mesh="pp=2,dp=2,tp=2")
        with job.train(ranks="all") as loaders:
            for batches in loaders.steps():
                step = batches[0][0].step
                for rank in [0] if parts == 1 else [4, 6]:  # the last stage's, with tp 0
                    share = {
                        name: (total / parts, count // parts)
                        for name, (total, count) in losses(2 * step).items()
                    }
                    assert loaders[rank].report(step, share) == "accepted"
            return loaders.content_hash()

    assert run("rank0", 1) == run("last_stage", 2) == run([4, 6], 2)


def test_one_planner_must_hear_every_report(folder: Path) -> None:
    settings = config(folder, schedule={"kind": "odm"})
    job = ol.job(settings, mesh="dp=2")
    with pytest.raises(ValueError, match="hosts 1 of 2 ranks"), job.train(rank=0) as loader:
        next(loader)


def test_a_state_waits_for_its_reports(folder: Path) -> None:
    settings = config(folder, schedule={"kind": "odm"})
    settings["runtime"] = {"alarm_seconds": 0.2}
    with ol.job(settings).train() as loader:
        next(loader.steps())
        with pytest.raises(TimeoutError, match="reported of step 0"):
            loader.state_dict()


def test_a_run_without_a_trainer_is_refused(folder: Path) -> None:
    with pytest.raises(ol.ConfigError, match="reports none"):
        RunLoop(driven(folder), "train", 2)


def test_plans_can_be_made_with_reports_and_without_an_engine(folder: Path) -> None:
    with driven(folder).train() as loader:
        expected = read(loader, STEPS)
    opened = driven(folder).open_stream()
    planner = opened.native.planner(None, [])
    for step in range(STEPS):
        assert planner.next().step == step
        if step + DELAY < STEPS:
            rows = losses(step)
            planner.report(
                step,
                [(i, round(rows[n][0] * 2**12), rows[n][1]) for i, n in enumerate(sorted(rows))],
            )
    assert planner.next() is None
    assert expected
    lost = opened.native.planner(None, [])
    for _ in range(DELAY):
        lost.next()
    with pytest.raises(ConnectionError, match="needs what was reported of step 0"):
        lost.next()


def test_a_rule_of_the_users_own(folder: Path) -> None:
    asked: list[tuple[int, dict[str, float], dict[str, tuple[float, int]]]] = []

    def more_web(step: int, weights: Any, metrics: Any) -> dict[str, float]:
        asked.append((step, dict(weights), dict(metrics)))
        return {**weights, "web": weights["web"] * 1.5}

    def job(function: Any = more_web, version: int = 2) -> ol.Job:
        settings = config(
            folder, schedule={"kind": "rule", "version": 2}, feedback={"delay": DELAY}
        )
        return ol.job(settings, rule=ol.mix.rule(function, version=version))

    with job().train() as loader:
        whole = read(loader, STEPS)
    assert [step for step, _, _ in asked] == list(range(STEPS))
    assert asked[0][1]["web"] == pytest.approx(1 / 3) and asked[0][2]["web"] == (9.0, 300)
    assert asked[5][1]["web"] > asked[4][1]["web"]
    for stop in (2, 7):
        with job().train() as loader:
            read(loader, stop)
            state = loader.state_dict()
        with job().train() as loader:
            loader.load_state_dict(state)
            assert read(loader, STEPS) == whole[stop:], stop
    with pytest.raises(ol.ConfigError, match="version 3"):
        job(version=3)
    with pytest.raises(ol.ConfigError, match="needs the function"):
        ol.job(config(folder, schedule={"kind": "rule", "version": 2}))
    for function, message in (
        (lambda *_: {"web": math.nan}, "source web the weight nan"),
        (lambda *_: {"wbe": 1.0}, "gave a weight to 'wbe'"),
        (lambda *_: {}, "no source a weight"),
        (lambda *_: None, "not a mapping"),
    ):
        with job(function).train() as loader:
            next(loader.steps())
            with pytest.raises((ValueError, TypeError), match=message):
                loader.report(0, losses(0))


def test_bench() -> None:
    report = mix.run(["--steps", "50", "--rounds", "1", "--peers", "/nowhere/python"])
    assert report["bench"] == "mix" and {"ms", "state_bytes"} <= set(report["figures"])
