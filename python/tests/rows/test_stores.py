"""Sources in a bucket: the stream of the files on disk, and answers to what happens to objects."""

from __future__ import annotations

import copy
import gzip
import json
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import made_up_documents, made_up_texts, token_lines
from test_mds import WRITTEN
from test_webdataset import made_up_samples, tar_of

import overlord as ol
from overlord import _core as core

pytest.importorskip("moto", reason="comes with `make setup` for tests")

from stores import KEYS, Bucket, served_bucket

MIXED = {
    "lines": {"files": "lines-*.jsonl", "tokens": "tokens"},
    "table": {"files": ["deep/a.parquet", "deep/b.parquet"], "tokens": "tokens"},
    "tars": {"files": "*.tar", "text": "txt", "tokenizer": "bytes"},
    "bare": {"files": "bare-{0..2}.npy", "document": {"eod": 998}},
    "mds": {"files": "mds/", "format": "mds", "text": "text", "tokenizer": "bytes"},
    "mds_packed": {"files": "mds_packed/", "format": "mds", "tokens": "any"},
    "zipped": {"files": "zipped.jsonl.gz", "text": "text", "tokenizer": "bytes"},
}


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    """One server for the tests of this file."""
    with served_bucket() as served:
        yield served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JSON lines, Parquet, tars, bare tokens, MDS and gzipped text."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "deep").mkdir()
    for shard in range(4):
        documents = made_up_documents(60, seed=shard)
        (folder / f"lines-{shard}.jsonl").write_bytes(token_lines(documents))
    for name, seed in (("a", 10), ("b", 11)):
        tokens = pa.array(made_up_documents(120, seed), pa.list_(pa.int32()))
        path = folder / "deep" / f"{name}.parquet"
        pq.write_table(pa.table({"tokens": tokens}), path, row_group_size=40)
    for shard in range(2):
        (folder / f"{shard}.tar").write_bytes(tar_of(made_up_samples(shard)))
    for shard in range(3):
        tokens = [np.append(one, 998) for one in made_up_documents(50, 20 + shard)]
        np.save(folder / f"bare-{shard}.npy", np.concatenate(tokens).astype(np.uint16))
    shutil.copytree(WRITTEN / "merged", folder / "mds")
    (folder / "mds" / "index.json").unlink()  # those of the folders below count
    shutil.copytree(WRITTEN / "zstd", folder / "mds_packed")
    texts = [json.dumps({"text": text}) for text in made_up_texts(80, 5)]
    (folder / "zipped.jsonl.gz").write_bytes(gzip.compress("\n".join(texts).encode(), mtime=0))
    return folder


def config_over(root: str, index_dir: Path, sources: dict[str, Any] = MIXED) -> dict[str, Any]:
    """A job over the files below a folder or a prefix."""
    sources = copy.deepcopy(sources)
    for source in sources.values():
        files = source["files"]
        listed = [files] if isinstance(files, str) else files
        source["files"] = [f"{root}/{file}" for file in listed]
        source["window_rows"] = 16
    return {
        "job": "buckets",
        "seed": 7,
        "context": 64,
        "bins": 4,
        "steps": 12,
        "vocabulary": 1000,
        "at_end": "repeat",
        "index_dir": str(index_dir),
        "mixture": {"weights": dict.fromkeys(sources, 1)},
        "sources": sources,
    }


def run(config: dict[str, Any], steps: int | None = None) -> tuple[str, Any]:
    """The hash of the stream, and a state from the middle of it."""
    saved = None
    with ol.job(config, mesh="dp=2").train(ranks="all", hash=True) as loaders:
        for number, _ in enumerate(loaders.rounds()):
            if number == steps:
                saved = loaders.state_dict()
                break
        return loaders.stream_hash(), saved


def test_the_stream_is_that_of_the_files_on_disk(
    bucket: Bucket, folder: Path, tmp_path: Path
) -> None:
    """Every format gives the same from a bucket; also from an index that is there already."""
    root = bucket.put_folder(folder, "same")
    local, _ = run(config_over(str(folder), tmp_path / "local"))
    config = config_over(root, tmp_path / "remote")
    assert run(config)[0] == local
    assert run(config)[0] == local


def test_no_secret_is_kept(bucket: Bucket, folder: Path, tmp_path: Path) -> None:
    """Neither keys nor tokens are in the index, the state or the config."""
    root = bucket.put_folder(folder, "kept")
    config = config_over(root, tmp_path / "index", {"lines": MIXED["lines"]})
    _, state = run(config, steps=3)
    kept = repr(state).encode() + repr(ol.job(config, mesh="dp=2")).encode()
    kept += b"".join(path.read_bytes() for path in (tmp_path / "index").iterdir())
    for secret in KEYS.values():
        assert secret.encode() not in kept


