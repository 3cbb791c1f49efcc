"""Indexes: the same whoever builds them, refreshed shard by shard, whole or not there at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import (
    EOD,
    gzip_members,
    index_file,
    job_config,
    json_lines,
    made_up_documents,
    token_lines,
    write_megatron,
    zstd_frames,
)
from overlord._src.config.reading import read_config
from overlord._src.index import indexing

import overlord as ol

DOCUMENTS = made_up_documents(400, seed=12)
FORMATS = ["jsonl", "jsonl.gz", "jsonl.zst", "parquet", "bin"]


def write_shard(folder: Path, number: int, suffix: str) -> Path:
    documents = DOCUMENTS[number * 40 : number * 40 + 40]
    path = folder / f"{number}.{suffix}"
    if suffix == "bin":
        return write_megatron(folder / str(number), [[d] for d in documents], "int32")
    if suffix == "parquet":
        lists = pa.array([d.tolist() for d in documents], pa.list_(pa.int32()))
        pq.write_table(pa.table({"tokens": lists}), path, row_group_size=15)
        return path
    lines = token_lines(documents)
    pack = {"jsonl": b"".join, "jsonl.gz": gzip_members, "jsonl.zst": zstd_frames}[suffix]
    path.write_bytes(pack([lines]))  # type: ignore[operator]
    return path


def shards_config(folder: Path, suffix: str, shards: Sequence[int], **top: Any) -> dict[str, Any]:
    for number in shards:
        if not (folder / f"{number}.{suffix}").exists():
            write_shard(folder, number, suffix)
    column = {} if suffix == "bin" else {"tokens": "tokens"}
    return job_config(folder, {"s": {"files": f"*.{suffix}", "eod": EOD, **column}}, **top)


def build(config: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Builds or refreshes the index and gives what it says."""
    loaded = read_config(config)
    job = ol.job(config)
    names = job.config.mixture.source_names()
    sources = [lowered(job, name) for name in names]
    (progress,) = indexing.build_indexes(loaded, sources, **options)
    assert progress.finished and progress.shards_done == progress.shards_total
    return ol.job(config).open_stream().infos[0]


def lowered(job: ol.Job, name: str) -> Any:
    from overlord._src.config.streams import resolve_stream
    from overlord._src.lowering import job_spec as lowering

    loaded = job._loaded
    files = lowering.list_source_files(loaded, name)
    return lowering.lower_source(loaded, resolve_stream(loaded.config, "train"), name, files)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("lengths", [False, True])
def test_the_same_index_with_any_number_of_threads(
    suffix: str, lengths: bool, tmp_path: Path
) -> None:
    found = []
    for threads in (1, 2, 5):
        folder = str(tmp_path / f"index-{threads}")
        config = shards_config(tmp_path, suffix, range(6), index_dir=folder)
        info = build(config, threads=threads, lengths=lengths)
        found.append((info, index_file(Path(folder), "s").read_bytes()))
    assert found[0] == found[1] == found[2]
    assert found[0][0]["rows"] == 240
    if lengths:
        assert found[0][0]["tokens"] == sum(map(len, DOCUMENTS[:240]))


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_refreshed_index_is_a_new_one(suffix: str, tmp_path: Path) -> None:
    """A shard more, one less, one rewritten: as if it had been built in one go."""
    config = shards_config(tmp_path, suffix, range(4))
    build(config)
    write_shard(tmp_path, 4, suffix)
    (tmp_path / f"1.{suffix}").unlink()
    shutil.copyfile(write_shard(tmp_path, 5, suffix), tmp_path / f"2.{suffix}")
    if suffix == "bin":
        shutil.copyfile(tmp_path / "5.idx", tmp_path / "2.idx")
    (tmp_path / f"5.{suffix}").unlink()
    refreshed = build(config)
    fresh = build({**config, "index_dir": str(tmp_path / "fresh")})
    assert refreshed == fresh and refreshed["rows"] == 160


def test_a_refresh_reads_only_what_changed(tmp_path: Path) -> None:
    """A shard that looks unchanged is taken over: damage in its middle goes unseen by a refresh."""
    large = token_lines(made_up_documents(8000, seed=1))
    path = tmp_path / "0.jsonl.gz"
    path.write_bytes(gzip_members([large], 0))
    config = shards_config(tmp_path, "jsonl.gz", [1, 2])
    build(config)
    before, data = path.stat(), path.read_bytes()
    middle = len(data) // 2
    assert 70_000 < middle < len(data) - 70_000  # fingerprints look at both ends
    path.write_bytes(data[:middle] + b"\0" + data[middle + 1 :])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    write_shard(tmp_path, 3, "jsonl.gz")
    assert build(config)["rows"] == 8000 + 3 * 40
    with pytest.raises(ol.BadDataError, match=r"0\.jsonl\.gz"):
        build({**config, "index_dir": str(tmp_path / "fresh")})


