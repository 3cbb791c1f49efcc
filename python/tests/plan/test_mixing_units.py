"""Units and grains of a mixture, end to end: bytes of tokenised text, epochs of the mixture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import json_lines, made_up_texts, token_lines, train_tokenizer
from overlord._src.index.indexing import build_indexes
from overlord._src.native import core
from overlord._src.run.run_loop import RunLoop

import overlord as ol

STEPS = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("units")
    texts = made_up_texts(600, seed=1, longest=30)
    (base / "web.jsonl").write_bytes(json_lines({"text": text} for text in texts))
    train_tokenizer(base / "tokenizer.json", texts[:200])
    documents = [np.arange(1 + n % 40) for n in range(600)]
    (base / "code.jsonl").write_bytes(token_lines(documents))
    return base


def config(folder: Path, **mixture: Any) -> dict[str, Any]:
    return {
        "job": "units",
        "seed": 3,
        "context": 64,
        "bins": 8,
        "vocabulary": 500,
        "at_end": "repeat",
        "steps": STEPS,
        "packing": {"method": "concat"},
        "index_dir": str(folder / "index"),
        "tokenizers": {"bpe": {"path": str(folder / "tokenizer.json")}},
        "mixture": {"weights": {"web": 1, "code": 1}, **mixture},
        "sources": {
            "web": {
                "files": str(folder / "web.jsonl"),
                "text": "text",
                "tokenizer": "bpe",
                "shuffle": "none",
            },
            "code": {
                "files": str(folder / "code.jsonl"),
                "tokens": "tokens",
                "shuffle": "none",
            },
        },
    }


def drawn(settings: dict[str, Any]) -> dict[str, int]:
    """Documents of each source that were drawn, by the state after the last step."""
    with ol.job(settings).train(rank=0) as loader:
        for _ in loader:
            pass
        blob = loader._connected().state()
        sources = core.describe_state(blob)["sources"]
    return {name: source["samples"] for name, source in sources.items()}


def test_text_is_weighed_by_its_bytes_and_ready_tokens_by_four(folder: Path) -> None:
    samples = drawn(config(folder, unit="bytes"))
    texts = [json.loads(line)["text"] for line in (folder / "web.jsonl").read_text().splitlines()]
    web = sum(len(texts[n % len(texts)].encode()) for n in range(samples["web"]))
    code = sum(4 * (1 + n % 600 % 40) for n in range(samples["code"]))
    longest = max(len(text.encode()) for text in texts)
    assert abs(web - code) <= longest + 4 * 40, "behind or ahead by more than a document"
    assert drawn(config(folder)) != samples, "tokens would have given the same"


def test_embedded_plans_and_the_engine_weigh_alike(folder: Path) -> None:
    settings = config(folder, unit="bytes")
    with ol.job(settings).train(rank=0) as loader:
        for _ in loader:
            pass
        content = loader.content_hash()
    report = RunLoop(ol.job(settings, mesh="dp=2"), "train", None)
    with report as loop:
        for _ in loop:
            pass
        assert loop.report()["content_hash"] == content


def test_bytes_are_counted_where_the_index_has_lengths(folder: Path, tmp_path: Path) -> None:
    """Lengths tell no bytes: they are left aside, and the stream is the same."""
    settings = config(folder, unit="bytes")
    settings["index_dir"] = str(tmp_path / "index")
    opened = ol.job({**settings, "mixture": {"weights": {"web": 1, "code": 1}}})
    sources = [source for source in opened.open_stream().sources if source.name == "web"]
    build_indexes(opened.loaded, sources, lengths=True, threads=1)
    hashes = []
    for one in (config(folder, unit="bytes"), settings):
        with ol.job(one).train(hash=True) as loader:
            for _ in loader:
                pass
            hashes.append(loader.stream_hash())
    assert hashes[0] == hashes[1]


def stages(*weights: dict[str, float]) -> list[dict[str, Any]]:
    last = len(weights) - 1
    return [
        {"steps": [number, None if number == last else number + 1], "weights": row}
        for number, row in enumerate(weights)
    ]


def shares(settings: dict[str, Any]) -> list[float]:
    """The share of web in what every step asked for."""
    del settings["mixture"]["weights"]
    opened = ol.job(settings).open_stream()
    from overlord._workers.tokenizer_worker import worker_command

    planner = opened.native.planner(None, worker_command())
    found = []
    while (plan := planner.next()) is not None:
        found.append(plan.asked[opened.source_names.index("web")] / sum(plan.asked))
    return found


def test_weights_change_between_epochs_of_steps(folder: Path) -> None:
    rows = stages({"web": 3, "code": 1}, {"web": 1, "code": 1}, {"web": 1, "code": 3})
    found = shares(config(folder, grain="epoch", epoch={"steps": 6}, stages=rows))
    expected = [0.75] * 6 + [0.5] * 6 + [0.25] * (STEPS - 12)
    assert found == pytest.approx(expected, abs=0.02)


def test_a_pass_over_a_source_is_an_epoch(folder: Path) -> None:
    rows = stages({"web": 1, "code": 3}, {"web": 3, "code": 1})
    settings = config(folder, grain="epoch", epoch={"source": "code"}, stages=rows)
    settings["steps"] = 60
    found = shares(settings)
    change = next(number for number, share in enumerate(found) if share > 0.5)
    # 600 documents of 20.5 tokens are 12,300 tokens; a step asks 384 of them, and may be ahead.
    assert change in (32, 33)
    assert found[:change] == pytest.approx([0.25] * change, abs=0.02)
    assert found[change:] == pytest.approx([0.75] * (len(found) - change), abs=0.02)
    with RunLoop(ol.job({**settings, "steps": 10}), "train", None) as loop:
        for _ in loop:
            pass
        assert loop.mixture()["web"]["asked"] == pytest.approx(0.25, abs=0.01)


def test_an_epoch_must_end(folder: Path) -> None:
    rows = stages({"web": 1}, {"web": 1, "code": 1})
    settings = config(folder, grain="epoch", epoch={"source": "code"}, stages=rows)
    del settings["mixture"]["weights"]
    with pytest.raises(ol.InvalidArgumentError, match="would never end"):
        ol.job(settings).open_stream()


def test_stages_must_reach_the_last_epoch(folder: Path) -> None:
    rows = [{"steps": [0, 3], "weights": {"web": 1, "code": 1}}]
    settings = config(folder, grain="epoch", epoch={"steps": 6}, stages=rows)
    del settings["mixture"]["weights"]
    with pytest.raises(ol.ConfigError, match="3 and later have no stage"):
        ol.job(settings)
    ol.job({**settings, "steps": 18})


def test_a_resumed_run_is_in_the_same_epoch(folder: Path) -> None:
    rows = stages({"web": 1, "code": 3}, {"web": 3, "code": 1})
    settings = config(folder, grain="epoch", epoch={"source": "code"}, stages=rows)
    del settings["mixture"]["weights"]
    settings["steps"] = 40
    job = ol.job(settings)
    with job.train(rank=0) as loader:
        states = [loader.state_dict()]
        for _ in loader.steps():
            states.append(loader.state_dict())
        expected = loader.content_hash()
    for stop in (1, 30, 32, 33, 39):
        with job.train(rank=0) as loader:
            loader.load_state_dict(states[stop])
            for _ in loader:
                pass
            assert loader.content_hash() == expected, stop
