"""Preflight: what indexes and tokenizers know is held against the config before the first step."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import EOD, job_config, json_lines, made_up_documents, made_up_texts, train_tokenizer
from overlord._src.config.reading import read_config
from overlord._src.index import indexing
from overlord.cli import main

import overlord as ol

TOKENS = {"files": "a.jsonl", "tokens": "t", "eod": EOD, "shuffle": "none"}


def write_rows(folder: Path, bad: Sequence[int] = (), rows: int = 400) -> None:
    """Documents of 20 tokens; in place of some a row that is none."""
    lines = [json.dumps({"t": [row % 900 + 1] * 20}) for row in range(rows)]
    for row in bad:
        lines[row] = '{"t": null}'
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")


def counted(config: dict[str, Any]) -> dict[str, Any]:
    """The config, with indexes that know the lengths."""
    opened = ol.job(config).open_stream()
    indexing.build_indexes(read_config(config), opened.sources, lengths=True)
    return config


def read_all(config: dict[str, Any], **how: Any) -> int:
    with ol.job(config).train(**how) as loader:
        return len(list(loader))


def told(config: dict[str, Any], **how: Any) -> list[str]:
    """What a run is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_all(config, **how)
    return [str(one.message) for one in caught if str(one.message).startswith("overlord: ")]


def test_known_bad_rows_are_refused_before_the_first_step(tmp_path: Path, sockets: Path) -> None:
    write_rows(tmp_path, bad=(300, 310, 320, 330, 340))
    runtime = {"processes": {"directory": str(sockets)}}
    source = {**TOKENS, "bad_rows_allowed": 4}
    config = counted(job_config(tmp_path, {"web": source}, runtime=runtime))
    for start in (
        lambda: ol.job(config).train(),
        lambda: next(iter(ol.job(config).train(engine="processes"))),
    ):
        with pytest.raises(ol.BudgetExceededError) as caught:
            start()
        text = str(caught.value)
        for part in ("source web", "5 bad rows of 400", "bad_rows_allowed is 4", "row 300", "null"):
            assert part in text
        assert "sources.web.bad_rows_allowed: 5" in text and "2 more" in text
    config["sources"]["web"]["bad_rows_allowed"] = 5
    assert read_all(config) > 0 and told(config) == []


def test_a_run_that_ends_before_them_is_let_go(tmp_path: Path) -> None:
    write_rows(tmp_path, bad=[350])
    config = counted(job_config(tmp_path, {"web": TOKENS}, at_end="repeat", steps=10))
    assert told(config) == []
    config["steps"] = 40
    with pytest.raises(ol.BudgetExceededError, match=r"planned ahead: .*position 350"):
        ol.job(config).train()


def test_where_nobody_can_tell_a_share_is_named(tmp_path: Path) -> None:
    """Without lengths plans need data, so that a run with `steps` is only warned."""
    rows: list[dict[str, Any]] = [{"t": [5] * 20, "m": 1} for _ in range(400)]
    rows[399]["m"] = -1
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows))
    source = {**TOKENS, "metadata": ["m"]}
    config = job_config(tmp_path, {"web": source}, at_end="repeat", steps=2)
    (text,) = told(config)
    assert "1 bad rows of 400" in text and "about 50% of a pass" in text and "row 399" in text
    assert told(config, rank=0) == [text]
    del config["steps"]
    with pytest.raises(ol.BudgetExceededError, match="reads all of it"):
        ol.job(config).train()


def test_another_source_may_end_the_stream_first(tmp_path: Path) -> None:
    write_rows(tmp_path, bad=[399])
    (tmp_path / "b.jsonl").write_bytes(json_lines({"t": [7] * 20} for _ in range(30)))
    sources = {"web": {**TOKENS, "at_end": "repeat"}, "few": {**TOKENS, "files": "b.jsonl"}}
    assert told(counted(job_config(tmp_path, sources))) == []
    sources["few"]["at_end"] = "drop"
    with pytest.raises(ol.BudgetExceededError, match="source web"):
        ol.job(job_config(tmp_path, sources)).train()


