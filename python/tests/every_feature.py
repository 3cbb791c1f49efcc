"""What a job may use, each as a small job of two ranks; and on which engines it runs.

`python python/tests/every_feature.py` prints the table of docs/engines.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from chat_rows import chat_job, chat_tokenizer, conversations, write_rows
from corpora import json_lines, made_up_texts
from overlord.strategy import to_yaml
from planned import with_functions
from test_golden_media import PICTURE_CHAINS, PICTURES, media_config

import overlord as ol
from overlord import hdp

STEPS = 6
MESH = {"dp": 2}
WHOLE, PER_RANK, PROCESSES, HOSTS, RAY = ENGINES = (
    "embedded, one process",
    "embedded, one per rank",
    "processes",
    "several hosts",
    "Ray",
)
Config = dict[str, Any]
TWO_PLANNERS = "each process plans for itself, and could be told other things than the others"


@dataclass(frozen=True)
class Feature:
    """`told`: to trainers. `refused`: by engine, why, and what the error says."""

    config: Callable[[Config, Path], Config]
    told: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)


def _declared(config: Config, strategy: Any, **top: Any) -> Config:
    return {**config, "strategy": yaml.safe_load(to_yaml(strategy))["strategy"], **top}


def _following(kind: str) -> Callable[[Config, Path], Config]:
    def config_of(config: Config, folder: Path) -> Config:
        schedule = {"kind": kind, "version": 1} if kind == "rule" else {"kind": kind}
        feedback = {"delay": 2, "reporters": [0, 1]}
        mixture = {**config["mixture"], "schedule": schedule, "feedback": feedback}
        return {**config, "mixture": mixture}

    return config_of


def _windows(config: Config, folder: Path) -> Config:
    cost = ol.cost.quadratic(1, 0).to_dict()
    return {**config, "window": {"steps": 3, "max_delay": 2, "width": 16, "cost": cost}}


def _hybrid(config: Config, folder: Path) -> Config:
    model = hdp.Model(square_fs=90_000, token_fs=2_000_000_000, capacity=192)

    def strategy(graph: Any, tree: Any) -> Any:
        return graph.tokens().distribute(tree.cp).hybrid(model).plan()

    return _declared(config, strategy, align=4)


def _encoders(config: Config, folder: Path) -> Config:
    def strategy(graph: Any, tree: Any) -> Any:
        text = graph.tokens().distribute(tree.dp).cost(ol.cost.quadratic(1, 512))
        text.balance("lpt_search")
        media = graph.module("speech", column="tokens").distribute("dp")
        media.cost(ol.cost.quadratic(2, 64)).balance("lpt_search").output(bytes_per_unit=8)
        return media.plan(), text.plan()

    return _declared(config, strategy)


def _rebuild(config: Config, folder: Path) -> Config:
    return {**config, "runtime": {**config["runtime"], "runway": 2, "prefetch": 1}}


def _transforms(config: Config, folder: Path) -> Config:
    (folder / "texts.jsonl").write_bytes(json_lines({"t": text} for text in made_up_texts(300, 2)))
    source = {"files": str(folder / "texts.jsonl"), "text": "t", "tokenizer": "bytes"}
    return _over(config, {**source, "transform": "own_transforms:loud"})


def _over(config: Config, source: dict[str, Any], **top: Any) -> Config:
    return {**config, "sources": {"one": source}, "mixture": {"weights": {"one": 1}}, **top}


def _media(config: Config, folder: Path) -> Config:
    chain = PICTURE_CHAINS["exact to patches"]
    made = media_config(folder, "image", PICTURES, chain, steps=STEPS)
    return {**made, "runtime": config["runtime"]}


def _chat(config: Config, folder: Path) -> Config:
    chat_tokenizer(folder / "model")
    rows = [{"messages": messages} for messages in conversations(120, seed=4)]
    files = write_rows(folder / "chat", "jsonl", rows)
    made = chat_job(folder, files, {"template": "chatml"}, over_length="drop")
    return {**made, "bins": 4, "steps": STEPS, "at_end": "repeat", "runtime": config["runtime"]}


def _quarantine(config: Config, folder: Path) -> Config:
    rows = [[7] * (20 + row % 50) + [5000] * (row % 40 == 0) for row in range(300)]
    table = pa.table({"tokens": pa.array(rows, pa.list_(pa.int32()))})
    pq.write_table(table, folder / "some-bad.parquet", row_group_size=50)
    source = {"files": str(folder / "some-bad.parquet"), "tokens": "tokens"}
    return _over(config, {**source, "bad_rows_allowed": 20})


_ONE_PLANNER = {PER_RANK: (TWO_PLANNERS, r"one planner that (hears|asks)")}
FEATURES = {
    "plain": Feature(lambda config, folder: config),
    "mixtures by losses": Feature(_following("odm"), {"reports": [0, 1]}, _ONE_PLANNER),
    "mixtures by a rule": Feature(
        _following("rule"), {"reports": [0, 1], "rule": "more_of_the_worst"}, _ONE_PLANNER
    ),
    "Python costs and balancers": Feature(
        lambda config, folder: with_functions(config),
        {"functions": ["quadratic", "heaviest_first"]},
        _ONE_PLANNER,
    ),
    "windows": Feature(_windows),
    "hybrid data parallelism": Feature(_hybrid),
    "encoders with owners": Feature(_encoders),
    "another mesh while it runs": Feature(
        _rebuild,
        {"rebuild": {"tp": 2}},
        {PER_RANK: (TWO_PLANNERS, "the one planner that serves all ranks")},
    ),
    "transforms": Feature(_transforms),
    "media": Feature(_media),
    "chat": Feature(_chat),
    "quarantine": Feature(_quarantine),
}


def made(name: str, config: Config, folder: Path) -> Config:
    """The feature's own small job, over the sources of `config` or its own."""
    small = replace(FEATURES[name]).config({**config, "steps": STEPS, "align": 4}, folder)
    return {**small, "job": "every"}


def table() -> str:
    """Who runs where, as the docs show it; reasons of refusals stand below."""
    lines = ["| | " + " | ".join(ENGINES) + " |", "|---" * (len(ENGINES) + 1) + "|"]
    reasons: dict[str, int] = {}
    for name, feature in FEATURES.items():
        cells = []
        for engine in ENGINES:
            why = feature.refused.get(engine)
            cells.append(
                "yes" if why is None else f"no ({reasons.setdefault(why[0], len(reasons) + 1)})"
            )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", *(f"{number}. {why}." for why, number in reasons.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
