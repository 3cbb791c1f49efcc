"""Rows of a source divided among streams for ever, and rows that stay together."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delivered import content
from overlord._src.config.reading import read_config
from overlord._src.index import indexing

import overlord as ol

ENGINES = ["embedded", "processes"]
JOINED = 2  # in the flags of a lineage row


def write_rows(path: Path, first: int, rows: int, prompts: list[int] | None = None) -> None:
    """Row i has the tokens i % 30000, i // 30000 and some more; its prompt beside them."""
    dice = np.random.default_rng(first)
    tokens = [
        [row % 30000, row // 30000, *dice.integers(1, 1000, dice.integers(3, 30))]
        for row in range(first, first + rows)
    ]
    columns = {"tokens": pa.array(tokens, pa.list_(pa.int32()))}
    if prompts is not None:
        columns["prompt"] = pa.array(prompts, pa.int64())
    pq.write_table(pa.table(columns), path, row_group_size=37)


def index_lengths(config: dict[str, Any]) -> None:
    """What makes the length of a stream known."""
    indexing.build_indexes(read_config(config), ol.job(config).open_stream().sources, lengths=True)


def rows_read(loader: Any) -> list[int]:
    """Which rows' documents begin in its microbatches, in order."""
    found = []
    for batch in loader:
        for begin, row in zip(batch.cu_seqlens_padded, batch.lineage(), strict=False):
            if row["first"] == 0:
                tokens = batch.tokens.reshape(-1)[begin : begin + 2]
                found.append(int(tokens[0]) + 30000 * int(tokens[1]))
    return found


@pytest.fixture
def divided(tmp_path: Path, sockets: Path) -> dict[str, Any]:
    """Three streams over one source of 2000 rows in two files."""
    write_rows(tmp_path / "a-0.parquet", 0, 1000)
    write_rows(tmp_path / "a-1.parquet", 1000, 1000)
    return {
        "job": "divided",
        "seed": 3,
        "context": 64,
        "bins": 4,
        "vocabulary": 32000,
        "at_end": "drop",
        "packing": {"method": "pad"},
        "index_dir": str(tmp_path / "index"),
        "mixture": {"weights": {"web": 1}},
        "sources": {
            "web": {
                "files": str(tmp_path / "a-*.parquet"),
                "tokens": "tokens",
                "split": {"train": 0.9, "valid": 0.08, "test": 0.02},
            }
        },
        "streams": {"valid": {}, "test": {"bins": 1}},
        "runtime": {"processes": {"directory": str(sockets)}},
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_parts_are_disjoint_whole_and_stay_so_when_shards_are_added(
    divided: dict[str, Any], tmp_path: Path, engine: str
) -> None:
    def parts() -> dict[str, list[int]]:
        job = ol.job(divided)
        out = {}
        for name in ("train", "valid", "test"):
            with job.stream(name, engine=engine) as loader:
                out[name] = rows_read(loader)
                assert len(out[name]) == len(set(out[name]))
        return out

    before = parts()
    assert sorted(itertools.chain(*before.values())) == list(range(2000))
    sizes = {name: len(rows) for name, rows in before.items()}
    assert 1740 < sizes["train"] < 1860 and 110 < sizes["valid"] < 210 and 15 < sizes["test"] < 70
    write_rows(tmp_path / "a--1.parquet", 5000, 500)  # listed in front of the others
    divided |= {"seed": 4, "index_dir": str(tmp_path / "another")}
    after = parts()
    assert sorted(itertools.chain(*after.values())) == [*range(2000), *range(5000, 5500)]
    for name, rows in before.items():
        assert set(rows) <= set(after[name]), f"a row has left {name}"


def test_a_stream_may_say_which_part_it_reads(divided: dict[str, Any]) -> None:
    divided["streams"]["again"] = {"part": "valid"}
    divided["sources"]["web"]["split"] = "900,80,20"
    with ol.job(divided).valid() as unknown, pytest.raises(TypeError, match="index --lengths"):
        len(unknown)
    index_lengths(divided)
    job = ol.job(divided)
    with job.valid() as valid, job.stream("again") as again, job.valid() as packed:
        assert sorted(rows_read(valid)) == sorted(rows_read(again))
        assert len(packed) == sum(1 for _ in packed) == sum(1 for _ in packed), "read again"
    divided["streams"]["again"] = {}
    with pytest.raises(ol.ConfigError, match="reads the part again; allowed: train, valid, test"):
        ol.job(divided)


@pytest.fixture
def grouped(tmp_path: Path, sockets: Path) -> dict[str, Any]:
    """Rows of one prompt follow each other, two to four of them, over the edges of row groups."""
    dice = np.random.default_rng(1)
    sizes = dice.integers(2, 5, 300)
    prompts = np.repeat(np.arange(300), sizes).tolist()
    write_rows(tmp_path / "pairs.parquet", 0, len(prompts), prompts)
    return {
        "job": "grouped",
        "seed": 3,
        "context": 128,
        "bins": 8,
        "vocabulary": 32000,
        "at_end": "drop",
        "over_length": "drop",
        "index_dir": str(tmp_path / "index"),
        "mixture": {"weights": {"pairs": 1}},
        "sources": {
            "pairs": {
                "files": str(tmp_path / "pairs.parquet"),
                "tokens": "tokens",
                "metadata": ["prompt"],
                "group_by": "prompt",
                "window_rows": 100,
            }
        },
        "runtime": {"processes": {"directory": str(sockets)}},
    }


SAMPLES = {
    "cost": {"kind": "tokens", "terms": [{"column": "tokens", "linear_q32": 1 << 32}]},
    "balance": {"method": "karmarkar_karp", "atoms": "samples"},
}


def groups_read(loaders: Any) -> list[tuple[int, int, list[int]]]:
    """Rank, sequence number and rows of every group, by its lineage."""
    found: list[tuple[int, int, list[int]]] = []
    for batches in loaders.rounds():
        for rank, batch in batches.items():
            lineage = batch.lineage()
            for at, row in enumerate(lineage):
                begin = batch.cu_seqlens_padded[at]
                tokens = batch.tokens.reshape(-1)[begin : begin + 2]
                number = int(tokens[0]) + 30000 * int(tokens[1])
                if row["flags"] & JOINED:
                    assert lineage[at - 1]["bin"] == row["bin"]
                    found[-1][2].append(number)
                else:
                    found.append((rank, int(row["bin"]), [number]))
    return found


@pytest.mark.parametrize(
    ("engine", "strategy"), [("embedded", None), ("processes", None), ("embedded", SAMPLES)]
)
def test_rows_of_a_prompt_stay_together(
    grouped: dict[str, Any], tmp_path: Path, engine: str, strategy: Any
) -> None:
    if strategy is not None:
        grouped["strategy"] = strategy
    table = pq.read_table(tmp_path / "pairs.parquet").to_pydict()
    expected: dict[int, list[int]] = {}
    for row, prompt in enumerate(table["prompt"]):
        expected.setdefault(prompt, []).append(row)
    fits = [
        rows for rows in expected.values() if sum(len(table["tokens"][row]) for row in rows) <= 128
    ]
    with ol.job(grouped, mesh="dp=2").train(ranks="all", engine=engine) as loaders:
        got = [rows for _, _, rows in groups_read(loaders)]
    assert 250 < len(fits) <= 300 and sorted(got) == sorted(fits)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_keeps_groups_that_wait(grouped: dict[str, Any], engine: str) -> None:
    with ol.job(grouped).train(engine="embedded") as loader:
        whole = [content(batch) for batch in loader]
    with ol.job(grouped).train(engine=engine) as loader:
        first = [content(next(loader)) for _ in range(19)]
        state = loader.state_dict()
    with ol.job(grouped).train(engine=engine) as loader:
        loader.load_state_dict(state)
        assert first + [content(batch) for batch in loader] == whole


def test_groups_are_of_one_part(grouped: dict[str, Any], tmp_path: Path) -> None:
    grouped["sources"]["pairs"]["split"] = {"train": 0.5, "valid": 0.5}
    grouped["streams"] = {"valid": {}}
    prompts = pq.read_table(tmp_path / "pairs.parquet")["prompt"].to_pylist()
    job = ol.job(grouped)
    seen = []
    for name in ("train", "valid"):
        with job.stream(name, ranks="all") as loaders:
            seen.append({prompts[rows[0]] for _, _, rows in groups_read(loaders)})
    assert not seen[0] & seen[1] and min(map(len, seen)) > 100


def test_half_a_pass_is_half_the_rows(divided: dict[str, Any]) -> None:
    del divided["sources"]["web"]["split"], divided["streams"]
    divided["mixture"]["max_passes"] = {"web": 0.25}
    with ol.job(divided).train() as loader:
        rows = rows_read(loader)
    assert len(rows) == len(set(rows)) == 500 and max(rows) > 1000
    index_lengths(divided)
    divided["at_end"] = "repeat"
    divided["mixture"]["max_passes"] = {"web": 1.25}
    with ol.job(divided).train() as loader:
        assert len(loader) == -(-2500 // 4) * 4
        more = rows_read(loader)
    assert len(more) == 2500 and len(set(more)) == 2000
