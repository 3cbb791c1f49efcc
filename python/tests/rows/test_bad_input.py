"""Bad manifests, files that change, states that do not fit, limits that are too low.

Numbers are those of the catalogue of bad inputs (research/reliability.md, 5).
"""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import EOD, job_config, made_up_documents, token_lines, two_sources, write_megatron
from delivered import content, documents_of, read_pieces
from overlord.cli import main

import overlord as ol

DOCUMENTS = made_up_documents(300, seed=9)
LINES = token_lines(DOCUMENTS)
TOKENS: dict[str, Any] = {"files": "*.jsonl", "tokens": "tokens", "eod": EOD}


def refusal(config: dict[str, Any], error: type[Exception]) -> str:
    """What opening the job says; before any batch."""
    with pytest.raises(error) as caught:
        ol.job(config).open_stream()
    return str(caught.value)


# The manifest


def test_a_shard_listed_twice(tmp_path: Path) -> None:
    """6: by name, by content, and over two sources."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(LINES)
    twice = {"web": {**TOKENS, "files": ["a.jsonl", "a.jsonl"]}}
    assert "allow_duplicates" in refusal(job_config(tmp_path, twice), ol.ConfigError)
    text = refusal(job_config(tmp_path, {"web": TOKENS}), ol.InvalidArgumentError)
    assert "a.jsonl" in text and "b.jsonl" in text and "same content" in text
    shared = {"one": {**TOKENS, "files": "a.jsonl"}, "two": {**TOKENS, "files": "a.jsonl"}}
    text = refusal(job_config(tmp_path, shared), ol.ConfigError)
    assert "belongs to source one" in text and "sources.two.allow_duplicates" in text


@pytest.mark.parametrize("files", [["a.jsonl", "a.jsonl"], ["a.jsonl", "b.jsonl"]])
def test_duplicates_may_be_declared(files: list[str], tmp_path: Path) -> None:
    """6: then every row comes once for each time it is listed."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(LINES)
    source = {**TOKENS, "files": files, "allow_duplicates": True}
    with ol.job(job_config(tmp_path, {"web": source})).train() as loader:
        delivered = sorted(d.tolist() for d in documents_of(read_pieces(loader)).values())
    assert delivered == sorted([*d.tolist(), EOD] for d in DOCUMENTS for _ in range(2))


def test_two_sources_may_share_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    sources = {
        "one": {**TOKENS, "files": "a.jsonl"},
        "two": {**TOKENS, "files": "a.jsonl", "allow_duplicates": True},
    }
    with ol.job(job_config(tmp_path, sources)).train() as loader:
        assert next(loader).num_docs > 0


NO_FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "15 nothing matches": ("*.nope", ("no file matches", "sources.web.files.0")),
    "15 a missing file": ("missing.jsonl", ("missing.jsonl", "sources.web.files.0")),
    "15 a marker file": ("marked/*", ("_SUCCESS", "sources.web.files.0")),
    "15 a checksum file": ("checked/*", (".crc", "sources.web.files.0")),
    "15 a folder": ("marked", ("directory", "sources.web.files.0")),
}


