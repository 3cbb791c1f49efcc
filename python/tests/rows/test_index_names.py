"""Indexes by what they are of: side by side or shared, and lengths that are known sooner or later.

Law 4: whether a row's length comes from the index or from decoding is in no digest, because both
find the same rows bad. Where they do not, the digest says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import (
    EOD,
    VOCABULARY,
    gzip_members,
    index_file,
    job_config,
    json_lines,
    made_up_documents,
    made_up_texts,
    token_lines,
    write_megatron,
    zstd_frames,
)
from overlord.cli import main
from test_media_stream import made_up_pairs, pairs_config
from test_transforms import config_of as transform_config
from test_webdataset import tar_of

import overlord as ol

ENGINES = ["embedded", "processes"]
TEXTS = [*made_up_texts(150, seed=4), "", "  ", *made_up_texts(60, seed=5)]
DOCUMENTS = [*made_up_documents(120, seed=6), np.array([5, VOCABULARY, 7]), np.array([], np.int64)]
TEXT = {"text": "text", "tokenizer": "bytes", "eod": EOD, "bad_rows_allowed": 20}
TOKENS = {"tokens": "tokens", "eod": EOD, "bad_rows_allowed": 20}


def index(config: dict[str, Any], *flags: str) -> None:
    """`overlord index`."""
    path = Path(config["index_dir"]).parent / "job.json"
    path.write_text(json.dumps(config))
    assert main(["index", str(path), *flags]) == 0


def info_of(config: dict[str, Any]) -> dict[str, Any]:
    return dict(ol.job(config).open_stream().infos[0])


def read(
    config: dict[str, Any], state: Any = None, steps: int | None = None, engine: str = "embedded"
) -> tuple[str, str, list[Any], Any]:
    """Hashes and bad rows of a run, from a state on, and the state after some steps."""
    saved = None
    with ol.job(config).train(ranks="all", hash=True, engine=engine) as loaders:
        if state is not None:
            loaders.load_state_dict(state)
        for number, _ in enumerate(loaders.steps(), 1):
            if number == steps:
                saved = loaders.state_dict()
        bad = sorted((note["source"], note["position"]) for note in loaders.quarantine())
        return loaders.stream_hash(), loaders.content_hash(), bad, saved


def lists(documents: list[Any]) -> pa.Array:
    return pa.array([one.tolist() for one in documents], pa.list_(pa.int32()))


def text_parquet(folder: Path) -> dict[str, Any]:
    texts = pa.array([text or None for text in TEXTS])
    pq.write_table(pa.table({"text": texts}), folder / "a.parquet", row_group_size=40)
    return {"files": "a.parquet", **TEXT}


def token_parquet(folder: Path) -> dict[str, Any]:
    pq.write_table(pa.table({"tokens": lists(DOCUMENTS)}), folder / "a.parquet", row_group_size=40)
    return {"files": "a.parquet", **TOKENS}


def text_arrow(folder: Path) -> dict[str, Any]:
    table = pa.table({"text": pa.array([text or None for text in TEXTS])})
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    return {"files": "a.arrow", **TEXT}


def jsonl(pack: Callable[[list[bytes]], bytes], suffix: str) -> Callable[[Path], dict[str, Any]]:
    def make(folder: Path) -> dict[str, Any]:
        lines = json_lines({"text": text} for text in TEXTS) + b"no JSON\n{}\n"
        (folder / f"a.{suffix}").write_bytes(pack([lines]))
        return {"files": f"a.{suffix}", **TEXT}

    return make


def token_jsonl(folder: Path) -> dict[str, Any]:
    (folder / "a.jsonl").write_bytes(token_lines(DOCUMENTS))
    return {"files": "a.jsonl", **TOKENS}


def masked(folder: Path) -> dict[str, Any]:
    rows = [{"tokens": one.tolist(), "mask": [1] * len(one)} for one in DOCUMENTS]
    rows[7]["mask"] = [1]
    (folder / "a.jsonl").write_bytes(json_lines(rows))
    return {"files": "a.jsonl", "mask": "mask", **TOKENS}


def webdataset(folder: Path) -> dict[str, Any]:
    samples = [{"__key__": f"{n:04d}", "txt": text.encode()} for n, text in enumerate(TEXTS)]
    (folder / "a.tar").write_bytes(tar_of(samples))
    return {"files": "a.tar", **TEXT, "text": "txt"}


def good_megatron(folder: Path) -> dict[str, Any]:
    documents = [one for one in DOCUMENTS if not (one >= VOCABULARY).any()]
    write_megatron(folder / "a", [[one] for one in documents], "int32")
    return {"files": "a.bin", "eod": EOD, "bad_rows_allowed": 20}


SOURCES = {
    "text in jsonl": jsonl(b"".join, "jsonl"),
    "text in jsonl.gz": jsonl(gzip_members, "jsonl.gz"),
    "text in jsonl.zst": jsonl(zstd_frames, "jsonl.zst"),
    "text in parquet": text_parquet,
    "text in arrow": text_arrow,
    "webdataset": webdataset,
    "tokens in jsonl": token_jsonl,
    "tokens in parquet": token_parquet,
    "tokens with a mask": masked,
    "megatron": good_megatron,
}


def sooner_or_later(config: dict[str, Any], engine: str = "embedded") -> None:
    """Lengths change neither digests nor the stream, and states go both ways."""
    folder = Path(config["index_dir"])
    without = {**config, "index_dir": str(folder.parent / "without")}
    before = read(config, steps=2, engine=engine)
    digest, path = info_of(config)["digest"], index_file(folder, "s")
    plain = path.read_bytes()
    index(config, "--lengths")
    assert info_of(config)["digest"] == digest
    counted = path.read_bytes()
    assert counted != plain, "it notes that all rows were looked at"
    after = read(config, steps=2, engine=engine)
    assert after == before
    assert read(config, before[3], engine=engine)[1] == before[1]
    assert read(without, after[3], engine=engine)[1] == before[1]
    index(config)
    assert path.read_bytes() == counted, "lengths that are known stay"


@pytest.mark.parametrize("kind", SOURCES)
def test_lengths_may_be_known_sooner_or_later(kind: str, tmp_path: Path) -> None:
    sooner_or_later(job_config(tmp_path, {"s": SOURCES[kind](tmp_path)}))


def test_so_they_may_by_a_node(tmp_path: Path) -> None:
    config = job_config(tmp_path, {"s": SOURCES["text in jsonl"](tmp_path)})
    sooner_or_later(config, "processes")


@pytest.mark.parametrize("field", [None, {"from": ["jpg", "png"]}])
def test_so_they_may_with_media(field: Any, tmp_path: Path) -> None:
    samples = made_up_pairs(60)
    samples[7]["txt"] = b" "
    samples[9] = {**samples[9], "jpg": b"no picture"}
    config = pairs_config(tmp_path, samples, *([] if field is None else [field]))
    sooner_or_later(config)


def rows_of_two_kinds(folder: Path) -> dict[str, Any]:
    """Rows with a column whose bad ones are found by decoding alone."""
    documents = DOCUMENTS[:100]
    documents[30] = documents[70] = np.array([VOCABULARY])
    numbers = pa.array([n % 7 for n in range(100)])
    table = pa.table({"tokens": lists(documents), "n": numbers})
    pq.write_table(table, folder / "a.parquet", row_group_size=30)
    source = {"metadata": ["n"], "split": {"by": "n", "edges": [1, 3]}}
    return {"files": "a.parquet", **TOKENS, **source}


def test_a_bad_row_belongs_to_the_same_sub_source(tmp_path: Path) -> None:
    """A row that a count finds bad keeps its metadata, and so its sub-source."""
    weights = {"weights": {f"s/{n}": 1 for n in range(3)}}
    sooner_or_later(job_config(tmp_path, {"s": rows_of_two_kinds(tmp_path)}, mixture=weights))


# Two configs of one source name


def test_two_configs_of_one_source_name(tmp_path: Path) -> None:
    """Index a, save a state, index b: a goes on, and neither touches the other's index."""
    (tmp_path / "one.jsonl").write_bytes(json_lines({"text": text} for text in TEXTS[:150]))
    (tmp_path / "two.jsonl").write_bytes(json_lines({"text": text} for text in TEXTS[160:]))
    configs = [
        job_config(tmp_path, {"s": {"files": files, **TEXT}})
        for files in ("one.jsonl", "two.jsonl", "*.jsonl")
    ]
    configs.append({**configs[0], "vocabulary": 2000})
    whole = []
    for number, config in enumerate(configs):
        index(config, *(["--lengths"] if number % 2 else []))
        whole.append(read(config, steps=2))
        assert len([*(tmp_path / "index").glob("s-*.index")]) == number + 1
    for config in configs:
        index(config)
    for config, one in zip(configs, whole, strict=True):
        assert read(config, one[3])[1] == one[1]
        assert read(config)[:2] == one[:2]
    assert len({one[1] for one in whole[:3]}) == 3
    assert [info_of(config)["has_lengths"] for config in configs] == [False, True, False, True]


