"""Rows that mean a part of a sound or a clip: columns with the seconds where it begins and ends."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import job_config, json_lines
from delivered import pieces_of
from kept_clips import SMALL, WEBM
from test_arrow import write_ipc
from test_media_audio import encode, voice
from test_media_stream import media_content, train
from test_named_media import write_files

import overlord as ol
from overlord import _core as core

RATE, CHANNELS, SECONDS = 16_000, 2, 3
PAD = 900
STEPS = "mono; resample rate=8000; log_mel mels=8 tokens=frames"
SOUND = {"kind": "audio", "from": "path", "start": "from_s", "end": "to_s"}
# Where parts begin and end; the last ends behind the sound.
PARTS = [(None, None), (0.5, 1.25), (1, None), (None, 0.75), (0.125, 2.5), (2.75, 99)]
KINDS = ("jsonl", "csv", "parquet", "arrow", "floats")
HAS_VIDEO = next(one for one in core.media_codecs() if one["name"] == "video")["present"]


def rows_of(paths: list[str], parts: Any = PARTS) -> list[dict[str, Any]]:
    """A row for every part of every file."""
    return [
        {"text": f"{number} of {path}", "path": path, "from_s": start, "to_s": end}
        for path in paths
        for number, (start, end) in enumerate(parts)
    ]


def write_rows(folder: Path, kind: str, rows: list[dict[str, Any]]) -> str:
    """The same rows as a table of some format."""
    if kind == "jsonl":
        (folder / "rows.jsonl").write_bytes(json_lines(rows))
        return "rows.jsonl"
    if kind == "csv":
        out = io.StringIO(newline="")
        table = csv.DictWriter(out, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
        (folder / "rows.csv").write_bytes(out.getvalue().encode())
        return "rows.csv"
    seconds = pa.float32() if kind == "floats" else pa.float64()
    types = {"text": pa.string(), "path": pa.string(), "from_s": seconds, "to_s": seconds}
    made = pa.table({name: pa.array([row[name] for row in rows], t) for name, t in types.items()})
    if kind == "arrow":
        write_ipc(folder / "rows.arrow", made, rows=5)
        return "rows.arrow"
    pq.write_table(made, folder / "rows.parquet", row_group_size=5)
    return "rows.parquet"


def config_of(folder: Path, files: str, field: dict[str, Any], **top: Any) -> dict[str, Any]:
    source = {
        "files": files,
        "text": "text",
        "tokenizer": "bytes",
        "media": {field["kind"]: field},
        "over_length": "drop",
        "bad_rows_allowed": 99,
    }
    return job_config(folder, {"s": source}, **{"context": 2048, "align": 4, **top})


def items_of(config: dict[str, Any], kind: str) -> tuple[dict[str, Any], list[str]]:
    """What arrived for each text, and the reasons of bad rows."""
    found = {}
    with train(config) as loader:
        for batch in loader:
            media = batch.media[kind]
            texts = [piece.tokens[piece.tokens < 256].astype("uint8") for piece in pieces_of(batch)]
            for item, row in enumerate(media.documents.tolist()):
                found[bytes(texts[row]).decode()] = (media[item].copy(), media.grid_thw[item].tolist())
        return found, [str(note) for note in loader.quarantine()]


@pytest.fixture
def sounds(tmp_path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Two files and their samples."""
    made = {}
    for name, form in (("a.wav", ("WAV", "PCM_16")), ("in/b.flac", ("FLAC", "PCM_16"))):
        samples = voice(RATE * SECONDS, CHANNELS, RATE, len(made))
        write_files(tmp_path, {name: encode(samples, RATE, *form)})
        made[name] = samples
    return made