@pytest.mark.parametrize("entry", NO_FILES)
def test_patterns_that_match_no_data(entry: str, tmp_path: Path) -> None:
    pattern, parts = NO_FILES[entry]
    for folder, extra in (("marked", "_SUCCESS"), ("checked", ".a.jsonl.crc")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_bytes(LINES)
        (tmp_path / folder / extra).write_bytes(b"")
    source = {**TOKENS, "files": pattern, "format": "jsonl"}
    text = refusal(job_config(tmp_path, {"web": source}), ol.ConfigError)
    assert all(part in text for part in parts)


@pytest.mark.parametrize("data", [b"", b"\n\r\n  \n"])
def test_a_source_without_rows(data: bytes, tmp_path: Path) -> None:
    """16: refused at the start; an empty shard beside a full one is fine."""
    (tmp_path / "a.jsonl").write_bytes(data)
    config = job_config(tmp_path, {"web": TOKENS})
    text = refusal(config, ol.InvalidArgumentError)
    assert "web" in text and "no rows" in text
    (tmp_path / "b.jsonl").write_bytes(LINES)
    assert ol.job(config).open_stream().infos[0]["rows"] == 300


def test_the_order_of_a_listing_does_not_matter(tmp_path: Path) -> None:
    """63: the manifest is sorted: whoever lists, and in which order files were made."""
    hashes = set()
    for number, order in enumerate(([0, 1, 2], [2, 0, 1])):
        folder = tmp_path / f"run{number}" / "data"
        folder.mkdir(parents=True)
        for shard in order:
            part = DOCUMENTS[shard * 100 : shard * 100 + 100]
            (folder / f"{shard}.jsonl").write_bytes(token_lines(part))
        listed = [f"{shard}.jsonl" for shard in order]
        for files in ("*.jsonl", listed):
            source = {**TOKENS, "files": files, "window_rows": 16}
            with ol.job(job_config(folder, {"web": source})).train(hash=True) as loader:
                for _ in loader:
                    pass
                hashes.add(loader.stream_hash())
    assert len(hashes) == 1


def test_files_that_come_and_go(tmp_path: Path) -> None:
    """63: a listing that is not that of the index is reported, not taken over silently."""
    for shard in range(3):
        part = DOCUMENTS[shard * 100 : shard * 100 + 100]
        (tmp_path / f"{shard}.jsonl").write_bytes(token_lines(part))
    config = job_config(tmp_path, {"web": TOKENS})
    ol.job(config).open_stream()
    (tmp_path / "3.jsonl").write_bytes(token_lines(DOCUMENTS[:7]))
    text = refusal(config, ol.SourceChangedError)
    assert "web" in text and "3.jsonl appeared" in text and "overlord index" in text
    (tmp_path / "3.jsonl").unlink()
    (tmp_path / "1.jsonl").unlink()
    text = refusal(config, ol.SourceChangedError)
    assert "web" in text and "1.jsonl" in text and "vanished" in text


# 40: a shard that is not what it was


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(path.read_bytes()[-40:])


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def rewritten(path: Path) -> None:
    path.write_bytes(bytes(reversed(path.read_bytes())))


def replaced_by_rename(path: Path) -> None:
    other = path.with_name("other.tmp")
    other.write_bytes(bytes(reversed(path.read_bytes())))
    other.rename(path)


def deleted(path: Path) -> None:
    path.unlink()


def same_size_and_time(path: Path) -> None:
    """Another content under the old modification time."""
    before = path.stat()
    rewritten(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: list[Callable[[Path], None]] = [
    grown,
    cut_short,
    rewritten,
    replaced_by_rename,
    deleted,
    same_size_and_time,
]


def write_shards(folder: Path, suffix: str) -> dict[str, Any]:
    """Three shards of a format; the source over them reads each again and again."""
    for shard in range(3):
        documents = DOCUMENTS[shard * 100 : shard * 100 + 100]
        if suffix == "bin":
            write_megatron(folder / str(shard), [[document] for document in documents], "uint16")
        elif suffix == "parquet":
            lists = pa.array([d.tolist() for d in documents], pa.list_(pa.int32()))
            pq.write_table(pa.table({"tokens": lists}), folder / f"{shard}.parquet")
        else:
            (folder / f"{shard}.jsonl").write_bytes(token_lines(documents))
    column = {} if suffix == "bin" else {"tokens": "tokens"}
    source = {"files": f"*.{suffix}", "eod": EOD, "window_rows": 16, "at_end": "repeat", **column}
    return job_config(folder, {"web": source}, runtime={"payload_budget": 1})


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "bin"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_before_the_first_batch(
    change: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    config = write_shards(tmp_path, suffix)
    ol.job(config).open_stream()
    change(tmp_path / f"1.{suffix}")
    text = refusal(config, ol.SourceChangedError)
    assert "web" in text and f"1.{suffix}" in text and "index" in text


@pytest.mark.parametrize("change", [grown, cut_short, deleted], ids=lambda change: change.__name__)
def test_a_change_of_an_idx(change: Callable[[Path], None], tmp_path: Path) -> None:
    config = write_shards(tmp_path, "bin")
    ol.job(config).open_stream()
    change(tmp_path / "1.idx")
    text = refusal(config, ol.SourceChangedError)
    assert "web" in text and "1.idx" in text


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "bin"])
@pytest.mark.parametrize("change", CHANGES[:-1], ids=lambda change: change.__name__)
def test_a_change_during_the_run(
    change: Callable[[Path], None], suffix: str, tmp_path: Path
) -> None:
    """Batches up to the change are those of the unchanged files; then the shard is named."""
    config = write_shards(tmp_path, suffix)
    with ol.job(config).train() as loader:
        expected = [content(next(loader)) for _ in range(400)]
    delivered = []
    with ol.job(config).train() as loader:
        delivered += [content(next(loader)) for _ in range(8)]
        change(tmp_path / f"1.{suffix}")
        with pytest.raises(ol.SourceChangedError) as caught:
            while len(delivered) < len(expected):
                delivered.append(content(next(loader)))
        text = str(caught.value)
        assert "web" in text and f"1.{suffix}" in text and "index" in text
        with pytest.raises(ol.SourceChangedError):  # it stays so
            next(loader)
    assert delivered == expected[: len(delivered)]


def test_an_index_of_another_config(tmp_path: Path) -> None:
    """Each has its own, beside the other's."""
    (tmp_path / "a.jsonl").write_bytes(b'{"tokens":[1],"other":[2]}\n')
    ol.job(job_config(tmp_path, {"web": TOKENS})).open_stream()
    other = job_config(tmp_path, {"web": {**TOKENS, "tokens": "other"}})
    ol.job(other).open_stream()
    assert len([*(tmp_path / "index").glob("web-*.index")]) == 2


# 24: states


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ol.Job:
    return ol.job(two_sources(tmp_path_factory.mktemp("states")).config(at_end="repeat"))


@pytest.fixture(scope="module")
def state(job: ol.Job) -> dict[str, Any]:
    with job.train() as loader:
        for _, _ in zip(loader.steps(), range(3), strict=False):
            pass
        return loader.state_dict()


def check_refused(job: ol.Job, state: Any, error: Any = ol.OverlordError) -> str:
    with job.train() as loader:
        with pytest.raises(error) as caught:
            loader.load_state_dict(state)
        assert next(loader).step == 0  # nothing of it was taken over
    return str(caught.value)


def test_any_changed_byte_of_a_state_is_refused(job: ol.Job, state: dict[str, Any]) -> None:
    blob = base64.b64decode(state["blob"])
    with job.train() as loader:
        for at in range(len(blob)):
            changed = blob[:at] + bytes([blob[at] ^ (1 << at % 8)]) + blob[at + 1 :]
            text = base64.b64encode(changed).decode()
            with pytest.raises(ol.OverlordError):
                loader.load_state_dict({**state, "blob": text})


def test_any_truncation_of_a_state_is_refused(job: ol.Job, state: dict[str, Any]) -> None:
    blob = base64.b64decode(state["blob"])
    with job.train() as loader:
        for size in [*range(0, len(blob), 7), len(blob) - 1]:
            text = base64.b64encode(blob[:size]).decode()
            with pytest.raises(ol.OverlordError, match=r"trunc|edit|not an Overlord state"):
                loader.load_state_dict({**state, "blob": text})
        with pytest.raises(ol.OverlordError):
            loader.load_state_dict({**state, "blob": base64.b64encode(blob + b"\0").decode()})


STRANGE: list[Any] = [None, [], "text", {}, {"format": "overlord-state/1"}, {"format": 1}]


@pytest.mark.parametrize("strange", STRANGE, ids=repr)
def test_what_is_no_state(strange: Any, job: ol.Job) -> None:
    assert "state" in check_refused(job, strange, (ol.StateMismatchError, ol.BadDataError))


def test_every_readable_field_is_checked(job: ol.Job, state: dict[str, Any]) -> None:
    """Hand-edited: the readable part and the blob must say the same."""
    for key, value in state.items():
        edited = copy.deepcopy(state)
        if key == "blob":
            continue
        if isinstance(value, dict):
            first = sorted(value)[0]
            inner = value[first]
            edited[key][first] = {**inner, "position": 1} if isinstance(inner, dict) else "0" * 32
        else:
            edited[key] = value + 1 if isinstance(value, int) else value + "x"
        assert key in check_refused(job, edited)


def test_newer_formats_name_both_versions(job: ol.Job, state: dict[str, Any]) -> None:
    text = check_refused(job, {**state, "format": "overlord-state/9"}, ol.VersionMismatchError)
    assert "overlord-state/9" in text and "overlord-state/1" in text


def test_a_state_of_other_data(tmp_path: Path) -> None:
    """The same config over other files: the digests of the source are shown."""
    corpus = two_sources(tmp_path)
    with ol.job(corpus.config()).train() as loader:
        next(loader)
        state = loader.state_dict()
    (tmp_path / "web.jsonl").write_bytes(token_lines(DOCUMENTS))
    shutil.rmtree(tmp_path / "index")
    text = check_refused(ol.job(corpus.config()), state, ol.StateMismatchError)
    assert "data of source web" in text and "source code" not in text
    assert len(re.findall(r"\b[0-9a-f]{12,}\b", text)) >= 2


def test_steps_outside_of_the_stream(tmp_path: Path) -> None:
    """26: past the end, and before a cursor, with the valid range."""
    corpus = two_sources(tmp_path)
    job = ol.job(corpus.config(steps=5, at_end="repeat"))
    planner = job.open_stream().native.planner(None, [])
    with pytest.raises(ol.OutOfRangeError, match=r"step 9 .*5") as caught:
        planner.seek(9)
    assert isinstance(caught.value, IndexError)
    with pytest.raises(ol.OutOfRangeError, match="step 2"):
        planner.seek(2)
    with job.train() as loader:
        for _ in loader:
            pass
        ended = loader.state_dict()
    with job.train() as loader:
        loader.load_state_dict(ended)
        assert next(loader, None) is None and loader.state_dict() == ended


# 32: limits of the process

LIMITED = """
import json, os, resource, sys
import overlord as ol
config, what = json.loads(sys.argv[1]), sys.argv[2]
job = ol.job(config)
opened = job.open_stream()
try:
    if what == "threads":
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        if os.geteuid() == 0:
            os.setuid(65534)
    else:
        used = len(os.listdir("/proc/self/fd"))
        room = int(what)
        resource.setrlimit(resource.RLIMIT_NOFILE, (used - 1 + room, used - 1 + room))
    with job.train(hash=True) as loader:
        for batch in loader:
            pass
        print(json.dumps(["served", loader.content_hash()]))
except Exception as error:
    kinds = [kind.__name__ for kind in type(error).__mro__]
    print(json.dumps([*kinds, str(error)]))
"""


def many_shards(folder: Path) -> dict[str, Any]:
    for shard in range(12):
        part = DOCUMENTS[shard * 25 : shard * 25 + 25]
        (folder / f"{shard:02d}.jsonl").write_bytes(token_lines(part))
    source = {**TOKENS, "window_rows": 16}
    return job_config(folder, {"web": source}, runtime={"payload_budget": 1})


def run_limited(config: dict[str, Any], what: str) -> list[str]:
    command = [sys.executable, "-c", LIMITED, json.dumps(config), what]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    answer: list[str] = json.loads(run.stdout)
    return answer


def test_too_few_threads(tmp_path: Path) -> None:
    """A typed error that says so; not an abort."""
    answer = run_limited(many_shards(tmp_path), "threads")
    assert "ResourceError" in answer and "thread" in answer[-1]


def test_too_few_file_descriptors(tmp_path: Path) -> None:
    """None left: an error that names the limit. A few: they are used in turn."""
    config = many_shards(tmp_path)
    answer = run_limited(config, "0")
    assert "ResourceError" in answer and "ulimit -n" in answer[-1]
    few, many = run_limited(config, "3"), run_limited(config, "50")
    assert few == many and many[0] == "served"


# The folder of the indexes. Root may write anywhere, so files and /proc stand in the way.


@pytest.mark.parametrize(
    ("folder", "wrong"),
    [
        ("a.jsonl", "a.jsonl is not a folder"),
        ("a.jsonl/below/it", "a.jsonl is not a folder"),
        ("dangling", "dangling is not a folder"),
    ],
)
def test_an_index_folder_that_cannot_be_is_refused_at_once(
    tmp_path: Path, folder: str, wrong: str
) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    source = {"web": {**TOKENS, "files": "a.jsonl"}}
    config = {**job_config(tmp_path, source), "index_dir": str(tmp_path / folder)}
    with pytest.raises(ol.ConfigError, match=wrong) as caught:
        ol.job(config)
    assert "index_dir: " in str(caught.value) and "set index_dir to" in str(caught.value)


@pytest.mark.parametrize("folder", ["/proc/overlord", "/proc/self", "/proc/self/fd/below"])
def test_an_index_folder_that_may_not_be_written(
    tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    source = {"web": {**TOKENS, "files": str(tmp_path / "a.jsonl")}}
    config = {**job_config(tmp_path, source), "index_dir": folder}
    text = refusal(config, ol.ConfigError)
    assert text.startswith("index_dir: ") and folder in text and "set index_dir to" in text
    path = tmp_path / "mix.json"
    path.write_text(json.dumps(config))
    assert main(["index", str(path)]) != 0
    shown = capsys.readouterr()
    assert "index_dir" in shown.err.replace("\n", " ") and "Traceback" not in shown.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_index_folder_below_a_read_only_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    source = {"web": {**TOKENS, "files": "a.jsonl"}}
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    config = {**job_config(tmp_path, source), "index_dir": str(locked / "index")}
    with pytest.raises(ol.ConfigError, match=r"index_dir: .*locked may not be written to"):
        ol.job(config)


# The command line: the message, no traceback, an exit code that is not 0


def changed_source(folder: Path, config: Path) -> str:
    (folder / "a.jsonl").write_bytes(LINES)
    assert main(["index", str(config)]) == 0
    grown(folder / "a.jsonl")
    return "grew"


def broken_row(folder: Path, config: Path) -> str:
    (folder / "a.jsonl").write_bytes(LINES + b"{broken")
    return "row 300"


def no_rows(folder: Path, config: Path) -> str:
    (folder / "a.jsonl").write_bytes(b"")
    return "no rows"


def no_file(folder: Path, config: Path) -> str:
    return "a.jsonl"


@pytest.mark.parametrize("prepare", [changed_source, broken_row, no_rows, no_file])
def test_the_command_line_refuses(
    prepare: Callable[[Path, Path], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mix.json"
    source = {**TOKENS, "files": "a.jsonl"}
    config.write_text(json.dumps(job_config(tmp_path, {"web": source}, at_end="repeat")))
    part = prepare(tmp_path, config)
    capsys.readouterr()
    code = main(["run", str(config), "--steps", "200", "--no-live"])
    shown = capsys.readouterr()
    assert code not in (0, None)
    assert part in shown.err.replace("\n", " ") and "web" in shown.err
    assert "Traceback" not in shown.err + shown.out