def test_who_reads_the_same_shares_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines({"text": text} for text in TEXTS))
    config = job_config(tmp_path, {"s": {"files": "a.jsonl", **TEXT}})
    info_of(config)
    same = json.loads(json.dumps(config))
    same |= {"seed": 8, "context": 128, "job": "other"}
    same["sources"]["s"] |= {"eod": 2, "shuffle": "full", "window_rows": 16}
    for files in ("a.jsonl", "./a.jsonl", f"{tmp_path}/a.jsonl"):
        same["sources"]["s"]["files"] = [files]
        (tmp_path / "same.json").write_text(json.dumps(same))
        assert ol.job(tmp_path / "same.json").open_stream().infos[0] == info_of(config)
    index_file(tmp_path / "index", "s")


def test_files_that_appear_are_told_and_not_taken_in_silence(tmp_path: Path) -> None:
    """The name has the pattern: ranks that list more files than others must not go their way."""
    (tmp_path / "a.jsonl").write_bytes(json_lines({"text": text} for text in TEXTS[:50]))
    config = job_config(tmp_path, {"s": {"files": "*.jsonl", **TEXT}})
    info_of(config)
    (tmp_path / "b.jsonl").write_bytes(json_lines({"text": text} for text in TEXTS[50:]))
    with pytest.raises(ol.SourceChangedError, match=r"b\.jsonl appeared.*overlord index"):
        info_of(config)
    index(config)
    assert info_of(config)["rows"] == len(TEXTS)


