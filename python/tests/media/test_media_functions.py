"""Users' functions over media: one stream in every lane and engine, bad ones cost one document."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from delivered import pieces_of
from own_media import BOOM
from test_media_stream import (
    IMAGE,
    PATCH,
    TOKENS,
    encoded,
    image_of,
    made_up_pairs,
    media_content,
    pairs_config,
    patches_of,
    train,
    whole_tokens,
)
from test_transforms import nobody_is_left, workers
from trainers import embedded_hashes, hashes_of, trainers, until_nothing_left

import overlord as ol

__all__ = ["nobody_is_left"]  # a fixture of every test here too


def with_function(function: Any, **field: Any) -> dict[str, Any]:
    """The pictures of the pairs, and what they go through."""
    return {**IMAGE, "function": function, **field}


def plain(options: Any) -> Any:
    """A function's name and options, on the module of this folder."""
    if isinstance(options, str):
        return f"own_media:{options}"
    return {**options, "function": f"own_media:{options['function']}"}


def with_field(config: dict[str, Any], field: Any) -> dict[str, Any]:
    """The same job over the same file with another field."""
    source = {**config["sources"]["s"], "media": {"image": field}}
    return {**config, "sources": {"s": source}}


def config_of(folder: Path, function: Any, samples: Any = None, **source: Any) -> dict[str, Any]:
    """A job over pairs whose pictures go through a function."""
    rows = samples if samples is not None else made_up_pairs()
    config = pairs_config(folder, rows, with_function(plain(function)))
    config["sources"]["s"] |= source
    return config


def with_boom(rows: int = 24) -> tuple[list[dict[str, Any]], int]:
    """Pairs, one of them with a picture that functions cannot bear, and its row."""
    samples = made_up_pairs(rows)
    row = [row for row, sample in enumerate(samples) if "png" in sample][4]
    samples[row]["png"] = encoded(np.full((PATCH * 2, PATCH, 3), BOOM, np.uint8), "PNG")
    return samples, row


def read(config: dict[str, Any], **options: Any) -> tuple[str, list[tuple[int, str]]]:
    """Hash of the stream, and the quarantine."""
    with train(config, hash=True, **options) as loader:
        for _ in loader:
            pass
        return loader.stream_hash(), [(one["row"], one["reason"]) for one in loader.quarantine()]


@pytest.mark.parametrize("function", ["invert", "invert_thread"])
def test_a_function_changes_values_and_nothing_else(tmp_path: Path, function: str) -> None:
    samples = made_up_pairs()
    expected = {tuple(whole_tokens(sample)): sample for sample in samples}
    seen = 0
    with train(config_of(tmp_path, function, samples)) as loader:
        for batch in loader:
            found = [expected.pop(tuple(piece.tokens.tolist())) for piece in pieces_of(batch)]
            pictures = [image for one in found if (image := image_of(one)) is not None]
            media = batch.media.get("image")
            assert (0 if media is None else len(media.grid_thw)) == len(pictures)
            for item, image in enumerate(pictures):
                assert media is not None
                away = np.abs(media[item].astype(int) - (255 - patches_of(image)))
                assert away.max() <= 2  # JPEG
                seen += 1
    assert not expected and seen == sum(image_of(sample) is not None for sample in samples)


def test_what_an_item_is(tmp_path: Path) -> None:
    with train(config_of(tmp_path, "told")) as loader:
        for batch in loader:
            for item, grid in zip(batch.media.get("image", []), _grids(batch), strict=True):
                assert item.reshape(-1)[:5].tolist() == [*grid, len(item), 0]


def _grids(batch: ol.Microbatch) -> list[list[int]]:
    media = batch.media.get("image")
    return [] if media is None else media.grid_thw.tolist()


def test_floats_go_through_too(tmp_path: Path) -> None:
    chain = "normalise mean=0.5,0.5,0.5 std=0.25,0.25,0.25; patchify layout=vit patch=8"
    config = pairs_config(tmp_path, made_up_pairs())
    whole, half = (
        [
            media.data
            for batch in train(with_field(config, {**IMAGE, "transform": chain, **own}))
            for media in batch.media.values()
        ]
        for own in ({}, {"function": "own_media:halved"})
    )
    assert len(whole) > 2 and whole[0].dtype == np.float32
    for a, b in zip(whole, half, strict=True):
        assert np.array_equal(a / 2, b)


