"""Metadata columns: from files through plans to balance; and sources cut by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import EOD, Corpus, job_config, json_lines, made_up_documents
from delivered import content, segments_of
from overlord._src.plan_view import explain
from overlord._src.plan_view.readable import planned_step
from overlord.cli import main

import overlord as ol

STEPS = 6
ROWS = 400
PATCHES = ol.cost.tokens("image_patches")


def patches_of(rows: int, seed: int = 3) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Half of the documents have no image; the others few or very many patches."""
    rng = np.random.default_rng(seed)
    values = np.clip(rng.lognormal(4, 1.2, rows).astype(np.int64), 1, 5000)
    values[rng.random(rows) < 0.5] = 0
    return values


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A Parquet source with images and a flag, and a JSONL source with neither."""
    made = Corpus(tmp_path_factory.mktemp("corpus"))
    documents = made_up_documents(ROWS, seed=1, longest=150)
    patches = patches_of(ROWS)
    columns = {
        "tokens": pa.array([item.tolist() for item in documents], pa.list_(pa.int32())),
        "image_patches": pa.array([None if p == 0 else int(p) for p in patches], pa.int64()),
        "clean": pa.array([i % 3 == 0 for i in range(ROWS)]),
    }
    pq.write_table(pa.table(columns), made.folder / "pairs.parquet", row_group_size=64)
    made.sources["pairs"] = {
        "files": "pairs.parquet",
        "tokens": "tokens",
        "eod": EOD,
        "metadata": ["image_patches", "clean"],
    }
    made.documents["pairs"] = documents
    made.add_jsonl("web", made_up_documents(200, seed=2), eod=EOD)
    return made


def config_of(corpus: Corpus, **top: Any) -> dict[str, Any]:
    """Sixteen sequences a step."""
    return corpus.config(**{"bins": 16, "at_end": "repeat", "steps": STEPS, "align": 4, **top})


def by_patches(graph: Any, tree: Any) -> Any:
    """Even encoder work, whatever the tokens do."""
    layer = graph.tokens()
    layer.distribute(tree.dp)
    layer.cost(PATCHES)
    layer.balance("lpt_search", level="interleaved")
    return layer.plan()


def by_tokens(graph: Any, tree: Any) -> Any:
    """Even tokens."""
    layer = graph.tokens()
    layer.distribute(tree.dp)
    layer.cost(ol.cost.tokens())
    layer.balance("lpt_search", level="interleaved")
    return layer.plan()


def by_samples(graph: Any, tree: Any) -> Any:
    """Samples one by one, tokens and patches together."""
    layer = graph.tokens()
    layer.distribute(tree.dp)
    layer.cost(ol.cost.sum(ol.cost.tokens(), PATCHES))
    layer.balance("lpt_search", level="interleaved", atoms="samples", microbatch_tokens=256)
    return layer.plan()


def expected_values(opened: Any, step: Any, name: str) -> list[int]:
    """What the files say of every segment of a step."""
    patches, out = patches_of(ROWS), []
    columns = step.columns
    for row in range(len(columns["bin"])):
        source = step.sources[columns["source"][row]]
        if source.partition("/")[0] != "pairs" or columns["first"][row] > 0:
            out.append(0)
            continue
        at = [int(columns[key][row]) for key in ("source", "pass", "position")]
        place = opened.native.locate(*at)["row"]
        out.append(int(patches[place]) if name == "image_patches" else int(place % 3 == 0))
    return out


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("strategy", [None, by_patches, by_samples])
def test_plans_see_what_the_files_say(
    corpus: Corpus, strategy: Any, lengths: bool, tmp_path: Path
) -> None:
    config = config_of(corpus, index_dir=str(tmp_path))
    if lengths:
        (tmp_path / "job.json").write_text(json.dumps(config))
        assert main(["index", str(tmp_path / "job.json"), "--lengths"]) == 0
    opened = ol.job(config, mesh="dp=4", strategy=strategy).open_stream()
    seen = 0
    for number in range(0, STEPS, 2):
        step = planned_step(opened, number)
        assert [*step.graph["columns"]] == ["clean", "image_patches"]
        for name in step.graph["columns"]:
            values = step.graph["columns"][name].tolist()
            assert values == expected_values(opened, step, name)
            seen += sum(values)
    assert seen > 1000


def loads(step: Any, name: str) -> Any:
    """What every consumer has of a column."""
    return np.bincount(step.columns["bucket"], weights=step.graph["columns"][name], minlength=4)


def test_a_cost_over_a_column_balances_that_column(corpus: Corpus) -> None:
    worst: dict[str, list[float]] = {}
    for strategy in (None, by_tokens, by_patches, by_samples):
        opened = ol.job(config_of(corpus), mesh="dp=4", strategy=strategy).open_stream()
        for number in range(STEPS):
            load = loads(planned_step(opened, number), "image_patches")
            name = "arrival" if strategy is None else strategy.__name__
            worst.setdefault(name, []).append(float(load.max() / load.mean()))
    mean = {name: float(np.mean(values)) for name, values in worst.items()}
    assert mean["by_patches"] < 0.9 * min(mean["arrival"], mean["by_tokens"])
    assert mean["by_samples"] < min(mean["arrival"], mean["by_tokens"])


MESHES = ("dp=1", "dp=2", "dp=4,tp=2", "pp=2,dp=2,cp=2")


def test_contents_are_the_same_on_every_mesh(corpus: Corpus) -> None:
    window = {"steps": 3, "max_delay": 2, "width": 4, "cost": PATCHES.to_dict()}
    for extra in ({}, {"window": window}):
        config = config_of(corpus, **extra)
        hashes = {
            mesh: [
                planned_step(
                    ol.job(config, mesh=mesh, strategy=by_patches).open_stream(), step
                ).plan.content_hash
                for step in range(STEPS)
            ]
            for mesh in MESHES
        }
        assert len({tuple(value) for value in hashes.values()}) == 1


@pytest.mark.parametrize("window", [1, 3])
def test_resume_with_carried_columns_is_exact_at_every_step(corpus: Corpus, window: int) -> None:
    extra = {"steps": window, "max_delay": 1, "width": 4, "cost": PATCHES.to_dict()}
    config = config_of(corpus, **({"window": extra} if window > 1 else {}))
    job = ol.job(config, mesh="dp=2", strategy=by_patches)
    states, digests = [], []
    with job.train(rank=1) as loader:
        states.append(loader.state_dict())
        for batch in loader:
            digests.append(content(batch))
            states.append(loader.state_dict())
    assert len(states) == 1 + STEPS * 8
    for stop in range(0, len(states), 5):
        with job.train(rank=1) as loader:
            loader.load_state_dict(json.loads(json.dumps(states[stop])))
            assert [content(batch) for batch in loader] == digests[stop:]
    # Values of carried documents are in the state: plans made from it know them.
    for stop in range(STEPS):
        cursor = job.open_stream().native.planner(None, [])
        if stop:
            cursor.seek(stop)
        again = job.open_stream().native.planner(cursor.state(), [])
        first, second = cursor.next(), again.next()
        assert first.plan_hash == second.plan_hash
        for name, values in cursor.graph()["columns"].items():
            assert values.tolist() == again.graph()["columns"][name].tolist()


def test_states_have_one_format_with_columns_and_without(corpus: Corpus) -> None:
    from overlord._src.native import core

    with_columns = ol.job(config_of(corpus)).open_stream().native
    cursor = with_columns.planner(None, [])
    cursor.next()
    assert core.describe_state(cursor.state())["format"] == 5
    config = config_of(corpus, mixture={"weights": {"web": 1}})
    cursor = ol.job(config).open_stream().native.planner(None, [])
    cursor.next()
    assert core.describe_state(cursor.state())["format"] == 5


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"metadata": ["patches"]}, "has no column 'patches'; it has 'tokens', 'image_patches'"),
    ({"metadata": ["tokens"]}, "every sample has its token count under this name"),
    ({"metadata": ["clean", "clean"]}, "is listed twice"),
    ({"format": "megatron", "tokens": None}, "no columns"),
    ({"split": {"by": "size", "edges": [3]}}, "not a metadata column of the source"),
    ({"split": {"by": "clean", "edges": [3, 3]}}, "do not ascend"),
]


@pytest.mark.parametrize(("change", "named"), REFUSALS)
def test_what_cannot_be_is_refused(
    change: dict[str, Any], named: str, corpus: Corpus, tmp_path: Path
) -> None:
    config = config_of(corpus, index_dir=str(tmp_path))
    config["sources"]["pairs"] = {**config["sources"]["pairs"], **change}
    with pytest.raises((ol.ConfigError, ol.NotFoundError)) as refused:
        ol.job(config).open_stream()
    assert named in str(refused.value)


def test_a_cost_over_what_nobody_declares_is_refused(corpus: Corpus) -> None:
    strategy = {"cost": ol.cost.tokens("audio_frames").to_dict(), "balance": {}}
    with pytest.raises(ol.ConfigError, match="tokens, clean, image_patches"):
        ol.job(config_of(corpus, strategy=strategy), mesh="dp=2").open_stream()
    window = {"steps": 2, "cost": ol.cost.tokens("audio_frames").to_dict()}
    with pytest.raises(ol.ConfigError, match=r"window\.cost"):
        ol.job(config_of(corpus, window=window)).open_stream()


def test_an_index_without_the_columns_is_not_taken(corpus: Corpus, tmp_path: Path) -> None:
    config = config_of(corpus, index_dir=str(tmp_path))
    config["sources"]["pairs"] = {**config["sources"]["pairs"], "metadata": []}
    ol.job(config).open_stream()
    config["sources"]["pairs"]["metadata"] = ["clean"]
    assert planned_step(ol.job(config).open_stream(), 0).graph["columns"]["clean"].sum() > 0


def test_bad_values_are_bad_rows(tmp_path: Path) -> None:
    rows = [{"tokens": [1, 2, 3, i + 1], "n": i} for i in range(60)]
    rows[7]["n"] = -1
    rows[9]["n"] = "seven"
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows))
    source = {"files": "a.jsonl", "tokens": "tokens", "metadata": ["n"], "bad_rows_allowed": 2}
    config = job_config(tmp_path, {"a": source}, bins=2, at_end="drop")
    with ol.job(config).train() as loader:
        positions = [row[2] for row in segments_of(loader)]
        bad = loader.quarantine()
    assert len(positions) == len(set(positions)) == 58
    assert sorted(item["row"] for item in bad) == [7, 9]
    assert any("metadata column 'n' is -1" in item["reason"] for item in bad)
    config["sources"]["a"]["bad_rows_allowed"] = 1
    with pytest.raises(ol.BudgetExceededError, match="2 bad rows of 60"):
        ol.job(config).train()


def test_samples_are_explained_filtered_and_exported_with_their_columns(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = ol.job(config_of(corpus), mesh="dp=4", strategy=by_patches).open_stream()
    step = planned_step(opened, 1)
    patches = step.graph["columns"]["image_patches"]
    rows = explain.where_rows(step, ["image_patches>0", "tokens <= 40", "source=pairs"])
    expected = np.flatnonzero((patches > 0) & (step.columns["count"] <= 40))
    assert rows.tolist() == expected.tolist() and 0 < len(rows) < len(patches)
    row = int(np.flatnonzero(patches > 0)[0])
    assert f"image_patches {patches[row]}" in " ".join(explain.explain_row(step, row))
    table = explain.to_arrow(step, ["image_patches>0"])
    assert table.num_rows == int((patches > 0).sum())
    assert table["image_patches"].to_pylist() == patches[patches > 0].tolist()
    path = tmp_path / "job.json"
    path.write_text(json.dumps(config_of(corpus)))
    assert main(["plan", str(path), "--where", "image_patches>100"]) == 0
    assert "image_patches:" in capsys.readouterr().out
    assert main(["plan", str(path), "--where", "audio>0"]) != 0
    assert "tokens, clean, image_patches" in capsys.readouterr().err
    for wrong in ("image_patches", "source=books", "clean>x"):
        with pytest.raises(ValueError, match="--where"):
            explain.where_rows(step, [wrong])


# A source cut into sub-sources.


def split_config(corpus: Corpus, weights: dict[str, float], **top: Any) -> dict[str, Any]:
    """The pairs in three by their patches."""
    config = config_of(corpus, at_end="drop", steps=None, **top)
    split = {"by": "image_patches", "edges": [1, 100]}
    config["sources"]["pairs"] = {**config["sources"]["pairs"], "split": split}
    config["mixture"] = {"weights": weights}
    return config


PARTS = {"pairs/0": 1.0, "pairs/1": 1.0, "pairs/2": 2.0}


def test_sub_sources_hold_every_row_exactly_once(corpus: Corpus) -> None:
    config = split_config(corpus, PARTS)
    opened = ol.job(config).open_stream()
    assert opened.source_names == ["pairs/0", "pairs/1", "pairs/2"]
    assert len([*Path(config["index_dir"]).glob("pairs*.index")]) == 1
    patches, seen = patches_of(ROWS), []
    with ol.job(config, mesh="dp=2").train(ranks="all") as loaders:
        for batches in loaders.steps():
            for part, pass_, position, first, _ in segments_of(
                batch for own in batches.values() for batch in own
            ):
                row = opened.native.locate(part, pass_, position)["row"]
                assert part == int(np.searchsorted([1, 100], patches[row], side="right"))
                if first == 0:
                    seen.append(row)
    assert sorted(seen) == list(range(ROWS))


def test_sub_sources_follow_a_curriculum_and_resume(corpus: Corpus) -> None:
    """Pictures of many patches come later; each keeps its own cursor in the state."""
    config = split_config(corpus, PARTS)
    config["at_end"], config["steps"] = "repeat", STEPS
    config["mixture"] = {
        "stages": [
            {"steps": [0, 2], "weights": {"pairs/0": 1, "web": 1}},
            {"steps": [2, None], "weights": {"pairs/1": 1, "pairs/2": 3}},
        ]
    }
    job = ol.job(config, mesh="dp=2")
    served = [planned_step(job.open_stream(), step).plan.served for step in range(STEPS)]
    assert served[0][1] == served[0][2] == 0 < served[0][0]
    assert served[4][0] == served[4][3] == 0 < served[4][2]
    states, digests = [], []
    with job.train(rank=0) as loader:
        states.append(loader.state_dict())
        for batch in loader:
            digests.append(content(batch))
            if batch.last_in_step:
                states.append(loader.state_dict())
    assert {*states[-1]["sources"]} == {"pairs/0", "pairs/1", "pairs/2", "web"}
    for step, state in enumerate(states):
        with job.train(rank=0) as loader:
            loader.load_state_dict(json.loads(json.dumps(state)))
            assert [content(batch) for batch in loader] == digests[step * 8 :]


def test_only_the_sub_sources_of_a_split_source_can_be_weighed(corpus: Corpus) -> None:
    with pytest.raises(ol.ConfigError, match="pairs/0, pairs/1, pairs/2, web"):
        ol.job(split_config(corpus, {"pairs": 1.0}))


def test_the_simulator_knows_a_jobs_images(corpus: Corpus) -> None:
    from overlord._src.simulate.workloads import from_index

    planned = from_index(ol.job(config_of(corpus)), 2)
    step = planned_step(ol.job(config_of(corpus)).open_stream(), 1)
    assert planned.steps[1].image_patches.sum() == step.graph["columns"]["image_patches"].sum() > 0
