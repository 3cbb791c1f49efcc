"""Prompts, completions and preferences in the forms that TRL documents: what each document is, what
of it carries loss, and that the two of a preference stay together."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_rows import (
    TEMPLATES,
    Message,
    Piece,
    chat_job,
    chat_tokenizer,
    chatml,
    conversations,
    tokens_and_mask,
    write_rows,
)
from delivered import content, pieces_of
from trainers import embedded_hashes, hashes_of, trainers

import overlord as ol

EOS = "</s>"  # of the tokenizer's folder
KINDS = ("jsonl", "parquet", "arrow", "webdataset")
Pair = tuple[list[Message], Message, Message]


def made_up_pairs(count: int, seed: int = 4) -> list[Pair]:
    """Conversations that end with a question, and two answers to it."""
    pairs: list[Pair] = []
    for number, talk in enumerate(conversations(count, seed)):
        *asked, answer = talk
        worse = {"role": "assistant", "content": f"no, {number}"}
        pairs.append((asked, answer, worse))
    return pairs


def with_loss_behind(prompt: Sequence[Message], answer: Message) -> list[Piece]:
    """The built-in template over both; of the answers the last alone carries loss."""
    asked = [(text, False) for text, _ in chatml(prompt)]
    return [*asked, *chatml([answer])]


def documents(config: dict[str, Any], **options: Any) -> list[tuple[list[int], list[int]]]:
    """Tokens and loss of each document, in the order in which they come."""
    out = []
    with ol.job(config).train(**options) as loader:
        for batch in loader:
            for piece in pieces_of(batch):
                out.append((piece.tokens.tolist(), piece.weights[:-1].astype(int).tolist()))
        assert not loader.quarantine(), [str(note) for note in loader.quarantine()]
    return out


def expected(tokenizer: Any, pieces: Sequence[Piece]) -> tuple[list[int], list[int]]:
    tokens, mask = tokens_and_mask(tokenizer, pieces)
    return tokens, mask[1:]


def job(folder: Path, rows: list[dict[str, Any]], kind: str, chat: Any) -> dict[str, Any]:
    files = write_rows(folder, kind, rows)
    config = chat_job(folder, files, chat, over_length="drop")
    config["context"] = 1024
    return config


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", ["explicit", "implicit", "for people"])
def test_preferences_of_conversations(tmp_path: Path, kind: str, prompt: str) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    pairs = made_up_pairs(40)
    rows = []
    for asked, better, worse in pairs:
        before = [] if prompt == "explicit" else asked
        row: dict[str, Any] = {"chosen": [*before, better], "rejected": [*before, worse]}
        if prompt == "explicit":
            row["prompt"] = asked
        if prompt == "for people":
            row["prompt"] = "what the question was"
        rows.append(row)
    chat = {"format": "preference", "template": "chatml"}
    found = documents(job(tmp_path, rows, kind, chat))
    wanted = [
        tuple(expected(tokenizer, with_loss_behind(asked, one)) for one in (better, worse))
        for asked, better, worse in pairs
    ]
    together = list(zip(found[::2], found[1::2], strict=True))
    assert sorted(map(repr, together)) == sorted(map(repr, wanted))


@pytest.mark.parametrize("kind", [*KINDS, "csv"])
def test_preferences_of_plain_text(tmp_path: Path, kind: str) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    rows: list[dict[str, Any]] = [
        {"prompt": f"The sky of day {n} is", "chosen": " blue.", "rejected": f" green{EOS}"}
        for n in range(20)
    ]
    rows += [
        {"prompt": None, "chosen": f"Of {n} it is blue.", "rejected": f"Of {n} it is black."}
        for n in range(20)
    ]
    chat = {"format": "preference", "template": "none"}
    if kind == "csv":
        with (tmp_path / "rows.csv").open("w", newline="") as out:
            table = csv.DictWriter(out, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        config = chat_job(tmp_path, str(tmp_path / "rows.csv"), chat, over_length="drop")
    else:
        config = job(tmp_path, rows, kind, chat)
    wanted = []
    for n in range(20):
        asked = f"The sky of day {n} is"
        ends = (f" blue.{EOS}", f" green{EOS}")
        wanted += [expected(tokenizer, [(asked, False), (end, True)]) for end in ends]
        ends = (f"ue.{EOS}", f"ack.{EOS}")  # behind what both begin with
        wanted += [expected(tokenizer, [(f"Of {n} it is bl", False), (end, True)]) for end in ends]
    assert sorted(documents(config)) == sorted(wanted)


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    rows = [{"q": f"a {n}", "win": " yes", "lose": " no"} for n in range(6)]
    columns = {"prompt": "q", "chosen": "win", "rejected": "lose"}
    chat = {"format": "preference", "template": "none", "columns": columns}
    assert len(documents(job(tmp_path, rows, "jsonl", chat))) == 12


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_alone_carry_no_loss(tmp_path: Path, kind: str) -> None:
    """A conversation ends with the beginning of an answer; a text is what it is."""
    tokenizer = chat_tokenizer(tmp_path / "model")
    asked = [prompt for prompt, _, _ in made_up_pairs(30)]
    chat = {"format": "prompt", "template": "chatml"}
    found = documents(job(tmp_path, [{"prompt": one} for one in asked], kind, chat))
    begin = [("<|im_start|>assistant\n", False)]
    wanted = [
        expected(tokenizer, [*((text, False) for text, _ in chatml(one)), *begin]) for one in asked
    ]
    assert sorted(found) == sorted(wanted) and not any(any(mask) for _, mask in found)
    folder = tmp_path / "plain"
    chat_tokenizer(folder / "model")
    texts = [{"prompt": f"number {n}"} for n in range(9)]
    found = documents(job(folder, texts, kind, {"format": "prompt", "template": "none"}))
    plain = [expected(tokenizer, [(row["prompt"], False)]) for row in texts]
    assert sorted(found) == sorted(plain)


@pytest.mark.parametrize("form", ["messages", "text"])
def test_prompts_and_completions(tmp_path: Path, form: str) -> None:
    """Also with a label, which is a metadata column: TRL's unpaired preferences."""
    tokenizer = chat_tokenizer(tmp_path / "model")
    rows: list[dict[str, Any]] = []
    wanted = []
    for number, (asked, better, _) in enumerate(made_up_pairs(20)):
        label = {"label": number % 3 == 0}
        if form == "messages":
            rows.append({"prompt": asked, "completion": [better], **label})
            wanted.append(expected(tokenizer, with_loss_behind(asked, better)))
        else:
            rows.append({"prompt": "so ", "completion": better["content"], **label})
            end = better["content"] + EOS
            wanted.append(expected(tokenizer, [("so ", False), (end, True)]))
    template = "chatml" if form == "messages" else "none"
    config = job(tmp_path, rows, "parquet", {"format": "completion", "template": template})
    config["sources"]["sft"]["metadata"] = ["label"]
    assert sorted(documents(config)) == sorted(wanted)


