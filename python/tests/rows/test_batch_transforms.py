"""Functions over microbatches: made once before slicing, one stream everywhere, failures end it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import EOD, json_lines, made_up_texts
from own_batch_transforms import MASK
from test_media_stream import made_up_pairs, pairs_config, train
from test_transforms import workers
from trainers import in_time, kill_all, until_nothing_left

import overlord as ol

TEXTS = made_up_texts(400, seed=5)
STEPS = 6
CONTEXT = 64


def config_of(folder: Path, function: Any, **options: Any) -> Any:
    """A job over one source of text whose microbatches go through a function."""
    path = folder / "a.jsonl"
    if not path.exists():
        path.write_bytes(json_lines({"t": text} for text in TEXTS))
    own = {"files": str(path), "text": "t", "tokenizer": "bytes", "eod": EOD}
    config = {
        "job": "batches",
        "seed": 7,
        "context": CONTEXT,
        "bins": 8,
        "align": 8,
        "steps": STEPS,
        "vocabulary": 1000,
        "at_end": "repeat",
        "index_dir": str(folder / "index"),
        "mixture": {"weights": {"web": 1}},
        "sources": {"web": own},
        "delivery": {"microbatch_size": 2, "token_dtype": "int32", "loss_dtype": "float32"},
    }
    if function is not None:
        config["batch_transform"] = function
    return {**config, **options}


Rows = dict[tuple[int, int, int], dict[str, Any]]  # by rank, step, microbatch


def fields(batch: Any) -> dict[str, Any]:
    """Copies of what a rank sees."""
    names = ("tokens", "targets", "loss_weights", "positions")
    return {name: np.array(getattr(batch, name)) for name in names}


def read(config: Any, engine: str = "embedded", **mesh: int) -> tuple[str, Rows]:
    """The stream's hash, and what ranks got."""
    job = ol.job(config, mesh=ol.mesh(**mesh))
    loaders = job.train(ranks="all", engine=engine, hash=True)
    rows: Rows = {}
    try:
        for batches in loaders.rounds():
            for rank, batch in batches.items():
                rows[rank, batch.step, batch.microbatch] = fields(batch)
        return loaders.stream_hash(), rows
    finally:
        loaders.close()


def failure(config: Any, engine: str = "embedded", **mesh: int) -> str:
    """How a stream ends that must not go on."""
    job = ol.job(config, mesh=ol.mesh(**mesh))
    loaders = job.train(ranks="all", engine=engine)
    try:
        with pytest.raises(ol.UserFunctionError) as caught:
            for _ in loaders.rounds():
                pass
        return str(caught.value)
    finally:
        loaders.close()


def expected(plain: dict[str, Any], got: dict[str, Any]) -> None:
    """`got` is `plain` with some tokens masked, which alone carry loss."""
    chosen = got["tokens"] == MASK
    assert chosen.any()
    np.testing.assert_array_equal(got["tokens"][~chosen], plain["tokens"][~chosen])
    np.testing.assert_array_equal(got["targets"], plain["targets"])
    np.testing.assert_array_equal(got["positions"], plain["positions"])
    np.testing.assert_array_equal(got["loss_weights"], plain["loss_weights"] * chosen)


def test_a_microbatch_is_masked_before_it_is_shared(tmp_path: Path) -> None:
    _, plain = read(config_of(tmp_path, None), dp=2)
    _, rows = read(config_of(tmp_path, "own_batch_transforms:masked"), dp=2)
    assert rows.keys() == plain.keys()
    for place, got in rows.items():
        expected(plain[place], got)
    masks = [got["tokens"] == MASK for got in rows.values()]
    assert len({mask.tobytes() for mask in masks}) == len(masks)  # every key is another


def test_one_stream_in_every_lane_and_engine(tmp_path: Path, sockets: Path) -> None:
    runtime = {"processes": {"directory": str(sockets)}}
    config = config_of(tmp_path, "own_batch_transforms:masked", runtime=runtime)
    hashes, rows = read(config, dp=2)
    config["batch_transform"] = {
        "function": "own_batch_transforms:masked",
        "workers": 3,
        "check_every": 2,
    }
    assert read(config, dp=2)[0] == hashes
    assert read(config, engine="processes", dp=2)[0] == hashes
    config["batch_transform"] = "own_batch_transforms:masked_thread"
    _, same = read(config, dp=2)
    for place, got in rows.items():
        for name, array in got.items():
            np.testing.assert_array_equal(same[place][name], array)
    until_nothing_left(sockets, "the node is gone")


