"""Packed media that ranks of their own encode: decoded where they are, the stream of loaders."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from test_media_stream import CHAIN, IMAGE, PAD, image_of, made_up_pairs, pairs_config
from test_packed_media import decoded_at
from trainers import (
    embedded_hashes,
    go_on,
    hashes_of,
    in_time,
    kill_all,
    trainers,
    trainers_on_hosts,
)

import overlord as ol

MESH = {"pp": 2, "dp": 2}
# A second field that nobody encodes: whoever encodes a sample has to know whether it decodes too.
BESIDE = {"from": ["webp"], "transform": CHAIN, "tokens": {"pad": PAD - 1}}


def config_of(folder: Path, decode_at: str, **top: Any) -> dict[str, Any]:
    """Pairs whose pictures have owners; some do not decode, or what lies beside them does not."""
    samples = made_up_pairs(48)
    with_png = [row for row, sample in enumerate(samples) if "png" in sample]
    for row in with_png[1::4]:
        samples[row]["png"] = samples[row]["png"][:-30]
    for row in with_png[3::4]:
        whole = image_of(samples[0])
        assert whole is not None
        samples[row]["webp"] = whole[:-30]  # formats are told by content
    config = pairs_config(
        folder, samples, bins=8, strategy={"encoder": {"bytes_per_unit": 8}}, **top
    )
    config["sources"]["s"]["media"] = {"beside": BESIDE, "image": IMAGE}
    config["sources"]["s"]["bad_rows_allowed"] = 40
    config["strategy"]["encoder"]["column"] = "image_patches"
    return decoded_at(config, decode_at)


def read(config: dict[str, Any]) -> tuple[dict[int, str], str, list[tuple[int, str]], list[Any]]:
    """Hashes of all ranks, of the content, the quarantine, and what is encoded where."""
    encoded: list[Any] = []
    with ol.job(config, mesh=ol.mesh(**MESH)).train(
        ranks="all", hash=True, engine="embedded"
    ) as loaders:
        for batches in loaders.steps():
            for rank, own in batches.items():
                for batch in own:
                    encoded += [
                        (rank, media.documents.tolist(), media.data.tobytes())
                        for media in (batch.encoder.media.values() if batch.encoder else ())
                    ]
        hashes = {rank: loader.rank_hash() for rank, loader in loaders.items()}
        notes = sorted({(one["row"], one["reason"]) for one in loaders[0].quarantine()})
        return hashes, loaders[0].content_hash(), notes, encoded


def test_the_same_bytes_holes_and_hashes_in_one_process(tmp_path: Path) -> None:
    config = config_of(tmp_path, "loader")
    by_loaders = read(config)
    assert len(by_loaders[2]) >= 6
    assert {"media 'beside'", "media 'image'"} == {
        reason.partition(", ")[2].split(", ")[-1].partition(":")[0] for _, reason in by_loaders[2]
    }
    assert by_loaders[3]
    assert read(decoded_at(config, "constructor")) == by_loaders


def test_the_same_in_processes_also_when_constructors_die(tmp_path: Path, sockets: Path) -> None:
    config = config_of(tmp_path, "loader", steps=60, at_end="repeat")
    expected = embedded_hashes(config, MESH)
    config = decoded_at(config, "constructor")
    runtime = {"processes": {"directory": str(sockets), "constructors": 2}, "prefetch": 2}
    config["runtime"] = {**config.get("runtime", {}), **runtime}
    with trainers(config, MESH, pause_after=30) as started:
        for _ in range(2):
            started[0].until("step")
            in_time(lambda: kill_all(sockets, "constructors-1"), "there is one to kill")
        go_on(started)
        assert hashes_of(started) == expected


@pytest.mark.parametrize("where", ["loader", "constructor", "auto"])
def test_the_same_over_two_hosts(tmp_path: Path, sockets: Path, free_port: int, where: str) -> None:
    config = config_of(tmp_path, where)
    expected = embedded_hashes(config, MESH)
    wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1"}
    config["runtime"] = {"wire": wire, "processes": {"directory": str(sockets)}}
    with trainers_on_hosts([config, config], MESH, [[], []]) as started:
        assert hashes_of(started) == expected
        with contextlib.suppress(AssertionError):
            started[0].until("end")
