"""Media decoded by constructors: the stream that loaders would have made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_media_stream import made_up_pairs, media_content, pairs_config, train
from trainers import embedded_hashes, hashes_of, trainers

import overlord as ol

WHERE = ["loader", "constructor", "auto"]


def config_of(folder: Path, decode_at: str) -> dict[str, Any]:
    """Pairs, two of them with pictures whose header is whole and whose pixels are not."""
    samples = made_up_pairs(48)
    for row in [row for row, sample in enumerate(samples) if "png" in sample][3:5]:
        samples[row]["png"] = samples[row]["png"][:-30]
    return decoded_at(pairs_config(folder, samples), decode_at)


def decoded_at(config: dict[str, Any], where: str) -> dict[str, Any]:
    """The same with another word for who decodes."""
    source = {**config["sources"]["s"], "decode_at": where}
    return {**config, "sources": {"s": source}}


def run(config: dict[str, Any], engine: str) -> tuple[str, list[tuple[int, str]]]:
    """Hash of the stream, and the quarantine."""
    with train(config, engine=engine, hash=True) as loader:
        for _ in loader:
            pass
        return loader.stream_hash(), [(one["row"], one["reason"]) for one in loader.quarantine()]


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_where_media_are_decoded_changes_nothing(tmp_path: Path, engine: str) -> None:
    config = config_of(tmp_path, "loader")
    runs = [run(decoded_at(config, where), engine) for where in WHERE]
    assert len(runs[0][1]) == 2
    assert [(h, sorted(notes)) for h, notes in runs] == [(runs[0][0], sorted(runs[0][1]))] * 3


def test_ranks_in_processes_of_their_own_see_the_same(tmp_path: Path) -> None:
    mesh = {"dp": 2}
    config = config_of(tmp_path, "loader")
    expected = embedded_hashes(config, mesh)
    with trainers(decoded_at(config, "constructor"), mesh) as started:
        assert hashes_of(started) == expected


def test_resuming_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    config = config_of(tmp_path, "constructor")
    states, batches = [], []
    with train(config) as loader:
        for batch in loader:
            states.append(loader.state_dict())
            batches.append(media_content(batch))
    with train(decoded_at(config, "loader")) as loader:  # who decodes is no part of a state
        loader.load_state_dict(states[2])
        assert [media_content(batch) for batch in loader] == batches[3:]


def test_the_key_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ol.ConfigError, match="decode_at"):
        train(config_of(tmp_path, "rank"))