def test_loss_over_all(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    rows = [{"prompt": "a", "chosen": " b", "rejected": " c"}] * 3
    chat = {"format": "preference", "template": "none", "loss": "all"}
    found = documents(job(tmp_path, rows, "jsonl", chat))
    assert len(found) == 6 and all(all(mask) for _, mask in found)


def test_pairs_stay_together_over_passes_and_engines(tmp_path: Path) -> None:
    """In one sequence, chosen first; whatever the engine, and after a resume at any microbatch."""
    chat_tokenizer(tmp_path / "model")
    rows = [
        {"prompt": f"ask {n} ", "chosen": "good " * (1 + n % 7), "rejected": "bad " * (1 + n % 5)}
        for n in range(60)
    ]
    config = job(tmp_path, rows, "parquet", {"format": "preference", "template": "none"})
    config.update(context=128, bins=4, steps=12, at_end="repeat")
    good, bad = ({*map(int, ids)} for ids in _first_tokens(tmp_path, ("good", "bad")))
    batches, states = [], []
    with ol.job(config).train() as loader:
        for batch in loader:
            pieces = pieces_of(batch)
            assert len(pieces) % 2 == 0
            for chosen, rejected in zip(pieces[::2], pieces[1::2], strict=True):
                assert chosen.id[:2] == rejected.id[:2] and chosen.id[2] + 1 == rejected.id[2]
                assert good & set(chosen.tokens.tolist()) and bad & set(rejected.tokens.tolist())
            batches.append(content(batch))
            states.append(loader.state_dict())
    for taken in range(1, len(batches), 3):
        with ol.job(config).train() as loader:
            loader.load_state_dict(states[taken - 1])
            assert [content(batch) for batch in loader] == batches[taken:]
    with trainers(config, {"dp": 2}, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})