def cut(samples: np.ndarray[Any, Any], start: float | None, end: float | None) -> bytes:
    """A file of the part alone."""
    first, last = round((start or 0) * RATE), round(min(end or SECONDS, SECONDS) * RATE)
    return encode(samples[first:last], RATE, "WAV", "PCM_16")


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_sounds_are_those_of_a_file_cut_there(
    kind: str, tmp_path: Path, sounds: dict[str, Any]
) -> None:
    files = write_rows(tmp_path, kind, rows_of(list(sounds)))
    field = {**SOUND, "transform": STEPS, "tokens": {"pad": PAD}}
    found, bad = items_of(config_of(tmp_path, files, field), "audio")
    assert not bad and len(found) == 2 * len(PARTS)
    for path, samples in sounds.items():
        for number, (start, end) in enumerate(PARTS):
            rows, geometry = core.run_audio_chain(cut(samples, start, end), STEPS)
            data, grid = found[f"{number} of {path}"]
            wanted = np.asarray(rows)[0].T  # a row is a frame
            assert data.shape == wanted.shape and np.array_equal(data, wanted), (path, number)
            assert grid[1] == geometry["frames"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.skipif(not HAS_VIDEO, reason="no FFmpeg on this machine")
def test_parts_of_clips_are_those_of_the_step_clip(kind: str, tmp_path: Path) -> None:
    """0.24 seconds of 25 frames each; the chain's own step is what they are compared with."""
    write_files(tmp_path, {"a.mp4": SMALL, "in/b.webm": WEBM})
    parts = [(None, None), (0.04, 0.16), (0.08, None), (None, 0.12), (0.08, 9)]
    steps = "sample fps=25 max=8; resize width=28 height=28; patchify"
    files = write_rows(tmp_path, kind, rows_of(["a.mp4", "in/b.webm"], parts))
    field = {**SOUND, "kind": "video", "transform": steps, "tokens": {"pad": PAD}}
    found, bad = items_of(config_of(tmp_path, files, field), "video")
    assert not bad and len(found) == 2 * len(parts)
    counts = set()
    for path, data in (("a.mp4", SMALL), ("in/b.webm", WEBM)):
        for number, (start, end) in enumerate(parts):
            last = round(end * 1000) if end is not None and end < 0.24 else 0
            clip = f"clip start={round((start or 0) * 1000)} end={last}; " if start or last else ""
            rows, _ = core.run_video_chain(data, clip + steps)
            assert np.array_equal(found[f"{number} of {path}"][0], np.asarray(rows)), (path, number)
            counts.add(len(rows))
    assert len(counts) > 1  # of other lengths


@pytest.mark.parametrize("kind", KINDS)
def test_parts_that_are_none_are_bad_rows(
    kind: str, tmp_path: Path, sounds: dict[str, Any]
) -> None:
    odd = [(2.0, 1.0), (-1.0, 1.0), (1.0, 1.0), (5.0, 6.0), (float("nan"), 1.0), (1e9, None)]
    words = ["from 2.0", "from -1.0", "from 1.0", "starts at 5000 ms", "from ", "from 1000000000"]
    if kind == "jsonl":
        odd[4], words[4] = ("soon", 1.0), "a number of seconds"  # type: ignore[call-overload]
    rows = rows_of(["a.wav"], [*odd, (0, 1)])
    files = write_rows(tmp_path, kind, rows)
    field = {**SOUND, "transform": STEPS, "tokens": {"pad": PAD}}
    found, bad = items_of(config_of(tmp_path, files, field), "audio")
    assert list(found) == ["6 of a.wav"] and len(bad) == len(odd)
    for number, part in enumerate(words):
        (mine,) = [reason for reason in bad if f"row {number}:" in reason]
        assert part in mine and "audio" in mine, mine


def test_they_resume_exactly_and_travel_packed(tmp_path: Path, sounds: dict[str, Any]) -> None:
    """Also where constructors decode: the part goes with the blob."""
    files = write_rows(tmp_path, "parquet", rows_of(list(sounds)))
    field = {**SOUND, "transform": STEPS, "tokens": {"pad": PAD}}
    config = config_of(tmp_path, files, field, context=512)
    states, batches = [], []
    with train(config) as loader:
        for batch in loader:
            batches.append(media_content(batch))
            states.append(loader.state_dict())
    for taken in range(1, len(batches)):
        with train(config) as loader:
            loader.load_state_dict(states[taken - 1])
            assert [media_content(batch) for batch in loader] == batches[taken:]
    config["sources"]["s"]["decode_at"] = "constructor"
    for engine in ("embedded", "processes"):
        with train(config, engine=engine) as loader:
            assert [media_content(batch) for batch in loader] == batches


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"kind": "image", "transform": "patchify"}, "a picture has no parts"),
        ({"transform": None}, "nothing is cut"),
        ({"many": True}, "the row's one sound"),
        ({"kind": "video", "transform": "resize width=28 height=28"}, "`sample` must choose"),
        ({"kind": "video", "transform": "clip end=9; sample frames=2"}, "says already"),
    ],
)
def test_what_has_no_parts_is_refused(tmp_path: Path, field: dict[str, Any], words: str) -> None:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    config = config_of(tmp_path, "rows.jsonl", {**SOUND, "transform": STEPS, **field})
    with pytest.raises(ol.ConfigError, match=words):
        ol.job(config)


def test_columns_of_other_types_are_refused(tmp_path: Path, sounds: dict[str, Any]) -> None:
    table = pa.table({"text": ["a"], "path": ["a.wav"], "from_s": ["1"], "to_s": [2.0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    field = {**SOUND, "transform": STEPS, "tokens": {"pad": PAD}}
    with pytest.raises(ol.OverlordError, match=r"'from_s' is string, where a part begins"):
        items_of(config_of(tmp_path, "rows.parquet", field), "audio")