# Lengths stay


def test_new_files_are_counted_where_the_others_are(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines({"text": text} for text in TEXTS[:50]))
    config = job_config(tmp_path, {"s": {"files": "*.jsonl", **TEXT}})
    index(config, "--lengths")
    (tmp_path / "b.jsonl").write_bytes(json_lines({"text": text} for text in TEXTS[50:]))
    index(config)
    now = info_of(config)
    fresh = {**config, "index_dir": str(tmp_path / "fresh")}
    index(fresh, "--lengths")
    assert now == info_of(fresh) and now["has_lengths"]


def test_a_file_that_cannot_be_counted_says_how_to_go_without(tmp_path: Path) -> None:
    table = pa.table({"text": pa.array(TEXTS[:40])})
    pq.write_table(table, tmp_path / "a.parquet", compression="snappy", use_dictionary=False)
    config = job_config(tmp_path, {"s": {"files": "*.parquet", **TEXT}})
    index(config, "--lengths")
    good = bytearray((tmp_path / "a.parquet").read_bytes())
    good[20:400] = b"\xff" * 380  # of a page; the footer is whole
    (tmp_path / "b.parquet").write_bytes(good)
    path = index_file(tmp_path / "index", "s")
    before = path.read_bytes()
    (tmp_path / "job.json").write_text(json.dumps(config))
    with pytest.raises(ol.BadDataError, match=rf"(?s)b\.parquet.*has lengths.*move '{path}' away"):
        main(["--traceback", "index", str(tmp_path / "job.json")])
    assert path.read_bytes() == before
    path.rename(tmp_path / "away")
    index(config)
    assert not info_of(config)["has_lengths"]