def test_one_stream_in_every_engine_and_however_it_is_run(tmp_path: Path, sockets: Path) -> None:
    samples = made_up_pairs(48)
    config = config_of(tmp_path, "noise", samples)
    config["runtime"] = {"processes": {"directory": str(sockets)}}
    first = read(config)
    assert first[1] == [] and first[0] != read(with_field(config, IMAGE))[0]
    many = {"function": "noise", "workers": 3, "batch": 5, "check_every": 1}
    config["sources"]["s"]["media"]["image"]["function"] = plain(many)
    config["sources"]["s"] |= {"loaders": 3, "workers": 4}
    assert read(config, threads=3) == first
    assert read(config, engine="processes") == first
    config["runtime"]["processes"]["loaders"] = 2
    assert read(config, engine="processes") == first
    until_nothing_left(sockets, "the node is gone")


def test_ranks_in_processes_of_their_own_see_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))  # where trainers find own_media
    config = config_of(tmp_path, "noise", made_up_pairs(48))
    mesh = {"dp": 2}
    with trainers(config, mesh, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, mesh)


def test_resuming_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    config = config_of(tmp_path, "noise")
    with train(config) as loader:
        states, batches = [], []
        for batch in loader:
            batches.append(media_content(batch))
            states.append(loader.state_dict())
    for taken in range(1, len(batches), 2):
        with train(config) as loader:
            loader.load_state_dict(states[taken - 1])
            assert [media_content(batch) for batch in loader] == batches[taken:]


def test_a_function_and_its_version_are_in_the_digest_how_it_is_run_is_not(tmp_path: Path) -> None:
    config = pairs_config(tmp_path, made_up_pairs(4))

    def digest(field: Any) -> str:
        opened = ol.job(with_field(config, field)).open_stream()
        return str(opened.native.section_digests()["source:s"])

    functions = ("invert", "invert_again", "noise")
    digests = {digest(IMAGE), *(digest(with_function(plain(name))) for name in functions)}
    assert len(digests) == 4
    otherwise = with_function(plain({"function": "noise", "workers": 7, "batch": 1}))
    assert digest(otherwise) in digests


REASONS = {
    "exits": "exit status 7",
    "kills": "signal 9",
    "hangs": "did not answer within its deadline of 5.0 s",
    "raises": "raised ValueError: no such picture at ",
    "raises_thread": "raised ValueError: no such picture at ",
    "short": "answered 0 items for 1; give None for one to drop",
    "drops": "dropped by transform own_media:drops",
    "shapes": "answered uint8 of shape (1, 192) for an item of uint8, (2, 192)",
    "types": "answered float32 of shape (2, 192) for an item of uint8, (2, 192)",
}


@pytest.mark.parametrize("function", REASONS)
def test_a_function_that_cannot_bear_an_item_costs_that_document(
    tmp_path: Path, function: str
) -> None:
    samples, row = with_boom()
    batch, deadline = (2, 5) if function == "hangs" else (16, 100)
    options = {"function": function, "batch": batch, "deadline_seconds": deadline}
    with train(config_of(tmp_path, options, samples, bad_rows_allowed=1)) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        quarantined = loader.quarantine()
    holes = [piece for piece in pieces if piece.hole]
    assert len(holes) == 1 and len(pieces) == len(samples)
    assert len(holes[0].tokens) == len(whole_tokens(samples[row]))
    assert not holes[0].weights.any() and not holes[0].tokens.any()
    assert [note["row"] for note in quarantined] == [row]
    reason = quarantined[0]["reason"]
    for word in ("s", "pairs.tar", f"row {row}", "media 'image'", f"own_media:{function}"):
        assert word in reason
    assert REASONS[function] in reason


@pytest.mark.parametrize("function", ["exits", "raises"])
def test_a_hole_is_the_same_in_every_engine(tmp_path: Path, function: str) -> None:
    samples, row = with_boom(48)
    config = config_of(tmp_path, function, samples, bad_rows_allowed=1)
    found = [read(config, engine=engine) for engine in ("embedded", "processes")]
    assert found[0][0] == found[1][0]
    assert [[at for at, _ in notes] for _, notes in found] == [[row], [row]]


def test_one_of_many_pictures_costs_their_document(tmp_path: Path) -> None:
    samples = made_up_pairs()
    boom = encoded(np.full((PATCH * 2, PATCH, 3), BOOM, np.uint8), "PNG")
    for row, sample in enumerate(samples):
        image = sample.pop("png", None) or sample.pop("jpg", None)
        if image is not None:
            sample |= {f"{i}.png": image for i in range(4) if i != 2}
            sample["2.png"] = boom if row == 9 else image
    field = with_function(plain({"function": "exits", "batch": 8}), many=True)
    config = pairs_config(tmp_path, samples, field, context=256)
    with train(config) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        quarantined = loader.quarantine()
    assert sum(piece.hole for piece in pieces) == 1 and len(pieces) == len(samples)
    assert [note["row"] for note in quarantined] == [9]
    assert "media 'image', blob 2: transform own_media:exits" in quarantined[0]["reason"]


