"""Chat rows: tokens and loss as written out by hand, in every format, engine and after a resume."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from chat_rows import (
    TEMPLATES,
    Message,
    Reference,
    as_alpaca,
    as_sharegpt,
    chat_job,
    chat_tokenizer,
    chatml,
    conversations,
    from_alpaca,
    llama3,
    mistral,
    qwen2vl,
    tokens_and_mask,
    write_rows,
)
from delivered import pieces_of
from overlord._src.config.reading import read_config
from overlord._src.config.streams import resolve_stream
from overlord._src.index.indexing import build_indexes
from overlord._src.lowering.job_spec import list_source_files, lower_source
from overlord._workers.tokenizer_worker import worker_command
from overlord.cli import main

import overlord as ol

Rows = dict[int, tuple[list[int], list[int]]]
KINDS = ["jsonl", "parquet", "arrow", "webdataset"]


def stored(job: ol.Job, count: int) -> Rows:
    """Tokens and mask of the first rows, as `inspect` reads them; bad rows are left out."""
    native = job.open_stream().native
    rows = (native.read_row(0, row, worker_command()) for row in range(count))
    return {
        place: (list(row["tokens"]), list(row["mask"] or []))
        for place, row in enumerate(rows)
        if row["bad"] is None
    }


def delivered(
    config: Any, engine: str = "embedded", after: int = 0
) -> tuple[str, Rows, dict[int, str]]:
    """Hash, tokens and weights by row, and reasons of bad rows; resumed after some batches."""
    job = ol.job(config)
    state = None
    if after:
        with job.train(rank=0, engine=engine) as first:
            for _ in range(after):
                next(first)
            state = first.state_dict()
    native = job.open_stream().native
    with job.train(rank=0, engine=engine, hash=True) as loader:
        if state is not None:
            loader.load_state_dict(state)
        rows: Rows = {}
        for batch in loader:
            for piece in pieces_of(batch):
                row = native.locate(0, piece.id[1], piece.id[2])["row"]
                assert row not in rows and not piece.continues
                rows[row] = (piece.tokens.tolist(), piece.weights.tolist())
        bad = {note["row"]: note["reason"] for note in loader.quarantine()}
        return loader.rank_hash(), rows, bad


def count_tokens(config: Any) -> None:
    """Index with lengths, as `overlord index --lengths` does; what is there is made anew."""
    loaded = read_config(config)
    stream = resolve_stream(loaded.config, "train")
    files = list_source_files(loaded, "sft")
    build_indexes(loaded, [lower_source(loaded, stream, "sft", files)], lengths=True)


def weights_of(mask: Sequence[int]) -> list[int]:
    """A weight belongs to the next token; the last one has none."""
    return [*mask[1:], 0]


def reference(tokenizer: Any, made: Reference, turns: Sequence[Message]) -> Any:
    return tokens_and_mask(tokenizer, made(turns))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("template", "made"), [("chatml", chatml), ("llama3", llama3), ("mistral", mistral)]
)
def test_messages_are_what_the_template_makes(
    tmp_path: Path, kind: str, template: str, made: Reference
) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    turns = conversations(70, seed=3, system=template != "mistral")
    files = write_rows(tmp_path, kind, [{"messages": one, "id": i} for i, one in enumerate(turns)])
    path = template if template == "chatml" else str(TEMPLATES / f"{template}.jinja")
    config = chat_job(tmp_path, files, {"template": path}, over_length="truncate")
    expected = {row: reference(tokenizer, made, one) for row, one in enumerate(turns)}
    assert stored(ol.job(config), len(turns)) == expected
    _, rows, bad = delivered(config)
    assert not bad and rows.keys() == expected.keys()
    for row, (tokens, mask) in expected.items():
        if len(tokens) <= 512:
            assert rows[row] == (tokens, weights_of(mask))


@pytest.mark.parametrize("kind", KINDS)
def test_sharegpt_is_the_same_conversation(tmp_path: Path, kind: str) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model", (TEMPLATES / "llama3.jinja").read_text())
    turns = conversations(40, seed=4)
    files = write_rows(tmp_path, kind, [{"conversations": as_sharegpt(one)} for one in turns])
    rows = stored(ol.job(chat_job(tmp_path, files, "sharegpt")), len(turns))
    assert rows == {row: reference(tokenizer, llama3, one) for row, one in enumerate(turns)}


@pytest.mark.parametrize("kind", KINDS)
def test_alpaca_is_a_question_and_an_answer(tmp_path: Path, kind: str) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    listed = [as_alpaca(one, place) for place, one in enumerate(conversations(40, seed=5))]
    files = write_rows(tmp_path, kind, listed)
    rows = stored(ol.job(chat_job(tmp_path, files, {"format": "alpaca", "template": "chatml"})), 40)
    assert rows == {
        row: reference(tokenizer, chatml, from_alpaca(one)) for row, one in enumerate(listed)
    }


def test_columns_of_alpaca_may_have_other_names_or_no_input(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    listed = [{"q": f"ask {i}", "a": f"say {i}"} for i in range(5)]
    chat = {
        "format": "alpaca",
        "template": "chatml",
        "columns": {"instruction": "q", "output": "a"},
    }
    for kind in KINDS:
        folder = tmp_path / kind
        files = write_rows(folder, kind, listed)
        config = {**chat_job(tmp_path, files, chat), "index_dir": str(folder / "index")}
        turns = from_alpaca({"instruction": "ask 3", "output": "say 3", "input": None})
        assert stored(ol.job(config), 5)[3] == reference(tokenizer, chatml, turns)


PART = pa.struct([("type", pa.string()), ("text", pa.string()), ("image", pa.string())])
PARTS = pa.schema(
    [("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(PART))])))]
)


def picture_talk(place: int) -> list[Message]:
    """A question with pictures between its texts."""
    parts = [{"type": "image"}, {"type": "text", "text": f"what is {place}?"}]
    if place % 2:
        parts += [{"type": "text", "text": " and this: "}, {"type": "image"}]
    answer = [{"type": "text", "text": f"picture {place}"}]
    return [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}]


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_that_is_an_image_becomes_the_templates_marker(tmp_path: Path, kind: str) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    turns = [picture_talk(place) for place in range(20)]
    files = write_rows(tmp_path, kind, [{"messages": one} for one in turns], PARTS)
    config = chat_job(tmp_path, files, {"template": str(TEMPLATES / "qwen2vl.jinja")})
    rows = stored(ol.job(config), 20)
    assert rows == {row: reference(tokenizer, qwen2vl, one) for row, one in enumerate(turns)}
    pad = tokenizer.token_to_id("<|image_pad|>")
    assert [tokens.count(pad) for tokens, _ in rows.values()] == [1, 2] * 10


def test_a_template_of_texts_gets_the_declared_marker(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    files = write_rows(tmp_path, "jsonl", [{"messages": picture_talk(1)}])
    chat = {"template": "chatml", "markers": {"image": "<image>"}}
    turns = [
        {"role": "user", "content": "<image>what is 1? and this: <image>"},
        {"role": "assistant", "content": "picture 1"},
    ]
    rows = stored(ol.job(chat_job(tmp_path, files, chat)), 1)
    assert rows[0] == reference(tokenizer, chatml, turns)
    without = chat_job(tmp_path, files, {"template": "chatml"})
    without["index_dir"] = str(tmp_path / "other")
    row = ol.job(without).open_stream().native.read_row(0, 0, worker_command())
    assert "message 0 (user) has a part of type image" in row["bad"]


@pytest.mark.parametrize("kind", KINDS)
def test_tools_and_calls_reach_the_template(tmp_path: Path, kind: str) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    tool = {"type": "function", "function": {"name": "add", "arity": 2}}
    call = {"function": {"name": "add", "arguments": '{"a": 1}'}}
    turns = [
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "2"},
        {"role": "assistant", "content": "two"},
    ]
    files = write_rows(tmp_path, kind, [{"messages": turns, "tools": [tool]}])
    chat = {"template": str(TEMPLATES / "tools.jinja"), "tools": "tools"}
    called = "[call] " + json.dumps(call["function"], ensure_ascii=False)
    pieces = [
        ("<|im_start|>system\n" + json.dumps([tool]) + "<|im_end|>\n", False),
        ("<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n", False),
        (called + "<|im_end|>", True),
        ("\n<|im_start|>tool\n2<|im_end|>\n<|im_start|>assistant\n", False),
        ("two<|im_end|>", True),
        ("\n", False),
    ]
    rows = stored(ol.job(chat_job(tmp_path, files, chat)), 1)
    assert rows[0] == tokens_and_mask(tokenizer, pieces)


def test_all_tokens_may_carry_loss(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    turns = conversations(30, seed=6)
    files = write_rows(tmp_path, "jsonl", [{"messages": one} for one in turns])
    config = chat_job(tmp_path, files, {"template": "chatml", "loss": "all"})
    _, rows, _ = delivered(config)
    for row, one in enumerate(turns):
        tokens, _ = reference(tokenizer, chatml, one)
        assert rows[row] == (tokens, [1] * (len(tokens) - 1) + [0])


def broken(place: int, turns: list[Message]) -> tuple[dict[str, Any], str]:
    """A row with a fault, and a part of the reason it must be given."""
    question, answer = turns[-2], turns[-1]
    faults: list[tuple[Any, str]] = [
        ({"messages": [{"role": "narrator", "content": "x"}, answer]}, "unknown role 'narrator'"),
        ({"messages": [question, {"role": "assistant"}]}, "message 1 (assistant) has no content"),
        ({"messages": [question, question, answer]}, "roles must alternate"),
        ({"messages": []}, "empty list"),
        ({"messages": [question]}, "has no answer"),
        ({"messages": [{**question, "content": " "}, answer]}, "message 0 (user) is empty"),
        ({"messages": "[{"}, "is no JSON"),
        ({"other": 1}, "'messages' is missing"),
        ({"messages": [question, {"role": "assistant", "content": 5}]}, "neither text nor"),
    ]
    return faults[place % len(faults)]


def with_faults(folder: Path, count: int, every: int) -> tuple[str, list[Any], dict[int, str]]:
    turns = conversations(count, seed=8, system=False)
    rows, reasons = [{"messages": one} for one in turns], {}
    for place, row in enumerate(range(7, count, every)):
        rows[row], reasons[row] = broken(place, turns[row])
    return write_rows(folder, "jsonl", rows), turns, reasons


def test_broken_rows_are_named_and_the_others_come_once(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path / "model")
    files, turns, reasons = with_faults(tmp_path, 900, every=100)
    chat = {"template": str(TEMPLATES / "mistral.jinja")}
    config = chat_job(tmp_path, files, chat, bad_rows_allowed=20, over_length="truncate")
    digest, rows, bad = delivered(config)
    assert bad.keys() == reasons.keys() == {7 + 100 * place for place in range(9)}
    for row, part in reasons.items():
        assert part in bad[row] and f"row {row}" in bad[row]
    assert rows.keys() == set(range(900)) - reasons.keys()
    for row, one in rows.items():
        tokens, mask = reference(tokenizer, mistral, turns[row])
        assert one == (tokens, weights_of(mask)) or len(tokens) > 512
    # An index that counted the tokens knows the same bad rows, and gives the same stream.
    counted = {**config, "index_dir": str(tmp_path / "counted")}
    count_tokens(counted)
    again, _, same = delivered(counted)
    assert again == digest and same == bad


def test_one_broken_row_over_the_budget_ends_the_run(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    files, _, _ = with_faults(tmp_path, 20, every=100)
    chat = {"template": str(TEMPLATES / "mistral.jinja")}
    with pytest.raises(ol.OverlordError, match="unknown role 'narrator'"):
        delivered(chat_job(tmp_path, files, chat))


def test_every_engine_and_a_resumed_run_give_the_same_stream(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    files, _, _ = with_faults(tmp_path, 300, every=60)
    chat = {"template": str(TEMPLATES / "mistral.jinja")}
    config = chat_job(tmp_path, files, chat, bad_rows_allowed=20, over_length="truncate")
    one = delivered(config)
    assert delivered(config, engine="processes") == one
    _, rest, _ = delivered(config, after=4)
    assert 0 < len(rest) < len(one[1])
    assert rest.items() <= one[1].items()


def test_another_template_is_another_source(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    turns = conversations(30, seed=9, system=False)
    files = write_rows(tmp_path, "jsonl", [{"messages": one} for one in turns])
    config = chat_job(tmp_path, files, {"template": "chatml", "loss": "all"})
    count_tokens(config)
    other = chat_job(tmp_path, files, {"template": str(TEMPLATES / "mistral.jinja"), "loss": "all"})
    assert not delivered(other)[2]  # counted anew: no length of the first one's
    count_tokens(other)
    assert not delivered(other)[2]


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ({"bos": 1}, "chat template decides where"),
        ({"eod": 2}, "chat template decides where"),
        ({"tokenizer": "bytes"}, "kind huggingface"),
        ({"tokenizer": "adding"}, "add_special_tokens"),
        ({"text": "t"}, "says already what a row is"),
        ({"transform": "a:b"}, "conversations"),
        ({"chat": {"format": "alpaca", "column": "x"}}, "format alpaca has none"),
        ({"chat": {"date": "2026-13-01"}}, "date"),
        ({"chat": "instruct"}, "messages"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, source: Any, part: str) -> None:
    chat_tokenizer(tmp_path / "model")
    config = chat_job(tmp_path, "rows.jsonl", {"template": "chatml"})
    config["sources"]["sft"].update(source)
    path = config["tokenizers"]["own"]["path"]
    config["tokenizers"]["adding"] = {"path": path, "add_special_tokens": True}
    with pytest.raises(ol.ConfigError, match=part):
        ol.job(config)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "no chat template lies beside"),
        ("{% for m in messages %}", "cannot be used: line 1"),
        ("{{ strftime_now('%Y') }}", "today's date"),
        ("{% for m in messages %}{{ m.content if loop.last }}{% endfor %}", "no prefix"),
        ("x" * 200_000, "too long"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_at_once(
    tmp_path: Path, text: str | None, part: str
) -> None:
    chat_tokenizer(tmp_path / "model", text)
    files = write_rows(tmp_path, "jsonl", [{"messages": one} for one in conversations(3, seed=1)])
    with pytest.raises(ol.ConfigError, match=part):
        ol.job(chat_job(tmp_path, files, "messages")).open_stream()


def test_a_fixed_date_stands_for_today(tmp_path: Path) -> None:
    dated = "{% for m in messages %}{{ m.content }}{% endfor %}{{ strftime_now('%d %B %Y') }}"
    tokenizer = chat_tokenizer(tmp_path / "model", dated)
    files = write_rows(tmp_path, "jsonl", [{"messages": conversations(1, seed=1)[0]}])
    config = chat_job(tmp_path, files, {"date": "2026-01-02", "loss": "all"})
    tokens, _ = stored(ol.job(config), 1)[0]
    assert tokenizer.decode(tokens).endswith("02 January 2026")


def test_without_jinja_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_tokenizer(tmp_path / "model")
    files = write_rows(tmp_path, "jsonl", [{"messages": one} for one in conversations(3, seed=1)])
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "overlord._workers.chat_template", raising=False)
    monkeypatch.delattr("overlord._workers.chat_template", raising=False)
    with pytest.raises(ol.ConfigError, match=r"overlord-data\[chat\]"):
        ol.job(chat_job(tmp_path, files, {"template": "chatml"})).open_stream()


def test_a_column_with_bytes_is_refused(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "model")
    schema = pa.schema(
        [("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.binary())])))]
    )
    rows = [{"messages": [{"role": "user", "content": b"x"}]}]
    files = write_rows(tmp_path, "parquet", rows, schema)
    with pytest.raises(ol.OverlordError, match="'messages' has binary in it"):
        ol.job(chat_job(tmp_path, files, {"template": "chatml"})).open_stream()


def test_rendering_is_what_transformers_does(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    for name in ("llama3", "tools", "qwen2vl"):
        text = (TEMPLATES / f"{name}.jinja").read_text()
        chat_tokenizer(tmp_path / "model", text)
        own = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
        turns = conversations(20, seed=2)
        dated = {"date_string": "26 Jul 2024"} if name == "llama3" else {}  # else it is today's
        folder = tmp_path / name
        files = write_rows(folder, "jsonl", [{"messages": one} for one in turns])
        config = {**chat_job(tmp_path, files, "messages"), "index_dir": str(folder / "index")}
        rows = stored(ol.job(config), 20)
        for row, one in enumerate(turns):
            assert rows[row][0] == own.apply_chat_template(one, return_dict=False, **dated)


def test_weights_are_those_of_the_answers_alone(tmp_path: Path) -> None:
    """The count that trainers divide by is the number of answer tokens."""
    tokenizer = chat_tokenizer(tmp_path / "model")
    turns = conversations(40, seed=11)
    files = write_rows(tmp_path, "parquet", [{"messages": one} for one in turns])
    config = chat_job(tmp_path, files, {"template": "chatml"}, over_length="drop")
    fitting = [reference(tokenizer, chatml, one) for one in turns]
    expected = sum(sum(mask[1:]) for tokens, mask in fitting if len(tokens) <= 512)
    with ol.job(config).train(rank=0) as loader:
        counted = sum(int(np.count_nonzero(batch.loss_weights)) for batch in loader)
    assert counted == expected


def test_the_example_is_a_config_that_is_understood(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "sft_messages.yaml"
    (tmp_path / "sft.yaml").write_text(example.read_text().replace("151936", "500"))
    chat_tokenizer(tmp_path / "model", (TEMPLATES / "llama3.jinja").read_text())
    turns = conversations(80, seed=12)
    write_rows(tmp_path / "data", "parquet", [{"messages": one} for one in turns])
    (tmp_path / "data" / "rows.parquet").rename(tmp_path / "data" / "talks-0.parquet")
    asked = [{"instruction": f"ask {i}", "context": "it", "response": f"{i}"} for i in range(40)]
    write_rows(tmp_path / "data", "jsonl", asked)
    (tmp_path / "data" / "rows.jsonl").rename(tmp_path / "data" / "instructions.jsonl")
    with ol.job(tmp_path / "sft.yaml").train(rank=0) as loader:
        batch = next(loader)
        weights = np.asarray(batch.loss_weights)
    assert 0 < np.count_nonzero(weights) < batch.num_tokens


def test_inspect_shows_what_carries_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat_tokenizer(tmp_path / "model")
    turns = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "two"}]
    files = write_rows(tmp_path, "jsonl", [{"messages": turns}])
    config = chat_job(tmp_path, files, {"template": "chatml"})
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(config))
    assert main(["inspect", str(path), "sample", "sft", "0"]) == 0
    shown = capsys.readouterr().out
    assert "⟦two<|im_end|>⟧" in shown and "tokens carry loss" in shown
    assert main(["inspect", str(path), "sources"]) == 0
    assert "chat: messages" in capsys.readouterr().out