INDEXER = """
import sys
from overlord.cli import main
print("ready", flush=True)
sys.stdin.readline()
sys.exit(main(["index", *sys.argv[1:]]))
"""


def test_two_who_index_at_once(tmp_path: Path) -> None:
    """With and without lengths: both end well, and the lengths are there."""
    for number in range(8):
        texts = made_up_texts(400, seed=20 + number)
        (tmp_path / f"{number}.jsonl").write_bytes(json_lines({"text": text} for text in texts))
    config = job_config(tmp_path, {"s": {"files": "*.jsonl", **TEXT}})
    (tmp_path / "job.json").write_text(json.dumps(config))
    flags = (["--lengths"], [], ["--lengths"], [])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", INDEXER, str(tmp_path / "job.json"), *own],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for own in flags
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    for process in started:
        process.communicate(b"\n", timeout=120)
    assert [process.returncode for process in started] == [0] * len(flags)
    assert info_of(config)["has_lengths"]
    left = {path.name for path in (tmp_path / "index").iterdir()}
    assert left <= {index_file(tmp_path / "index", "s").name, ".lock", ".gitignore"}


# Where decoding does not find what a count finds


def test_a_count_of_megatron_files_may_find_more(tmp_path: Path) -> None:
    """Token ids that are outside are met late, or known before: two streams, two digests."""
    documents = made_up_documents(200, seed=6)
    documents[50] = np.array([5, VOCABULARY, 7])
    write_megatron(tmp_path / "a", [[one] for one in documents], "int32")
    source = {"files": "a.bin", "eod": EOD, "bad_rows_allowed": 3}
    config = job_config(tmp_path, {"s": source})
    before = read(config, steps=2)
    plain = info_of(config)
    index(config, "--lengths")
    counted = info_of(config)
    assert counted["digest"] != plain["digest"] and len(counted["bad_rows"]) == 1
    assert read(config)[1] != before[1]
    path = index_file(tmp_path / "index", "s")
    with pytest.raises(ol.StateMismatchError) as caught:
        read(config, before[3])
    for part in ("data of source s", f"move '{path}' away", "without --lengths"):
        assert part in str(caught.value), str(caught.value)
    after = read(config, steps=2)
    path.rename(tmp_path / "away")  # what the message says
    index(config)
    assert read(config, before[3])[1] == before[1]
    with pytest.raises(ol.StateMismatchError, match="run `overlord index --lengths`"):
        read(config, after[3])
    index(config, "--lengths")
    assert read(config, after[3])[1] == after[1]


def test_a_count_of_what_a_transform_says_is_another_source(tmp_path: Path) -> None:
    """A user's code may die or be late: what a count found stands, and the digest says so."""
    config = transform_config(tmp_path, "own_transforms:mixed", bad_rows_allowed=1000)
    before = read(config, steps=2)
    plain = info_of(config)
    index(config, "--lengths")
    assert info_of(config)["digest"] != plain["digest"]
    assert read(config)[1] == before[1]
    with pytest.raises(ol.StateMismatchError, match=r"transform.*move .* away"):
        read(config, before[3])


# States and indexes of before

