"""Clips through the stream: placeholders, patches over time, holes and engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import job_config, made_up_texts
from delivered import flat, pieces_of
from kept_clips import SMALL, WEBM, WIDE
from test_webdataset import tar_of
from trainers import embedded_hashes, hashes_of, trainers

import overlord as ol
from overlord import _core as core

if not next(codec for codec in core.media_codecs() if codec["name"] == "video")["present"]:
    pytest.skip("no FFmpeg on this machine", allow_module_level=True)

PAD, BEFORE, AFTER = 900, 901, 902
CHAIN = (
    "sample fps=15 max=8; resize_short side=28; centre_crop width=28 height=28; normalise; patchify"
)
CLIP = {
    "from": ["mp4", "webm"],
    "kind": "video",
    "transform": CHAIN,
    "tokens": {"pad": PAD, "before": BEFORE, "after": AFTER},
}
CLIPS = (SMALL, WEBM, WIDE)


def made_up_rows(rows: int = 20) -> list[dict[str, Any]]:
    """Texts, most of them with a clip."""
    samples: list[dict[str, Any]] = []
    for row, text in enumerate(made_up_texts(rows, 5, longest=4)):
        sample: dict[str, Any] = {"__key__": f"{row:06d}", "txt": f"{row} {text}".encode()}
        if row % 4 != 3:
            data = CLIPS[row % 4]
            sample["webm" if data is WEBM else "mp4"] = data
        samples.append(sample)
    return samples


def clips_config(
    folder: Path, samples: list[dict[str, Any]], field: Any = CLIP, **top: Any
) -> dict[str, Any]:
    """A job over one tar of them."""
    (folder / "clips.tar").write_bytes(tar_of(samples))
    source = {
        "files": "clips.tar",
        "text": "txt",
        "tokenizer": "bytes",
        "media": {"video": field},
        "over_length": "drop",
        "bad_rows_allowed": 8,
    }
    return job_config(folder, {"s": source}, **{"context": 96, **top})


def clip_of(sample: dict[str, Any]) -> bytes | None:
    """The clip of a sample, if it has one."""
    return sample.get("mp4") or sample.get("webm")


def whole_tokens(sample: dict[str, Any]) -> list[int]:
    """The tokens that a sample must become."""
    data = clip_of(sample)
    if data is None:
        return [*sample["txt"]]
    t, h, w = core.VideoChain(CHAIN).planned_size(data)["grid_thw"]
    return [BEFORE, *[PAD] * (t * h * w // 4), AFTER, *sample["txt"]]


def train(config: dict[str, Any], **options: Any) -> Any:
    return ol.job(config).train(engine=options.pop("engine", "embedded"), **options)


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_clips_travel_with_their_documents(tmp_path: Path, engine: str) -> None:
    samples = made_up_rows()
    expected = {tuple(whole_tokens(sample)): sample for sample in samples}
    grids = set()
    with train(clips_config(tmp_path, samples), engine=engine) as loader:
        for batch in loader:
            found = [expected.pop(tuple(piece.tokens.tolist())) for piece in pieces_of(batch)]
            with_clip = [row for row, one in enumerate(found) if clip_of(one) is not None]
            media = batch.media.get("video")
            assert (media is None) == (not with_clip)
            if media is None:
                continue
            assert media.documents.tolist() == with_clip
            assert media.data is not None and media.data.dtype == np.float32
            for item, row in enumerate(with_clip):
                data = clip_of(found[row])
                assert data is not None
                rows, geometry = core.run_video_chain(data, CHAIN)
                assert np.array_equal(media[item], rows)
                assert tuple(media.grid_thw[item]) == geometry["grid_thw"]
                first, end = media.token_spans[item]
                assert end - first == geometry["tokens"]
                assert np.all(flat(batch.tokens)[first:end] == PAD)
                grids.add(geometry["grid_thw"])
    assert not expected
    assert grids == {(2, 2, 2), (3, 2, 2)}  # three frames make two groups, six make three


def test_engines_give_the_same_stream(tmp_path: Path) -> None:
    config = clips_config(tmp_path, made_up_rows())
    with trainers(config, {"dp": 2}, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})


def test_a_clip_that_does_not_decode_is_a_named_hole(tmp_path: Path) -> None:
    samples = made_up_rows()
    broken, cut = 0, 2
    damaged = bytearray(SMALL)  # its tables are whole
    start = SMALL.find(b"mdat") + 20
    damaged[start : start + 100] = bytes(i * 37 % 256 for i in range(100))
    samples[broken]["mp4"] = bytes(damaged)
    samples[cut]["mp4"] = WIDE[: len(WIDE) // 2]
    with train(clips_config(tmp_path, samples)) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        quarantined = loader.quarantine()
    holes = [piece for piece in pieces if piece.hole]
    assert len(holes) == 1 and len(pieces) == len(samples) - 1
    assert len(holes[0].tokens) == len(whole_tokens({**samples[broken], "mp4": SMALL}))
    assert not holes[0].weights.any() and not holes[0].tokens.any()
    text = "\n".join(str(note) for note in quarantined).replace("\\", "")
    assert "media 'video'" in text and "clips.tar" in text
    assert "cannot be decoded" in text or "damaged" in text
    assert "mp4 is cut or damaged" in text


def test_frames_of_one_size_travel_as_stacks(tmp_path: Path) -> None:
    chain = "sample frames=4; resize width=20 height=12"
    field = {"from": ["mp4", "webm"], "kind": "video", "transform": chain}
    field["tokens"] = {"pad": PAD, "count": 5}
    with train(clips_config(tmp_path, made_up_rows(8), field)) as loader:
        items = [batch.media["video"] for batch in loader if "video" in batch.media]
    shapes = {media[item].shape for media in items for item in range(len(media.documents))}
    assert shapes == {(4, 12, 20, 3)}
    assert all(tuple(grid) == (4, 12, 20) for media in items for grid in media.grid_thw)


def test_frames_of_any_size_are_refused(tmp_path: Path) -> None:
    field = {**CLIP, "transform": "sample frames=2; resize_short side=20"}
    with pytest.raises(ValueError, match="one size"):
        ol.job(clips_config(tmp_path, made_up_rows(4), field)).train(engine="embedded")