def _first_tokens(folder: Path, words: Sequence[str]) -> list[np.ndarray[Any, Any]]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))
    ids = [set(tokenizer.encode(word).ids) for word in words]
    return [np.array(sorted(mine - other)) for mine, other in ((ids[0], ids[1]), (ids[1], ids[0]))]


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"chosen": "a", "rejected": "b"}, "None"),
    ({"prompt": "x", "chosen": "same", "rejected": ""}, "column 'rejected' is empty"),
    ({"prompt": "x", "chosen": None, "rejected": "b"}, "column 'chosen' is empty"),
    ({"chosen": "same", "rejected": "same"}, "do not differ"),
    ({"chosen": [{"role": "user", "content": "x"}], "rejected": "b"}, "a text and a conversation"),
    ({"prompt": "x", "chosen": 7, "rejected": "b"}, "neither text nor a list of messages"),
    ({"prompt": "x", "chosen": " ", "rejected": "b"}, "without a letter"),
    ({"prompt": "x", "chosen": [{"role": "bot", "content": "x"}], "rejected": [1]}, "unknown role"),
]


def test_what_is_no_preference_is_a_bad_row_of_both(tmp_path: Path) -> None:
    """Never one document of the two; both are named by the row that the file has."""
    chat_tokenizer(tmp_path / "model")
    rows = [dict(row) for row, _ in HOSTILE]
    files = write_rows(tmp_path, "jsonl", rows)
    chat = {"format": "preference", "template": "chatml"}
    config = chat_job(tmp_path, files, chat, over_length="drop", bad_rows_allowed=100)
    with ol.job(config).train() as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        notes = [str(note) for note in loader.quarantine()]
    assert len(pieces) == 2 and len(notes) == 2 * (len(HOSTILE) - 1)
    for number, (_, words) in enumerate(HOSTILE[1:], 1):
        mine = [note for note in notes if f"row {number} (" in note]
        assert {branch for branch in ("chosen", "rejected") for note in mine if branch in note}
        assert len(mine) == 2 and all(words in note for note in mine), (number, mine)


@pytest.mark.parametrize(
    ("chat", "source", "words"),
    [
        ({"format": "preference", "column": "x"}, {}, "format preference has none"),
        ({"format": "messages", "columns": {"chosen": "x"}}, {}, "use `column:` instead"),
        ({"format": "prompt", "columns": {"chosen": "x"}}, {}, "format prompt has none"),
        ({"format": "messages", "template": "none"}, {}, "rows of format messages"),
        ("preference", {"shuffle": "full"}, "tears rows that stay together"),
        ("preference", {"over_length": "split"}, "never cut"),
        ("preference", {"group_rows": 2}, "stay together already"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, chat: Any, source: dict[str, Any], words: str
) -> None:
    chat_tokenizer(tmp_path / "model", (TEMPLATES / "llama3.jinja").read_text())
    files = write_rows(tmp_path, "jsonl", [{"prompt": "a", "chosen": "b", "rejected": "c"}])
    config = chat_job(tmp_path, files, chat, **{"over_length": "drop", **source})
    with pytest.raises(ol.ConfigError, match=words):
        ol.job(json.loads(json.dumps(config)))


def test_a_count_leaves_them_as_they_are(tmp_path: Path) -> None:
    """Lengths of branches are not kept; the stream is the same with and without the flag."""
    from overlord.cli import main

    chat_tokenizer(tmp_path / "model")
    rows = [{"prompt": f"ask {n}", "chosen": " yes", "rejected": " no"} for n in range(8)]
    config = job(tmp_path, rows, "jsonl", {"format": "preference", "template": "none"})
    before = documents(config)
    (tmp_path / "job.yaml").write_text(json.dumps(config))
    assert main(["index", str(tmp_path / "job.yaml"), "--lengths"]) == 0
    assert documents(config) == before