OLD_TEXT = "".join(json.dumps({"text": f"line {n} " * (n % 7)}) + "\n" for n in range(60))
OLD_HASHES = ("ddb004577a9cef41a201767b4b7d5118", "4f36de184349ba2cbef961c4302a9f6d")
OLD_HEAD = {
    "format": "overlord-state/1",
    "job": "test",
    "stream": "train",
    "step": 1,
    "microbatch": 0,
    "config": "9e9a99e2e625bfea8476debfe3d3f305",
    "sections": {
        "stream": "85467b9273aca0a57708aa523b2cc76a",
        "mixture": "ec30bf9f325f9a5d56f2bb3dfb8d9b81",
    },
}
# Saved when digests had where lengths come from, with and without them.
OLD_COUNTED = OLD_HEAD | {
    "manifest": "0964e21124861c083ca966a361973046",
    "sources": {"s": {"digest": "874450c3e918", "pass": 0, "position": 14}},
    "blob": "T1ZTVAEAAABK80VKEGOTwQV0cmFpbgDqvyXm4pmangXz0+O/3naECByGJBHiZAlGMJdho2apPOwzXxYfpz56"
    "SEzTufA5eW+H1SFvTWxf4ARkq8baQlJpAgZzdHJlYW2loKxzkntGhWrHLDtSqgh3B21peHR1cmVdml8yn78w7IGb"
    "jfs9u/JWAQFzqHbk+a1Y6Bg91Rjpw1BEhykBAAABAA7///8XC5wCAwAAAwAAHAAIAAEAAAAQAAgAAQAAAAQADgABAA==",
}
OLD_PLAIN = OLD_HEAD | {
    "manifest": "25b398da48f1fd7eb9daf6ffc8db4e70",
    "sources": {"s": {"digest": "03d95d059911", "pass": 0, "position": 14}},
    "blob": "T1ZTVAEAAABJRdSxNo+wswV0cmFpbgDqvyXm4pmangXz0+O/3naEfv3xSNqYsyVwTtvI//bauewzXxYfpz56"
    "SEzTufA5eW+H1SFvTWxf4ARkq8baQlJpAgZzdHJlYW2loKxzkntGhWrHLDtSqgh3B21peHR1cmVdml8yn78w7IGb"
    "jfs9u/JWAQFzqHbk+a1Y6BjZ7xGZBV3ZAykBAAABAA7///8XC5wCAwAAAwAAHAAIAAEAAAAQAAgAAQAAAAQADgABAA==",
}


@pytest.mark.parametrize("engine", ENGINES)
def test_states_of_before(engine: str, tmp_path: Path) -> None:
    """Both go on; one with lengths once the index has them, and until then the message says so."""
    (tmp_path / "a.jsonl").write_text(OLD_TEXT)
    source = {"files": "a.jsonl", "text": "text", "tokenizer": "bytes", "bad_rows_allowed": 20}
    config = job_config(tmp_path, {"s": source})
    assert read(config)[:2] == OLD_HASHES
    assert read(config, OLD_PLAIN, engine=engine)[1] == OLD_HASHES[1]
    with pytest.raises(ol.StateMismatchError, match="run `overlord index --lengths` and load it"):
        read(config, OLD_COUNTED)
    index(config, "--lengths")
    for state in (OLD_PLAIN, OLD_COUNTED):
        assert read(config, state, engine=engine)[1] == OLD_HASHES[1]
    with open(tmp_path / "a.jsonl", "a") as file:
        file.write('{"text": "more"}\n')
    index(config)
    for state in (OLD_PLAIN, OLD_COUNTED):
        with pytest.raises(ol.StateMismatchError, match="data of source s: saved"):
            read(config, state)


@pytest.mark.parametrize("flags", [[], ["--lengths"]])
def test_an_index_of_before_is_taken_over(flags: list[str], tmp_path: Path) -> None:
    """Under the name alone: its shards and lengths are used, and it stays where it is."""
    texts = [f"{text} and so on for some more words" for text in made_up_texts(6000, seed=9)]
    data = tmp_path / "a.jsonl"
    data.write_bytes(json_lines({"text": text} for text in texts))
    config = job_config(tmp_path, {"s": {"files": "a.jsonl", **TEXT}})
    index(config, *flags)
    before = info_of(config)
    path = index_file(tmp_path / "index", "s")
    old = path.with_name("s.index")
    path.rename(old)
    kept = old.read_bytes()
    stamp, content = data.stat(), bytearray(data.read_bytes())
    middle = len(content) // 2
    assert 70_000 < middle < len(content) - 70_000  # fingerprints look at both ends
    content[middle] = 0xFF
    data.write_bytes(content)
    os.utime(data, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert info_of(config) == before, "nobody has read the file again"
    assert old.read_bytes() == kept and path.exists()
    shutil.rmtree(tmp_path / "index")
    assert info_of(config)["digest"] != before["digest"]
