"""Users' transforms: the same stream in every lane and engine, and bad functions cost one row.

Numbers are those of the catalogue of bad inputs (research/reliability.md, 5: 57 and 58).
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from corpora import EOD, json_lines, made_up_texts
from delivered import documents_of, pieces_of
from own_transforms import BOOM, loud
from trainers import in_time, until_nothing_left

import overlord as ol

ROWS = 300
TEXTS = made_up_texts(ROWS, seed=4)


def config_of(folder: Path, transform: Any, texts: list[str] | None = None, **source: Any) -> Any:
    """A job over one source of text with a transform."""
    data = json_lines({"t": text} for text in texts or TEXTS)
    path = folder / "a.jsonl"
    if not path.exists() or path.read_bytes() != data:  # a file that is written again is refused
        path.write_bytes(data)
    own = {"files": str(folder / "a.jsonl"), "text": "t", "tokenizer": "bytes", "eod": EOD}
    if transform is not None:
        own["transform"] = transform
    return {
        "job": "transforms",
        "seed": 7,
        "context": 64,
        "bins": 4,
        "vocabulary": 1000,
        "at_end": "stop",
        "index_dir": str(folder / "index"),
        "mixture": {"weights": {"web": 1}},
        "sources": {"web": {**own, **source}},
    }


def read(
    config: Any, engine: str = "embedded", threads: int | None = None, **options: Any
) -> tuple[str, dict[int, bytes], dict[int, str]]:
    """Hash, documents by row without their ends, and reasons of bad rows by row."""
    job = ol.job(config, **options)
    loader = job.train(rank=0, engine=engine, hash=True, threads=threads)
    try:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        bad = {note["row"]: note["reason"] for note in loader.quarantine()}
        native = job.open_stream().native
        documents = {
            native.locate(0, id[1], id[2])["row"]: bytes(tokens[:-1].astype("uint8"))
            for id, tokens in documents_of(pieces).items()
        }
        return loader.rank_hash(), documents, bad
    finally:
        loader.close()


# Other tests run beside these, and have workers of their own: ours inherit this.
os.environ["OVERLORD_TESTS_OF"] = str(os.getpid())
_MARK = f"OVERLORD_TESTS_OF={os.getpid()}".encode()


def workers() -> list[int]:
    """Transform workers that this process, or one under it, has started and that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"_workers/transform_worker.py" in words and _MARK in environment:
                found.append(int(entry.name))
    return found


@pytest.fixture(autouse=True)
def nobody_is_left(request: pytest.FixtureRequest) -> Any:
    """Every test ends without a worker."""
    before = set(workers())
    yield
    in_time(lambda: not set(workers()) - before, "all transform workers are gone")


def expected_mixed() -> tuple[dict[int, bytes], set[int]]:
    """What `mixed` leaves of the texts, and the rows that it drops."""
    dropped = {row for row, text in enumerate(TEXTS) if text[-1] == "7"}
    kept = {row: text.upper().encode() for row, text in enumerate(TEXTS) if row not in dropped}
    return kept, dropped


@pytest.mark.parametrize("function", ["mixed", "mixed_thread"])
def test_texts_tokens_and_dropped_rows(tmp_path: Path, function: str) -> None:
    config = config_of(tmp_path, f"own_transforms:{function}", bad_rows_allowed=ROWS)
    kept, dropped = expected_mixed()
    _, documents, bad = read(config)
    assert documents == kept
    assert set(bad) == dropped
    for row, reason in bad.items():
        assert f"row {row}: dropped by transform own_transforms:{function}" in reason


def test_one_stream_in_every_lane_and_engine(tmp_path: Path, sockets: Path) -> None:
    config = config_of(tmp_path, "own_transforms:mixed", bad_rows_allowed=ROWS)
    config["runtime"] = {"processes": {"directory": str(sockets)}}
    first, documents, bad = read(config)
    many = {"function": "own_transforms:mixed", "workers": 3, "batch": 5, "check_every": 2}
    config["sources"]["web"] |= {"transform": many, "loaders": 3, "workers": 4}
    assert read(config, threads=3) == (first, documents, bad)
    assert read(config, engine="processes")[0] == first
    config["runtime"]["processes"]["loaders"] = 2
    assert read(config, engine="processes")[0] == first
    until_nothing_left(sockets, "the node is gone")