def test_a_killed_worker_costs_nothing(tmp_path: Path) -> None:
    samples = made_up_pairs(400)
    options = {"function": "noise", "batch": 4, "check_every": 0}
    config = config_of(tmp_path, options, samples)
    expected = read(config)
    before = set(workers())
    with train(config, hash=True, prefetch=1) as loader:
        for n, _ in enumerate(loader):
            if n in (3, 20):
                for pid in set(workers()) - before:
                    with suppress(ProcessLookupError):
                        os.kill(pid, 9)
        assert loader.quarantine() == []
        assert loader.stream_hash() == expected[0]


def test_a_function_that_is_not_deterministic_is_named(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"function": "counts_calls", "check_every": 1})
    with pytest.raises(ol.UserFunctionError, match=r"own_media:counts_calls is not determin.*item"):
        read(config)


def test_a_function_that_always_dies_ends_the_stream(tmp_path: Path) -> None:
    options = {"function": "dies_at_once", "batch": 1}
    config = config_of(tmp_path, options, made_up_pairs(4), bad_rows_allowed=0)
    with pytest.raises(ol.BudgetExceededError, match="own_media:dies_at_once"):
        read(config)


def test_a_thread_that_hangs_ends_the_stream_and_not_the_process(tmp_path: Path) -> None:
    options = {"function": "hangs_thread", "deadline_seconds": 0.3}
    with pytest.raises(ol.UserFunctionError, match='lane="process"'):
        read(config_of(tmp_path, options))


def test_where_several_plan_a_crash_decides_nothing(tmp_path: Path) -> None:
    samples, _ = with_boom()
    config = config_of(tmp_path, "exits", samples)
    loader = ol.job(config, mesh=ol.mesh(dp=2)).train(rank=0, engine="embedded")
    other = ol.job(config, mesh=ol.mesh(dp=2)).train(rank=1, engine="embedded")
    with loader, other, pytest.raises(ol.UserFunctionError, match="needs one planner"):
        for _ in zip(loader, other, strict=True):
            pass


def test_packed_fields_may_stand_beside_one_with_a_function(tmp_path: Path) -> None:
    config = config_of(tmp_path, "invert", decode_at="constructor")
    with pytest.raises(ol.ConfigError, match=r"decode_at.*own_media:invert.*at the loader"):
        train(config)
    runs = []
    for place in ("auto", "loader"):
        config["sources"]["s"]["decode_at"] = place
        runs.append(read(config))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (with_function("own_media:no_transform"), "is no transform"),
        (with_function("own_media:nobody"), "cannot be imported: AttributeError"),
        (with_function("bare"), "names no module"),
        (with_function({"function": "own_media:invert", "workers": 0}), "workers"),
        ({"from": ["png"], "function": "own_media:invert"}, "does not travel"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(
    tmp_path: Path, field: Any, words: str
) -> None:
    with pytest.raises(ol.ConfigError, match=words):
        ol.job(pairs_config(tmp_path, made_up_pairs(4), field)).open_stream()


def test_a_node_has_no_threads_of_python(tmp_path: Path) -> None:
    job = ol.job(config_of(tmp_path, "invert_thread"))
    with pytest.raises(ol.ConfigError, match=r"media\.image\.function.*a node has no Python"):
        job.train(rank=0, engine="processes")


def test_text_beside_media_goes_through_its_own_transform(tmp_path: Path) -> None:
    samples = made_up_pairs()
    for sample in samples:
        if image_of(sample) is not None:
            sample["txt"] += b" <picture> end"
    tokens = {**TOKENS, "pad": ord("@"), "place": "text"}
    config = pairs_config(tmp_path, samples, {**IMAGE, "tokens": tokens}, context=160)
    config["sources"]["s"]["transform"] = "own_media:mark_pictures"

    def expected(sample: dict[str, Any]) -> tuple[int, ...]:
        text = sample["txt"].decode().upper()
        before, marked, after = text.partition("<PICTURE>")
        image = image_of(sample)
        pads = [] if image is None else [ord("@")] * len(patches_of(image))
        around = [TOKENS["before"], *pads, TOKENS["after"]] if marked else []
        return (*before.encode(), *around, *after.encode())

    with train(config) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        assert loader.quarantine() == []
    found = sorted(tuple(piece.tokens.tolist()) for piece in pieces)
    assert found == sorted(map(expected, samples))
    assert read(config, engine="processes") == read(config)