def test_a_replaced_object_is_refused_by_name(bucket: Bucket, folder: Path, tmp_path: Path) -> None:
    """Before the first step, and in the middle of a run."""
    root = bucket.put_folder(folder, "replaced")
    config = config_over(root, tmp_path / "index", {"table": MIXED["table"]})
    config["steps"] = 500
    before = (folder / "deep" / "a.parquet").read_bytes()
    other = (folder / "deep" / "b.parquet").read_bytes()
    with (
        pytest.raises(ol.SourceChangedError, match=r"s3://corpus/replaced/deep/a\.parquet"),
        ol.job(config, mesh="dp=2").train(ranks="all") as loaders,
    ):
        for number, _ in enumerate(loaders.rounds()):
            if number == 2:
                bucket.put("replaced/deep/a.parquet", other)
    with pytest.raises(ol.SourceChangedError, match=r"s3://corpus/replaced/deep/a\.parquet"):
        run(config)
    bucket.put("replaced/deep/a.parquet", before)
    assert run(config, steps=3)[0]


def test_patterns_and_what_is_not_there(bucket: Bucket) -> None:
    """A listing is a glob's; an object, a bucket and a match that are not there are named."""
    names = [f"list/{name}" for name in ("b&b.bin", "a.bin", "deep/c d.bin", ".hidden.bin")]
    for name in names:
        bucket.put(name, b"x")
    root = "s3://corpus/list"
    assert core.list_files(f"{root}/*.bin") == [f"{root}/a.bin", f"{root}/b&b.bin"]
    assert core.list_files(f"{root}/**/c?d.bin") == [f"{root}/deep/c d.bin"]
    assert core.list_files(f"{root}/a.bin") == [f"{root}/a.bin"]
    assert core.list_files(f"{root}/{{a,b&b}}.bin") == [f"{root}/a.bin", f"{root}/b&b.bin"]
    with pytest.raises(core.NotFoundError, match=r"stands for 3 names.*list/c\.bin"):
        core.list_files(f"{root}/{{a..c}}.bin")
    for missing in (f"{root}/none.bin", f"{root}/*.none", "s3://no-such-bucket/*.bin"):
        with pytest.raises(core.NotFoundError, match=r"none|no-such-bucket"):
            core.list_files(missing)
    with pytest.raises(core.InvalidArgumentError, match=r"s3://\*\*\*@corpus"):
        core.list_files("s3://key:secret@corpus/a.bin")


def test_a_listing_has_many_pages(bucket: Bucket) -> None:
    """More objects than one answer holds."""
    for number in range(1005):
        bucket.put(f"many/{number:04}.bin", b"")
    assert len(core.list_files("s3://corpus/many/*.bin")) == 1005


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_node_hears_of_the_store(
    engine: Any, bucket: Bucket, folder: Path, tmp_path: Path, sockets: Path
) -> None:
    """A node process reads what the trainer would, and resumes where it stopped."""
    root = bucket.put_folder(folder, f"node-{engine}")
    some = {name: MIXED[name] for name in ("table", "bare", "mds_packed")}
    config = config_over(root, tmp_path / "index", some)
    config["runtime"] = {"processes": {"directory": str(sockets)}}
    local = config_over(str(folder), tmp_path / "local", some)
    expected, _ = run(local)
    with ol.job(config, mesh="dp=2").train(ranks="all", hash=True, engine=engine) as loaders:
        for _ in loaders.rounds():
            pass
        assert loaders.stream_hash() == expected


def test_requests_are_signed_as_amazon_signs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with odd letters, queries and tokens: botocore makes the same of what it sees."""
    seen: list[tuple[str, str, dict[str, str]]] = []

    class Recorder(BaseHTTPRequestHandler):
        def answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen.append((self.command, self.path, headers))
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a/token+of=the==test")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        for key in ("a b/\u00fc&+=~!'()@%41.bin", "plain", "pre fix/ü+/*.bin", "*"):
            with pytest.raises(core.NotFoundError):
                core.list_files(f"s3://corpus/{key}")
        server.shutdown()
        thread.join()
    assert [method for method, _, _ in seen] == ["HEAD", "HEAD", "GET", "GET"]
    for method, target, headers in seen:
        assert signature_of(method, target, headers) == headers["authorization"]


def signature_of(method: str, target: str, headers: dict[str, str]) -> str:
    """The header that botocore would send with this request."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    authorization = headers["authorization"]
    [signed] = re.findall(r"SignedHeaders=([^,]*)", authorization)
    names = signed.split(";")
    assert {"host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"} <= set(names)
    request = AWSRequest(
        method, f"http://{headers['host']}{target}", {name: headers[name] for name in names}
    )
    request.context["timestamp"] = headers["x-amz-date"]
    keys = Credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"])
    auth = S3SigV4Auth(keys, "s3", "eu-west-3")
    signature = auth.signature(
        auth.string_to_sign(request, auth.canonical_request(request)), request
    )
    scope = f"{keys.access_key}/{headers['x-amz-date'][:8]}/eu-west-3/s3/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={signed}, Signature={signature}"
