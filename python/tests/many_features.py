"""Jobs that ask for many features at once: so few nodes, clusters and hosts are started to try all
of them on every engine. What a job holds is tested where its features are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from chat_rows import chat_tokenizer, conversations
from corpora import json_lines, made_up_texts
from planned import placed_by, with_functions
from read_acts import Act
from test_media_stream import CHAIN, PAD, TOKENS, made_up_pairs, pairs_config

import overlord as ol
from overlord import hdp

Config = dict[str, Any]
OWN = '''
"""Functions of a user, beside the config."""

import numpy as np
import overlord as ol


@ol.transform(version="1")
def loud(rows):
    return [None if row.endswith("7") else row.upper() for row in rows]


@ol.transform(version="1", lane="thread")
def loud_thread(rows):
    return [None if row.endswith("7") else row.upper() for row in rows]


@ol.source(version="1")
class Numbers:
    def rows(self):
        return 70

    def read(self, rows):
        return [None if row == 17 else f"row {row} of my own" for row in rows]


@ol.transform(version="1")
def frail(rows):
    if any(row.endswith("7") for row in rows):
        raise ValueError("no seven")
    return rows


@ol.transform(version="1")
def invert(items):
    return [255 - item["data"] for item in items]


@ol.transform(version="1")
def mask_some(batches):
    out = []
    for batch in batches:
        chosen = np.random.default_rng(batch["key"]).random(batch["tokens"].shape) < 0.2
        out.append({"tokens": np.where(chosen, 3, batch["tokens"]).astype(batch["tokens"].dtype)})
    return out
'''
# Every process of Python costs a third of a second.
OWN_LOUD = {"function": "own_everywhere:loud", "workers": 1}
SERVED = {"broadcast": ["tp"], "readers": "fields"}  # the trainer hands on along tp
FRUGAL = {"tokenizer_processes": 1, "threads": 2}
MODEL = hdp.Model(
    square_fs=90_000,
    token_fs=2_000_000_000,
    capacity=72,
    layers=4,
    activation_token_bytes=1000,
    to_host_per_s=10**9,
    from_host_per_s=10**9,
    ring_token_bytes=100,
    ring_per_s=10**9,
)


@dataclass(frozen=True)
class Features:
    """A job, and what ranks are told besides."""

    acts: list[Act]
    mesh: dict[str, int]
    readers: list[int] | None = None  # ranks that read, where not all do
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> dict[str, Any]:
        return {**self.told, "mesh": self.mesh, "acts": self.acts}


def token_rows(path: Path, rows: int, longest: int, seed: int, groups: bool = False) -> None:
    """Ready tokens; `groups`: two or three rows to a prompt."""
    dice = np.random.default_rng(seed)
    tokens = [dice.integers(1, 400, dice.integers(3, longest)) for _ in range(rows)]
    columns = {"tokens": pa.array(tokens, pa.list_(pa.int32()))}
    if groups:
        columns["prompt"] = pa.array(np.repeat(np.arange(rows), 3)[:rows], pa.int64())
    pq.write_table(pa.table(columns), path, row_group_size=64)


def written(folder: Path) -> Path:
    """All files that jobs read."""
    token_rows(folder / "code.parquet", 400, 60, 1)
    token_rows(folder / "books.parquet", 60, 200, 2)
    token_rows(folder / "pairs.parquet", 240, 20, 3, groups=True)
    texts = made_up_texts(150, seed=4)
    (folder / "web.jsonl").write_bytes(json_lines({"t": text} for text in texts))
    chat_tokenizer(folder / "model")
    turns = [{"messages": turn} for turn in conversations(60, seed=9)]
    turns[7] = {"messages": [{"role": "user"}]}
    (folder / "talk.jsonl").write_bytes(json_lines(turns))
    choices = [{"prompt": f"{n}? ", "chosen": "yes " * (n % 5), "rejected": "no"} for n in range(60)]
    (folder / "choices.jsonl").write_bytes(json_lines(choices))  # every fifth is none
    (folder / "own_everywhere.py").write_text(OWN)
    (folder / "pictures").mkdir()
    return folder


def base(folder: Path, name: str, weights: Config, sources: Config, **top: Any) -> Config:
    return {
        "job": name,
        "seed": 5,
        "context": 64,
        "bins": 8,
        "vocabulary": 1000,
        "at_end": "repeat",
        "index_dir": str(folder / "index"),
        "mixture": {"weights": weights},
        "sources": sources,
        "runtime": FRUGAL,
        **top,
    }


def tokens_of(folder: Path, name: str, **source: Any) -> Config:
    return {"files": str(folder / f"{name}.parquet"), "tokens": "tokens", **source}


def plain(folder: Path, name: str, **top: Any) -> Config:
    """Two sources of ready tokens."""
    sources = {item: tokens_of(folder, item) for item in ("books", "code")}
    return base(folder, name, {"books": 1, "code": 2}, sources, context=256, align=8, **top)


def rows(folder: Path) -> Features:
    """Three stages of `bins`, which are others at a resume; groups in weights; parts, of which one
    is read again; a part of a pass; rows that stay together."""
    parts = {"split": {"train": 0.8, "valid": 0.2}}
    sources = {
        "books": tokens_of(folder, "books"),
        "code": tokens_of(folder, "code", **parts),
        "pairs": tokens_of(folder, "pairs", metadata=["prompt"], group_by="prompt", **parts),
    }
    inner = {"weight": 1, "of": {"books": 1}}
    weights = {"pairs": 1, "long": {"weight": 2, "of": {"code": 2, "others": inner}}}
    config = base(
        folder,
        "rows",
        weights,
        sources,
        context=256,
        over_length="drop",
        at_end="drop",
        leftover="drop_last",
        bins=[
            {"steps": [0, 1], "bins": 4},
            {"steps": [1, 3], "bins": 8},
            {"steps": [3, None], "bins": 4},
        ],
        streams={
            "valid": {
                "bins": 4,
                "leftover": "drain",
                "mixture": {"weights": {"code": 1, "pairs": 1}},
            }
        },
    )
    config["mixture"]["max_passes"] = {"books": 0.5}
    other = {**config, "bins": 8, "delivery": {"microbatch_size": 2}}
    acts = [
        {"config": config, "stream": "train", "steps": 4},
        {"config": other, "stream": "train", "resumes": True, "allow": ["batch"]},
        {"config": config, "stream": "valid", "readings": 2},
    ]
    return Features(acts, {"dp": 2})


def texts(folder: Path) -> Features:
    """Texts, conversations and preferences, some of them bad, a transform that drops some, rows of a
    reader of Python, a function over microbatches, and sequences balanced by their cost."""
    text = {"files": str(folder / "web.jsonl"), "text": "t", "tokenizer": "bytes", "eod": 2}
    talk = {"files": str(folder / "talk.jsonl"), "chat": {"template": "chatml"}, "tokenizer": "own"}
    sources = {
        "web": {**text, "transform": OWN_LOUD, "bad_rows_allowed": 99},
        "talk": {**talk, "bad_rows_allowed": 9},
        "choices": {
            "files": str(folder / "choices.jsonl"),
            "chat": {"format": "preference", "template": "none"},
            "tokenizer": "own",
            "bad_rows_allowed": 99,
        },
        "numbers": {
            "reader": {"function": "own_everywhere:Numbers", "workers": 1},
            "text": "text",
            "tokenizer": "bytes",
            "bad_rows_allowed": 1,
        },
    }
    config = base(
        folder,
        "texts",
        {"web": 1, "talk": 2, "choices": 1, "numbers": 1},
        sources,
        context=512,
        over_length="drop",
        at_end="drop",
        tokenizers={"own": {"path": str(folder / "model" / "tokenizer.json")}},
        batch_transform={"function": "own_everywhere:mask_some", "workers": 1},
        strategy={"cost": ol.cost.quadratic(1, 512).to_dict(), "balance": {"method": "lpt"}},
    )
    return Features([{"config": config, "stream": "train"}], {"dp": 2})


def media(folder: Path) -> Features:
    """Pictures in a tar, some of which do not decode, through a function, and pictures that rows
    name; encoders with owners."""
    samples = made_up_pairs(24)
    with_png = [row for row, sample in enumerate(samples) if "png" in sample]
    samples[with_png[1]]["png"] = samples[with_png[1]]["png"][:-30]
    image = {"from": ["png", "jpg"], "transform": CHAIN, "tokens": TOKENS}
    config = pairs_config(folder / "pictures", samples, bins=8)
    config["sources"]["s"]["media"] = {
        "image": {**image, "function": "own_everywhere:invert"},
        "beside": {"from": ["webp"], "transform": CHAIN, "tokens": {"pad": PAD - 1}},
    }
    rows = []
    for row, sample in enumerate(made_up_pairs(9, seed=8)):
        picture = sample.get("png") or sample.get("jpg")
        if picture is not None:
            (folder / "pictures" / f"{row}.img").write_bytes(picture)
        rows.append({"text": sample["txt"].decode(), "image": picture and f"{row}.img"})
    (folder / "named.json").write_text(json.dumps(rows))
    config["sources"]["named"] = {
        "files": str(folder / "named.json"),
        "text": "text",
        "tokenizer": "bytes",
        "media": {"image": {**image, "from": "image", "root": str(folder / "pictures")}},
        "over_length": "drop",
    }
    config["mixture"]["weights"]["named"] = 1
    config |= {"job": "media", "strategy": {"encoder": {"column": "image_patches"}}}
    return Features([{"config": config, "stream": "train"}], {"dp": 2})


def functions(folder: Path) -> Features:
    """A cost and a balancer in Python, and a transform that cannot bear some rows."""
    text = {"files": str(folder / "web.jsonl"), "text": "t", "tokenizer": "bytes", "eod": 2}
    frail = {"function": "own_everywhere:frail", "workers": 1}
    config = with_functions(plain(folder, "functions", over_length="drop", at_end="drop"))
    config["sources"]["web"] = {**text, "transform": frail, "bad_rows_allowed": 99}
    config["mixture"]["weights"]["web"] = 1
    told = {"functions": ["quadratic", "heaviest_first"]}
    return Features([{"config": config, "stream": "train"}], {"dp": 2, "tp": 2}, told=told)


def raw(folder: Path) -> Features:
    """Whole plans in Python; the trainer broadcasts, and half of the ranks do not read."""
    config = placed_by(plain(folder, "raw", steps=6))
    config["delivery"] = SERVED
    told = {"functions": ["last_first"]}
    mesh = {"dp": 2, "tp": 2}
    return Features([{"config": config, "stream": "train"}], mesh, readers=[0, 2], told=told)


def losses(folder: Path, kind: str) -> Features:
    """The mixture follows what two ranks report."""
    sources = {"code": tokens_of(folder, "code"), "web": tokens_of(folder, "books")}
    config = base(folder, kind, {"code": 1, "web": 1}, sources, context=256, steps=10)
    schedule: Config = {"kind": kind}
    told: Config = {"reports": [0, 1]}
    if kind == "rule":
        schedule["version"] = 1
        told["rule"] = True
    config["mixture"] |= {"schedule": schedule, "feedback": {"delay": 3, "reporters": [0, 1]}}
    return Features([{"config": config, "stream": "train"}], {"dp": 2}, told=told)


def samples(folder: Path) -> Features:
    """Samples dealt one by one, out of windows of steps, to all kinds of axes; half of the ranks do
    not read."""
    cost = ol.cost.quadratic(1, 512).to_dict()
    config = plain(folder, "samples", steps=6)
    config |= {
        "window": {"steps": 3, "max_delay": 2, "width": 4, "cost": cost},
        "strategy": {
            "cost": cost,
            "balance": {"method": "lpt_search", "atoms": "samples"},
            "order": {"method": "search"},
        },
        "delivery": SERVED,
    }
    acts = [
        {"config": config, "stream": "train", "steps": 2},
        {"config": config, "stream": "train", "resumes": True},
    ]
    return Features(acts, {"pp": 2, "dp": 1, "cp": 2, "tp": 2}, readers=[0, 2, 4, 6])


def hybrid(folder: Path) -> Features:
    """Long documents over as many ranks as they need; loaders that come and go at every step."""
    config = plain(folder, "hybrid", steps=4)
    config["sources"]["code"] |= {"most_loaders": 2, "window_rows": 16}
    config["strategy"] = {"distribute": {"axis": "cp"}, "hybrid": {"model": MODEL.to_dict()}}
    act = {"config": config, "stream": "train"}
    return Features([act], {"dp": 2, "cp": 2}, told={"sizes": {"code": 1}})


JOBS: dict[str, Callable[[Path], Features]] = {
    "rows": rows,
    "texts": texts,
    "media": media,
    "functions": functions,
    "raw": raw,
    "odm": lambda folder: losses(folder, "odm"),
    "rule": lambda folder: losses(folder, "rule"),
    "samples": samples,
    "hybrid": hybrid,
}
ENGINES = ("alone", "processes", "hosts")
# Each process of an embedded engine plans for itself, so these are refused there.
ONE_PLANNER = ("functions", "raw", "odm", "rule")
TRIED = [
    (name, engine)
    for name in JOBS
    for engine in ENGINES
    if (engine, name) not in {("alone", refused) for refused in ONE_PLANNER}
]


def on_host(features: Features, folder: Path, host: int, runtime: Config) -> Iterator[Act]:
    """The acts as a host reads them: configs in files, with what is its own in `runtime`."""
    for number, act in enumerate(features.acts):
        config = {**act["config"], "runtime": {**act["config"].get("runtime", {}), **runtime}}
        path = folder / f"{config['job']}-{number}-{host}.yaml"
        path.write_text(json.dumps(config))
        yield {**act, "config": str(path)}
