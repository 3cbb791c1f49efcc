"""`empty: skip`: rows that hold nothing keep their place and count in no budget."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import EOD, job_config, json_lines, write_megatron
from delivered import documents_of, read_pieces
from overlord._src.config.reading import read_config
from overlord._src.index import indexing
from trainers import in_time

import overlord as ol

ROWS = 60
EMPTY = (3, 4, 31, 59)


def texts(folder: Path) -> dict[str, Any]:
    rows = [{"t": "" if row in EMPTY else f"text {row}"} for row in range(ROWS)]
    rows[4]["t"] = " \n\u3000"
    (folder / "a.jsonl").write_bytes(json_lines(rows))
    return {"files": "a.jsonl", "text": "t", "tokenizer": "bytes", "eod": EOD}


def token_lists(folder: Path) -> dict[str, Any]:
    rows = [{"t": [] if row in EMPTY else [row + 1] * 9} for row in range(ROWS)]
    (folder / "a.jsonl").write_bytes(json_lines(rows))
    return {"files": "a.jsonl", "tokens": "t", "eod": EOD}


def parquet_texts(folder: Path) -> dict[str, Any]:
    rows = ["" if row in EMPTY else f"text {row}" for row in range(ROWS)]
    pq.write_table(pa.table({"t": rows}), folder / "a.parquet", row_group_size=16)
    return {"files": "a.parquet", "text": "t", "tokenizer": "bytes", "eod": EOD}


def parquet_tokens(folder: Path) -> dict[str, Any]:
    rows: list[list[int]] = [[] if row in EMPTY else [row + 1] * 9 for row in range(ROWS)]
    table = pa.table({"t": pa.array(rows, pa.list_(pa.int32()))})
    pq.write_table(table, folder / "a.parquet", row_group_size=16)
    return {"files": "a.parquet", "tokens": "t", "eod": EOD}


def megatron(folder: Path) -> dict[str, Any]:
    rows = [[np.full(0 if row in EMPTY else 9, row + 1)] for row in range(ROWS)]
    write_megatron(folder / "a", rows, "uint16")
    return {"files": "a.bin", "eod": EOD}


def samples(folder: Path) -> dict[str, Any]:
    with tarfile.open(folder / "a.tar", "w") as tar:
        for row in range(ROWS):
            member = tarfile.TarInfo(f"{row:03}.txt")
            text = b"" if row in EMPTY else b"text %d" % row
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return {"files": "a.tar", "text": "txt", "tokenizer": "bytes", "eod": EOD}


def counted(config: dict[str, Any]) -> dict[str, Any]:
    indexing.build_indexes(read_config(config), ol.job(config).open_stream().sources, lengths=True)
    return config


def read(config: dict[str, Any], **how: Any) -> tuple[str, set[int], int]:
    """The stream's hash, the positions that were delivered, and the empty rows of its status."""
    job = ol.job(config)
    with job.train(hash=True, **how) as loader:
        names = documents_of(read_pieces(loader))
        assert loader.quarantine() == []

        def skipped() -> int:
            return sum(item["empty_rows"] for item in loader.status()["loaders"])

        in_time(lambda: skipped() >= len(EMPTY), "a node hears of it from its processes")
        native = job.open_stream().native
        return loader.stream_hash(), {native.locate(*name)["row"] for name in names}, skipped()


@pytest.mark.parametrize(
    "write", [texts, token_lists, parquet_texts, parquet_tokens, megatron, samples]
)
def test_empty_rows_are_skipped(
    write: Callable[[Path], dict[str, Any]], tmp_path: Path, sockets: Path
) -> None:
    source = {**write(tmp_path), "window_rows": 8}
    runtime = {"processes": {"directory": str(sockets)}}
    with pytest.raises(ol.BudgetExceededError):
        list(ol.job(job_config(tmp_path, {"web": source})).train())
    config = job_config(tmp_path, {"web": {**source, "empty": "skip"}}, runtime=runtime)
    good = set(range(ROWS)) - set(EMPTY)
    posted = read(config)
    assert posted[1:] == (good, len(EMPTY))
    assert read(config, engine="processes") == posted
    assert read(counted(config)) == posted


def test_another_fault_is_no_empty_row(tmp_path: Path) -> None:
    """A row that is empty and has metadata that is none is bad, by index and by posting."""
    rows = [{"t": f"text {row}", "m": 1} for row in range(ROWS)]
    rows[5] = {"t": "", "m": -1}
    rows[6] = {"t": "", "m": 1}
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows))
    (tmp_path / "b.jsonl").write_text(json.dumps({"t": None}) + "\n" + json.dumps({"t": "b"}))
    source = {"files": "a.jsonl", "text": "t", "tokenizer": "bytes", "empty": "skip"}
    source |= {"metadata": ["m"], "bad_rows_allowed": 1}
    for build in (dict, counted):
        with ol.job(build(job_config(tmp_path, {"web": source}))).train() as loader:
            list(loader)
            (bad,) = loader.quarantine()
            assert bad["row"] == 5 and "'m'" in bad["reason"]
            assert loader.status()["loaders"][0]["empty_rows"] == 1
    null = {"files": "b.jsonl", "text": "t", "tokenizer": "bytes", "empty": "skip"}
    with pytest.raises(ol.BudgetExceededError, match="null"):
        list(ol.job(job_config(tmp_path, {"other": null})).train())


def test_the_policy_is_part_of_the_source_and_its_default_of_nothing(tmp_path: Path) -> None:
    config = job_config(tmp_path, {"web": texts(tmp_path)}, steps=2)
    config["sources"]["web"]["bad_rows_allowed"] = len(EMPTY)

    def state(**source: Any) -> dict[str, Any]:
        changed = {**config, "sources": {"web": {**config["sources"]["web"], **source}}}
        with ol.job(changed).train() as loader:
            next(iter(loader))
            kept: dict[str, Any] = loader.state_dict()
            return kept

    def load(saved: dict[str, Any], **source: Any) -> None:
        changed = {**config, "sources": {"web": {**config["sources"]["web"], **source}}}
        with ol.job(changed).train() as loader:
            loader.load_state_dict(saved)
            next(iter(loader))

    saved = state()
    load(saved, empty="bad")
    with pytest.raises(ol.StateMismatchError):
        load(saved, empty="skip")


def test_preflight_names_the_policy(tmp_path: Path) -> None:
    source = texts(tmp_path)
    config = counted(job_config(tmp_path, {"web": source}))
    with pytest.raises(ol.BudgetExceededError, match=r"sources\.web\.empty: skip for the 4 empty"):
        ol.job(config).train()
    config["sources"]["web"]["empty"] = "skip"
    with ol.job(config).train() as loader:
        assert list(loader)