def test_slices_come_from_the_transformed_batch(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_batch_transforms:masked")
    _, whole = read(config, dp=2)
    _, sliced = read(config, dp=2, cp=2, tp=2)
    for (rank, step, index), got in sliced.items():
        group, cp = rank // 4, rank % 4 // 2
        chunk = CONTEXT // 4
        for name, array in whole[group, step, index].items():
            parts = [array[:, c * chunk : (c + 1) * chunk] for c in (cp, 3 - cp)]
            np.testing.assert_array_equal(got[name], np.concatenate(parts, axis=1))


def test_chance_by_document_is_the_same_on_every_mesh(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_batch_transforms:shifted")
    rows = []
    for mesh in ({"dp": 1}, {"dp": 4}):
        _, got = read(config, **mesh)
        sequences: dict[int, list[bytes]] = {}
        for (_, step, _), batch in got.items():
            sequences.setdefault(step, []).extend(row.tobytes() for row in batch["tokens"])
        rows.append({step: sorted(found) for step, found in sequences.items()})
    assert rows[0] == rows[1]


def test_what_a_rank_gets_does_not_hang_on_who_is_hosted(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_batch_transforms:described")
    mesh = ol.mesh(pp=2, dp=2)
    both = ol.job(config, mesh=mesh).train(ranks="all", hash=True)
    try:
        for _ in both.rounds():
            pass
        hashes = [both[rank].rank_hash() for rank in both]
    finally:
        both.close()
    last = ol.job(config, mesh=mesh).train(rank=3, hash=True)  # of the stage that has targets only
    try:
        for batch in last:
            assert batch.targets is not None
        assert last.rank_hash() == hashes[3]
    finally:
        last.close()


def test_nothing_changed_is_the_same_bytes(tmp_path: Path) -> None:
    _, plain = read(config_of(tmp_path, None))
    _, rows = read(config_of(tmp_path, "own_batch_transforms:untouched"))
    for place, got in rows.items():
        for name, array in got.items():
            np.testing.assert_array_equal(plain[place][name], array)


def test_a_resumed_run_makes_the_same(tmp_path: Path) -> None:
    config = config_of(tmp_path, "own_batch_transforms:masked")
    _, whole = read(config)
    loader = ol.job(config).train(rank=0)
    try:
        for batch in loader:
            if batch.step == 2 and batch.microbatch == 1:
                break
        state = loader.state_dict()
    finally:
        loader.close()
    again = ol.job(config).train(rank=0)
    try:
        again.load_state_dict(state)
        rest = {(0, batch.step, batch.microbatch): fields(batch) for batch in again}
    finally:
        again.close()
    assert rest and set(rest) == {place for place in whole if place[1:] > (2, 1)}
    for place, got in rest.items():
        np.testing.assert_array_equal(got["tokens"], whole[place]["tokens"])
        np.testing.assert_array_equal(got["loss_weights"], whole[place]["loss_weights"])
    config["batch_transform"] = "own_batch_transforms:masked_again"
    other = ol.job(config).train(rank=0)
    try:
        with pytest.raises(ol.StateMismatchError, match="stream"):
            other.load_state_dict(state)
    finally:
        other.close()


def test_a_killed_constructor_changes_nothing(tmp_path: Path, sockets: Path) -> None:
    runtime = {"processes": {"directory": str(sockets)}, "prefetch": 1}
    config = config_of(tmp_path, "own_batch_transforms:masked", runtime=runtime)
    expected_hash, _ = read(config)
    loaders = ol.job(config).train(ranks="all", engine="processes", hash=True)
    try:
        for batches in loaders.rounds():
            if batches[0].microbatch == 0:
                in_time(lambda: kill_all(sockets, "constructors"), "there is one to kill")
        assert loaders.stream_hash() == expected_hash
    finally:
        loaders.close()
    until_nothing_left(sockets, "the node is gone")


@pytest.mark.parametrize("function", ["dies_once", "raises_once"])
def test_what_fails_once_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("OWN_BATCH_FOLDER", str(tmp_path))
    _, rows = read(config_of(tmp_path, "own_batch_transforms:masked"))
    _, again = read(config_of(tmp_path, f"own_batch_transforms:{function}"))
    assert {"died", "raised"} & {entry.name for entry in tmp_path.iterdir()}
    for place, got in rows.items():
        np.testing.assert_array_equal(again[place]["tokens"], got["tokens"])


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("raises", "step 2, .*raised ValueError: no such mask at .*own_batch_transforms.py"),
        ("raises_thread", "step 2, .*raised ValueError: no such mask"),
        ("dies", "step 2, .*exit status 5"),
        ("hangs", "step 2, .*did not answer within its deadline of 5.0 s"),
        ("other_shape", r"step 0, .*answered tokens as int32\[2, 63\], not int32\[2, 64\]"),
        ("other_type", "step 0, .*answered loss_weights as float64"),
        ("moves", "step 0, .*answered 'positions', which is planned"),
        ("heavier", "step 0, .*raised the loss weight of token"),
        ("foreign", "step 0, .*outside the vocabulary of 1000"),
        ("writes", "step 0, .*read-only"),
        ("too_few", "step 0, .*not a list of 1 dict"),
        ("by_chance", "step 0, .*is not deterministic"),
    ],
)
def test_a_bad_function_ends_the_stream_and_says_where(
    tmp_path: Path, function: str, told: str
) -> None:
    name = f"own_batch_transforms:{function}"
    options = {"function": name, "deadline_seconds": 5 if function == "hangs" else 100}
    message = failure(config_of(tmp_path, options))
    assert re.search(f"batch_transform {name}, {told}", message, re.DOTALL), message


def test_all_groups_end_before_the_same_step(tmp_path: Path, sockets: Path) -> None:
    runtime = {"processes": {"directory": str(sockets)}}
    config = config_of(tmp_path, "own_batch_transforms:raises", runtime=runtime)
    for engine in ("embedded", "processes"):
        loaders = ol.job(config, mesh=ol.mesh(dp=2)).train(ranks="all", engine=engine)
        try:
            last: dict[int, int] = {}
            with pytest.raises(ol.UserFunctionError, match="step 2, "):
                for batches in loaders.rounds():
                    last = {rank: batch.step for rank, batch in batches.items()}
            assert last == {0: 1, 1: 1}
            for rank in loaders:
                with pytest.raises(ol.UserFunctionError, match="step 2, "):
                    next(loaders[rank])
        finally:
            loaders.close()
    until_nothing_left(sockets, "the node is gone")


def test_what_is_part_of_the_stream(tmp_path: Path) -> None:
    digests = set()
    for function in (None, "masked", "masked_again", "untouched"):
        name = None if function is None else f"own_batch_transforms:{function}"
        native = ol.job(config_of(tmp_path, name)).open_stream().native
        digests.add(native.section_digests()["stream"])
    assert len(digests) == 4
    options = {"function": "own_batch_transforms:masked", "workers": 5, "check_every": 0}
    native = ol.job(config_of(tmp_path, options)).open_stream().native
    assert native.section_digests()["stream"] in digests


def test_what_cannot_run_is_refused_before_it_starts(tmp_path: Path) -> None:
    with pytest.raises(ol.ConfigError, match=r"batch_transform.*cannot be imported"):
        ol.job(config_of(tmp_path, "own_batch_transforms:nowhere")).open_stream()
    config = config_of(tmp_path, "own_batch_transforms:masked_thread")
    with pytest.raises(ol.ConfigError, match=r"batch_transform.*a node has no Python"):
        ol.job(config).train(rank=0, engine="processes")
    hybrid = {"hybrid": {"model": "llama-12b", "capacity": 64}, "cost": "llama-12b"}
    with pytest.raises(ol.ConfigError, match="whole sequences"):
        ol.job(config_of(tmp_path, "own_batch_transforms:masked", strategy=hybrid))


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_media_data_may_be_replaced(tmp_path: Path, engine: str) -> None:
    config = pairs_config(tmp_path, made_up_pairs(24))
    brighter = {**config, "batch_transform": "own_batch_transforms:brighter"}
    with train(config, engine=engine) as plain, train(brighter, engine=engine) as changed:
        pictures = 0
        for before, after in zip(plain, changed, strict=True):
            assert set(before.media) == set(after.media)
            for name, field in before.media.items():
                got = after.media[name]
                one = np.asarray(1, field.data.dtype)
                np.testing.assert_array_equal(got.data, field.data + one)
                np.testing.assert_array_equal(got.token_spans, field.token_spans)
                pictures += len(field)
            np.testing.assert_array_equal(before.tokens, after.tokens)
        assert pictures > 0


def test_nobody_is_left(tmp_path: Path) -> None:
    before = set(workers())
    read(config_of(tmp_path, "own_batch_transforms:masked"))
    in_time(lambda: not set(workers()) - before, "all transform workers are gone")