def test_a_tokenizer_larger_than_the_vocabulary_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = made_up_texts(50)
    tokenizer = train_tokenizer(tmp_path / "tokenizer.json", texts)
    tokenizer.add_tokens(["<late>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    (tmp_path / "a.jsonl").write_bytes(json_lines({"t": text} for text in texts))
    source = {"files": "a.jsonl", "text": "t", "tokenizer": "bpe"}
    tokenizers = {"bpe": {"path": str(tmp_path / "tokenizer.json")}}
    config = job_config(tmp_path, {"web": source}, tokenizers=tokenizers, vocabulary=size - 1)
    with pytest.raises(ol.ConfigError) as caught:
        ol.job(config).train()
    for part in ("vocabulary", f"ids up to {size - 1}", f"got {size - 1}", f"{size} or more"):
        assert part in str(caught.value)
    path = tmp_path / "job.json"
    path.write_text(json.dumps(config))
    assert main(["index", str(path), "--lengths"]) == 2
    assert "ids up to" in capsys.readouterr().err
    assert not (tmp_path / "index").exists()
    assert read_all({**config, "vocabulary": size}) > 0
    config["sources"]["web"]["bad_rows_allowed"] = 1
    (text,) = told({**config, "index_dir": str(tmp_path / "other")})
    assert f"ids up to {size - 1}" in text and f"vocabulary is {size - 1}" in text


@pytest.mark.parametrize("kind", ["BPE", "Unigram"])
def test_ids_are_counted_as_the_package_does(kind: str, tmp_path: Path) -> None:
    from overlord._src.lowering.tokenizer_ids import tokenizer_ids
    from tokenizers import Tokenizer, models

    vocabulary = [("<unk>", 0.0), ("a", -1.0), ("b", -2.0)]
    model = (
        models.BPE({"a": 0, "b": 7}, []) if kind == "BPE" else models.Unigram(vocabulary, unk_id=0)
    )
    tokenizer = Tokenizer(model)
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ids = tokenizer.get_vocab(with_added_tokens=True).values()
    assert tokenizer_ids((tmp_path / "tokenizer.json").read_bytes()) == max(ids) + 1
    assert tokenizer_ids(b"{}") == tokenizer_ids(b"\xff") == 0


def long_documents(folder: Path, **top: Any) -> dict[str, Any]:
    """Steps of 4 x 64 tokens; documents of 500 and 150 among short ones, eod included."""
    documents = [np.full(9, 5) for _ in range(60)]
    documents[7], documents[30] = np.full(499, 6), np.full(149, 7)
    (folder / "a.jsonl").write_bytes(json_lines({"t": one.tolist()} for one in documents))
    (folder / "b.jsonl").write_bytes(json_lines({"t": [8] * 9} for _ in range(60)))
    sources = {"web": TOKENS, "code": {**TOKENS, "files": "b.jsonl"}}
    return job_config(folder, sources, mixture={"weights": {"web": 3, "code": 1}}, **top)


@pytest.mark.parametrize(
    ("policy", "parts"),
    [
        ("split", ("2 of 60 documents fill more than half", "(1 more than a whole", "1.95 of a")),
        ("truncate", ("2 of 60 documents are longer", "loses 522 tokens", "500 tokens")),
        ("drop", ("2 of 60 documents are longer", "loses 650 tokens", "over_length: split")),
    ],
)
def test_long_documents_are_told(policy: str, parts: Sequence[str], tmp_path: Path) -> None:
    config = long_documents(tmp_path, over_length=policy)
    assert told(config) == []  # nobody knows
    (text,) = told(counted(config))
    assert "source web" in text and "sources.web.over_length" in text
    for part in parts:
        assert part in text
    assert told({**config, "context": 512, "bins": 8}) == []


def test_commands_tell_what_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = long_documents(tmp_path)
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write('{"t": null}\n')
    path = tmp_path / "job.json"
    path.write_text(json.dumps(config))

    def flat(*words: str) -> str:
        assert main([*words]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "not there yet" in flat("doctor", str(path))
    for out in (flat("index", str(path), "--lengths"), flat("plan", str(path))):
        assert "warning: source web: 2 of 60 documents" in out
        assert "warning: source code: its index knows 1 bad rows of 61" in out
    assert "bad rows of code" in flat("doctor", str(path))
    plan = json.loads(flat("plan", str(path), "--json"))
    assert len(plan["warnings"]) == 2


def test_plan_shows_what_is_asked_where_a_document_fills_the_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(long_documents(tmp_path, bins=1, steps=12)))
    filled = 0
    for step in range(12):
        assert main(["plan", str(path), "--step", str(step), "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        shares = {name: item["weight"] for name, item in plan["mixture"].items()}
        assert shares == {"web": 0.75, "code": 0.25}
        if any(item["asked"] for item in plan["mixture"].values()):
            continue
        filled += 1
        for words in (["plan", str(path), "--step"], ["inspect", str(path), "step"]):
            assert main([*words, str(step)]) == 0
            out = capsys.readouterr().out
            assert "75.00%" in out and "25.00%" in out
    assert filled >= 4


def test_a_corpus_without_surprises_is_silent(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        json_lines({"t": one.tolist()} for one in made_up_documents(200))
    )
    assert told(counted(job_config(tmp_path, {"web": TOKENS}))) == []