def test_threads_where_each_rank_plans_for_itself(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_transforms:mixed_thread", bad_rows_allowed=ROWS)

    def read_by(ranks: Any) -> dict[int, str]:
        with ol.job(config, mesh="dp=2").train(ranks=ranks, engine="embedded", hash=True) as read:
            for _ in read.steps():
                pass
            return {rank: loader.rank_hash() for rank, loader in read.items()}

    assert read_by([0]) | read_by([1]) == read_by("all")


def test_a_lane_is_no_part_of_the_stream_a_version_is(tmp_path: Path) -> None:
    digests = {}
    for function in ("loud", "loud_again", "loud_thread"):
        config = config_of(tmp_path, f"own_transforms:{function}")
        opened = ol.job(config).open_stream()
        digests[function] = opened.native.section_digests()["source:web"]
    assert len(set(digests.values())) == 3  # two names, two versions
    config["sources"]["web"]["transform"] = {"function": "own_transforms:loud", "workers": 7}
    opened = ol.job(config).open_stream()
    assert opened.native.section_digests()["source:web"] == digests["loud"]


def test_rows_as_dicts_and_functions_that_are_passed(tmp_path: Path) -> None:
    by_name = read(config_of(tmp_path, "own_transforms:loud"))
    assert read(config_of(tmp_path, "own_transforms:from_dicts"))[1] == by_name[1]
    assert read(config_of(tmp_path, "mine"), transforms={"mine": loud}) == by_name

    @ol.transform(version=1, lane="thread")
    def local(rows: list[str]) -> list[str]:
        return [row.upper() for row in rows]

    passed = read(config_of(tmp_path, "mine"), transforms={"mine": local})
    assert passed[1] == by_name[1]


def test_lengths_may_come_from_the_index(tmp_path: Path) -> None:
    from overlord._src.config.reading import read_config
    from overlord._src.index import indexing

    config = config_of(tmp_path, "own_transforms:mixed", bad_rows_allowed=ROWS)
    kept, dropped = expected_mixed()
    job = ol.job(config)
    sources = job.open_stream().sources
    indexing.build_indexes(read_config(config), sources, lengths=True)
    _, documents, bad = read(config)
    assert documents == kept and set(bad) == dropped
    config["sources"]["web"]["transform"] = "own_transforms:loud"
    assert not ol.job(config).open_stream().infos[0]["has_lengths"]  # an index of its own


def test_planning_without_an_engine_runs_it_too(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_transforms:mixed_thread", bad_rows_allowed=ROWS)
    opened = ol.job(config).open_stream()
    cursor = opened.cursor()
    assert cursor.next() is not None


REASONS = {
    "exits": "exit status 7",
    "kills": "signal 9",
    "leaves": "exit status 5",
    "hangs": "did not answer within its deadline of 5.0 s",
    "eats": "used more than its limit of 256 MiB",
    "raises": "raised ValueError: no such thing at ",
    "short": "answered 0 rows for 1; give None for one to drop",
    "floats": "answered float for a row; allowed: str, token ids, None",
    "raises_thread": "raised ValueError: no such thing at ",
}


@pytest.mark.parametrize("function", REASONS)
def test_58_a_function_that_cannot_bear_a_row_costs_that_row(tmp_path: Path, function: str) -> None:
    texts = list(TEXTS[:60])
    texts[17] = f"{BOOM} 17"
    transform = {
        "function": f"own_transforms:{function}",
        "batch": 2 if function == "hangs" else 16,
        "memory": "256MiB",
        "deadline_seconds": 5 if function == "hangs" else 100,
    }
    config = config_of(tmp_path, transform, texts, bad_rows_allowed=1)
    _, documents, bad = read(config)
    assert documents == {row: text.upper().encode() for row, text in enumerate(texts) if row != 17}
    assert list(bad) == [17]
    assert f"transform own_transforms:{function}" in bad[17] and "row 17:" in bad[17]
    assert REASONS[function] in bad[17]


def test_58_the_same_under_processes(tmp_path: Path, sockets: Path) -> None:
    texts = list(TEXTS[:60])
    texts[17] = f"{BOOM} 17"
    config = config_of(tmp_path, "own_transforms:exits", texts, bad_rows_allowed=1)
    config["runtime"] = {"processes": {"directory": str(sockets)}}
    assert read(config, engine="processes")[0] == read(config)[0]
    until_nothing_left(sockets, "the node is gone")


def test_a_killed_worker_costs_no_row(tmp_path: Path) -> None:
    texts = made_up_texts(4000, seed=6)
    transform = {"function": "own_transforms:loud", "batch": 8, "workers": 2}
    config = config_of(tmp_path, transform, texts, window_rows=64)
    expected = read(config)
    before = set(workers())
    loader = ol.job(config).train(rank=0, engine="embedded", hash=True, prefetch=1)
    for n, _ in enumerate(loader):
        if n == 10:  # once: workers that never come to answer end the stream
            for pid in set(workers()) - before:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
    assert loader.quarantine() == []
    assert loader.rank_hash() == expected[0]
    loader.close()


@pytest.mark.parametrize("function", ["counts_calls", "looks_at_neighbours"])
def test_57_a_function_that_is_not_deterministic_is_named(tmp_path: Path, function: str) -> None:
    transform = {"function": f"own_transforms:{function}", "check_every": 1}
    config = config_of(tmp_path, transform)
    with pytest.raises(ol.UserFunctionError, match=f"own_transforms:{function} is not determin"):
        read(config)


def test_a_function_that_always_dies_ends_the_stream(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_transforms:dies_at_once")
    with pytest.raises(ol.UserFunctionError, match=r"own_transforms:dies_at_once.*a last word"):
        read(config)


def test_a_thread_that_hangs_ends_the_stream_and_not_the_process(tmp_path: Path) -> None:
    transform = {"function": "own_transforms:hangs_thread", "deadline_seconds": 0.3}
    with pytest.raises(ol.UserFunctionError, match='lane="process"'):
        read(config_of(tmp_path, transform))


def test_where_several_plan_a_crash_decides_nothing(tmp_path: Path) -> None:
    texts = [*TEXTS[:30], BOOM, *TEXTS[30:60]]
    config = config_of(tmp_path, "own_transforms:exits", texts, bad_rows_allowed=5)
    loader = ol.job(config, mesh=ol.mesh(dp=2)).train(rank=0, engine="embedded")
    with pytest.raises(ol.UserFunctionError, match="needs one planner"):
        list(loader)
    loader.close()


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        ("own_transforms:no_transform", "is no transform"),
        ("own_transforms:nobody", "cannot be imported: AttributeError"),
        ("no_such_module:f", "cannot be imported: ModuleNotFoundError"),
        ("bare", "names no module"),
        ({"function": "own_transforms:loud", "workers": 0}, "workers"),
        ({"function": "own_transforms:loud", "deadline_seconds": 0}, "deadline_seconds"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(
    tmp_path: Path, transform: Any, words: str
) -> None:
    with pytest.raises(ol.ConfigError, match=words):
        ol.job(config_of(tmp_path, transform)).open_stream()


BESIDE = """
import random, numpy, types
import beside_constants
import overlord as ol

@ol.transform(version="1")
def {name}(rows):
    assert random.Random(1).random() > 0 and numpy.arange(3).sum() == 3 and types.ModuleType
    return [row + beside_constants.TAIL for row in rows]
"""


def written_beside(folder: Path, name: str) -> Path:
    """A config with a module of a transform beside it, and files that have names of packages."""
    for taken in ("random", "numpy", "types", "json", "array", "struct", "overlord"):
        (folder / f"{taken}.py").write_text("raise ImportError('a file beside the config')\n")
    (folder / "beside_constants.py").write_text("TAIL = '!'\n")
    (folder / f"{name}.py").write_text(BESIDE.format(name=name))
    path = folder / "mix.yaml"
    path.write_text(json.dumps(config_of(folder, f"{name}:{name}")))
    return path


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_files_beside_the_config_shadow_nothing(
    tmp_path: Path, sockets: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Python itself would look there first, as from `python -m`."""
    monkeypatch.delitem(sys.modules, "beside_constants", raising=False)
    path = written_beside(tmp_path, f"beside_{engine}")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    changes = {"runtime.processes.directory": str(sockets)}
    _, documents, bad = read(path, engine, overrides=changes)
    assert not bad and documents == {row: f"{text}!".encode() for row, text in enumerate(TEXTS)}
    if engine == "processes":
        until_nothing_left(sockets, "the node is gone")


@pytest.mark.parametrize("taken", ["random", "time"])
def test_a_module_that_python_has_already_is_refused(tmp_path: Path, taken: str) -> None:
    written_beside(tmp_path, "beside_taken")
    (tmp_path / f"{taken}.py").write_text(BESIDE.format(name="clean"))
    path = tmp_path / "taken.yaml"
    path.write_text(json.dumps(config_of(tmp_path, f"{taken}:clean")))
    with pytest.raises(ol.ConfigError, match=f"hides it.*give {taken}.py another name"):
        ol.job(path).open_stream()


def test_a_node_has_no_threads_of_python(tmp_path: Path) -> None:
    job = ol.job(config_of(tmp_path, "own_transforms:loud_thread"))
    with pytest.raises(ol.ConfigError, match="a node has no Python"):
        job.train(rank=0, engine="processes")


def test_a_source_of_tokens_has_no_text_to_transform(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_transforms:loud")
    source = config["sources"]["web"]
    del source["text"], source["tokenizer"]
    source["tokens"] = "t"
    with pytest.raises(ol.ConfigError, match="holds tokens"):
        ol.job(config)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [({"version": ""}, TypeError), ({"version": True}, TypeError), ({"lane": "gpu"}, ValueError)],
)
def test_decorators_say_what_is_wrong(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ol.transform(**{"version": "1", **wrong})