def test_lengths_belong_to_a_tokenizer(tmp_path: Path) -> None:
    """Counted with one rule, read with another: both have an index, and neither is touched."""
    (tmp_path / "a.jsonl").write_bytes(json_lines({"text": f"text {n}"} for n in range(30)))
    source = {"files": "a.jsonl", "text": "text", "tokenizer": "bytes"}
    config = job_config(tmp_path, {"s": source})
    build(config, lengths=True)
    path = index_file(tmp_path / "index", "s")
    before = path.read_bytes()
    other = ol.job(job_config(tmp_path, {"s": source}, vocabulary=500)).open_stream()
    assert not other.infos[0]["has_lengths"]
    assert ol.job(config).open_stream().infos[0]["has_lengths"]
    assert path.read_bytes() == before and len([*path.parent.glob("s-*.index")]) == 2
    # Put under its name by hand, it is refused with what differs.
    changed = {**config, "vocabulary": 500}
    shutil.copyfile(path, indexing.index_path(read_config(changed), other.sources[0]))
    with pytest.raises(ol.StateMismatchError, match=r"vocabulary was '1000', is '500'.*index"):
        ol.job(changed).open_stream()


def test_file_uris(tmp_path: Path) -> None:
    """A path and its file:// URI are the same file."""
    config = shards_config(tmp_path, "jsonl", range(2))
    uri = json.loads(json.dumps(config))
    uri["sources"]["s"]["files"] = [f"file://{tmp_path}/*.jsonl"]
    uri["index_dir"] = str(tmp_path / "other")
    hashes = []
    for one in (config, uri):
        with ol.job(one).train(hash=True) as loader:
            for _ in loader:
                pass
            hashes.append(loader.stream_hash())
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("uri", ["gs://bucket/a.jsonl", "http://host/a.jsonl", "nope://x.jsonl"])
def test_stores_that_are_not_there_yet(uri: str, tmp_path: Path) -> None:
    config = job_config(tmp_path, {"s": {"files": "x.jsonl", "tokens": "t"}})
    config["sources"]["s"]["files"] = [uri]
    with pytest.raises((ol.ConfigError, ol.OverlordError), match=uri.split(":")[0]):
        ol.job(config).open_stream()


BUILDER = """
import json, sys
import overlord as ol
info = ol.job(json.loads(sys.argv[1])).open_stream().infos[0]
print(info["digest"], flush=True)
"""


def test_processes_that_index_at_once(tmp_path: Path) -> None:
    """As many ranks start on a new corpus: one builds, all read the same."""
    config = shards_config(tmp_path, "jsonl", range(10))
    command = [sys.executable, "-c", BUILDER, json.dumps(config)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    digests = {process.communicate()[0] for process in started}
    assert len(digests) == 1 and all(process.returncode == 0 for process in started)


def test_a_killed_build_leaves_no_index(tmp_path: Path) -> None:
    """Killed while it builds: the next one builds anew, and nothing half-made is read."""
    line = json_lines([{"tokens": [1] * 400}])
    for number in range(20):
        (tmp_path / f"{number:02d}.jsonl").write_bytes(line * (2000 + number))
    config = job_config(tmp_path, {"s": {"files": "*.jsonl", "tokens": "tokens"}})
    command = [sys.executable, "-c", BUILDER, json.dumps(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    while not (tmp_path / "index").exists() and process.poll() is None:
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not [*(tmp_path / "index").glob("s-*.index")] or process.returncode == 0
    assert ol.job(config).open_stream().infos[0]["rows"] == sum(2000 + n for n in range(20))
    left = {path.name for path in (tmp_path / "index").iterdir()}
    assert left <= {index_file(tmp_path / "index", "s").name, ".lock", ".gitignore"}


def test_a_failed_build_keeps_the_old_index(tmp_path: Path) -> None:
    config = shards_config(tmp_path, "parquet", range(3))
    before = build(config)
    (tmp_path / "3.parquet").write_bytes(b"not Parquet at all, but long enough to look at")
    with pytest.raises(ol.BadDataError, match=r"3\.parquet"):
        build(config)
    (tmp_path / "3.parquet").unlink()
    assert ol.job(config).open_stream().infos[0] == before


def test_costs_are_kept_beside_the_index(tmp_path: Path) -> None:
    """What loaders measured, for the partitioner that will read it."""
    config = shards_config(tmp_path, "jsonl", range(3))
    with ol.job(config).train() as loader:
        for _ in loader:
            pass
    index = index_file(tmp_path / "index", "s")
    profile = json.loads(index.with_name(f"{index.name}.profile").read_text())
    assert profile["source"] == "s" and profile["documents"] == 120 and profile["blocks_read"] >= 3
    assert profile["file_state_bytes"] > 0
    for stage in ("read", "decode", "send"):
        assert all(profile["stages"][stage][key] > 0 for key in ("in_bytes", "peak_bytes")), stage
