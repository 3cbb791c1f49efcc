"""Conversations for tests: a tokenizer that knows chat tokens, rows, and what they must become.

What a template makes of a conversation is written out here by hand, as pieces of text that carry
loss or not: nothing of the code under test, and no Jinja, is behind it.
"""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from corpora import json_lines, made_up_texts

TEMPLATES = Path(__file__).parent / "chat_templates"
SPECIAL = [
    *("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "[INST]", "[/INST]"),
    *("<|start_header_id|>", "<|end_header_id|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|image_pad|>", "<|video_pad|>", "<image>"),
]
VOCABULARY = 500
Piece = tuple[str, bool]  # a text, and whether it carries loss
Message = dict[str, Any]


def chat_tokenizer(folder: Path, template: str | None = None) -> Any:
    """A byte-level BPE in a folder as models are published in, with a template beside it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[AddedToken(token, normalized=False) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(made_up_texts(300, seed=1), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {
        "bos_token": {"__type": "AddedToken", "content": "<s>"},
        "eos_token": "</s>",
    }
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer


def conversations(count: int, seed: int, system: bool = True) -> list[list[Message]]:
    """Made-up conversations of one to four questions, each answered."""
    dice = random.Random(seed)
    texts = [text.strip() or "x" for text in made_up_texts(200, seed=seed)]
    texts += ["Grüße, 世界 🌍!", 'say "hi"\\n', "a\nb", "<tag> & {{ braces }}"]
    made = []
    for _ in range(count):
        turns = [{"role": "system", "content": dice.choice(texts)}] if dice.random() < 0.5 else []
        for _ in range(dice.randint(1, 4)):
            turns.append({"role": "user", "content": dice.choice(texts)})
            turns.append({"role": "assistant", "content": dice.choice(texts)})
        made.append(turns if system or turns[0]["role"] != "system" else turns[1:])
    return made


def chatml(messages: Sequence[Message]) -> list[Piece]:
    """What the built-in template must make of a conversation."""
    pieces = []
    for message in messages:
        answer = message["role"] == "assistant"
        pieces += [(f"<|im_start|>{message['role']}\n", False)]
        pieces += [(message["content"] + "<|im_end|>", answer), ("\n", False)]
    return pieces


def llama3(messages: Sequence[Message]) -> list[Piece]:
    """The same of llama3.jinja."""
    system, rest = "", list(messages)
    if rest[0]["role"] == "system":
        system = rest.pop(0)["content"].strip()
    pieces: list[Piece] = [
        ("<s><|start_header_id|>system<|end_header_id|>\n\n", False),
        (f"Today Date: 26 Jul 2024\n\n{system}<|eot_id|>", False),
    ]
    for message in rest:
        pieces += [(f"<|start_header_id|>{message['role']}<|end_header_id|>\n\n", False)]
        pieces += [(message["content"].strip() + "<|eot_id|>", message["role"] == "assistant")]
    return pieces


def mistral(messages: Sequence[Message]) -> list[Piece]:
    """The same of mistral.jinja, for conversations without a system message."""
    pieces: list[Piece] = [("<s>", False)]
    for message in messages:
        if message["role"] == "user":
            pieces.append((f"[INST] {message['content']} [/INST]", False))
        else:
            pieces.append((f" {message['content']}</s>", True))
    return pieces


def qwen2vl(messages: Sequence[Message]) -> list[Piece]:
    """The same of qwen2vl.jinja; the line end behind an answer is part of it."""
    pieces = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            marks = {"image": "<|vision_start|><|image_pad|><|vision_end|>"}
            content = "".join(marks.get(part["type"], part.get("text")) for part in content)
        pieces += [(f"<|im_start|>{message['role']}\n", False)]
        pieces += [(content + "<|im_end|>\n", message["role"] == "assistant")]
    return pieces


def tokens_and_mask(tokenizer: Any, pieces: Sequence[Piece]) -> tuple[list[int], list[int]]:
    """Tokens of the joined pieces, and which of them have a character that carries loss."""
    text = "".join(piece for piece, _ in pieces)
    carries = [loss for piece, loss in pieces for _ in piece]
    encoded = tokenizer.encode(text, add_special_tokens=False)
    mask = [int(any(carries[begin:end])) for begin, end in encoded.offsets]
    return encoded.ids, mask


def as_sharegpt(messages: Sequence[Message]) -> list[dict[str, str]]:
    """The same conversation in ShareGPT's words."""
    names = {"user": "human", "assistant": "gpt", "system": "system"}
    return [{"from": names[turn["role"]], "value": turn["content"]} for turn in messages]


def as_alpaca(messages: Sequence[Message], place: int) -> dict[str, Any]:
    """The first question and answer; every third row has an input, and some have none at all."""
    question, answer = [turn["content"] for turn in messages if turn["role"] != "system"][:2]
    inputs: list[dict[str, Any]] = [{"input": "more"}, {"input": ""}, {"input": None}]
    return {"instruction": question, "output": answer, **inputs[place % 3]}


def from_alpaca(row: dict[str, Any]) -> list[Message]:
    """The conversation that an Alpaca row stands for."""
    question = row["instruction"] + (f"\n\n{row['input']}" if row["input"] else "")
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": row["output"]},
    ]


def json_members(rows: Sequence[dict[str, Any]]) -> bytes:
    """A tar in which every row is the json member of a sample."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for number, row in enumerate(rows):
            body = json.dumps(row).encode()
            member = tarfile.TarInfo(f"{number:06d}.json")
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return out.getvalue()


def write_rows(folder: Path, kind: str, rows: Sequence[dict[str, Any]], schema: Any = None) -> str:
    """A file of these rows; its name."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "jsonl":
        (folder / "rows.jsonl").write_bytes(json_lines(rows))
        return str(folder / "rows.jsonl")
    if kind == "webdataset":
        (folder / "rows.tar").write_bytes(json_members(rows))
        return str(folder / "rows.tar")
    table = pa.Table.from_pylist(list(rows), schema=schema)
    if kind == "arrow":
        with pa.ipc.new_file(folder / "rows.arrow", table.schema) as out:
            out.write_table(table, max_chunksize=64)
        return str(folder / "rows.arrow")
    pq.write_table(table, folder / "rows.parquet", row_group_size=64)
    return str(folder / "rows.parquet")


def chat_job(folder: Path, files: str, chat: Any, **source: Any) -> dict[str, Any]:
    """A job over one source of conversations, with the tokenizer in `folder`/model."""
    return {
        "job": "chat",
        "seed": 7,
        "context": 512,
        "bins": 2,
        "vocabulary": VOCABULARY,
        "at_end": "stop",
        "index_dir": str(folder / "index"),
        "tokenizers": {"own": {"path": str(folder / "model" / "tokenizer.json")}},
        "mixture": {"weights": {"sft": 1}},
        "sources": {"sft": {"files": files, "chat": chat, "tokenizer": "own", **source}},
    }


Reference = Callable[[Sequence[Message]], list[Piece]]
