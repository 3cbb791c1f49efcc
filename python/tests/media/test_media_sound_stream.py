"""Sounds through the stream: rows of the chain, placeholders, holes, engines and resumes."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import job_config, made_up_texts
from delivered import flat, pieces_of
from test_media_audio import encode, voice
from test_media_stream import encoded, media_content, picture, train
from test_webdataset import tar_of
from trainers import embedded_hashes, hashes_of, trainers

import overlord as ol
from overlord import _core as core

PAD, BEFORE, IMAGE_PAD = 900, 901, 902
MEL = "mono; resample rate=16000; log_mel mels=16 tokens=qwen2_audio"
EXTENSIONS = ["flac", "wav", "ogg", "mp3"]
SOUND = {
    "kind": "audio",
    "from": EXTENSIONS,
    "transform": MEL,
    "tokens": {"pad": PAD, "before": BEFORE},
}
IMAGE = {"from": "png", "transform": "patchify layout=vit patch=8", "tokens": {"pad": IMAGE_PAD}}
FORMS = {
    "flac": ("FLAC", "PCM_16"),
    "wav": ("WAV", "PCM_16"),
    "ogg": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}


def clip(form: str, frames: int, seed: int) -> bytes:
    """A file of a format, of a rate and number of channels that its seed decides."""
    rate, channels = (8_000, 16_000, 44_100)[seed % 3], 1 + seed % 2
    return encode(voice(frames, channels, rate, seed), rate, *FORMS[form])


def made_up_clips(rows: int = 24, seed: int = 5) -> list[dict[str, Any]]:
    """Texts, most of them with a sound of 50 to 300 ms, some with a picture beside it."""
    rng = np.random.default_rng(seed)
    samples: list[dict[str, Any]] = []
    for row, text in enumerate(made_up_texts(rows, seed, longest=4)):
        sample: dict[str, Any] = {"__key__": f"{row:06d}", "txt": f"{row} {text}".encode()}
        if row % 5 != 4:
            form = EXTENSIONS[row % len(EXTENSIONS)]
            sample[form] = clip(form, int(rng.integers(2400, 5000)), row)
        if row % 3 == 0:
            sample["png"] = encoded(picture(rng, 8, 16), "PNG")
        samples.append(sample)
    return samples


def clips_config(
    folder: Path, samples: list[dict[str, Any]], field: Any = SOUND, **top: Any
) -> dict[str, Any]:
    """A job over one tar of them, sounds and pictures."""
    (folder / "clips.tar").write_bytes(tar_of(samples))
    source = {
        "files": "clips.tar",
        "text": "txt",
        "tokenizer": "bytes",
        "media": {"audio": field, "image": IMAGE},
        "over_length": "drop",
        "bad_rows_allowed": 8,
    }
    return job_config(folder, {"s": source}, **{"context": 128, **top})


def sound_of(sample: dict[str, Any]) -> bytes | None:
    """The sound of a sample, if it has one."""
    return next((sample[form] for form in EXTENSIONS if form in sample), None)


def rows_of(sound: bytes, chain: str = MEL) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """What the chain makes of a file by itself."""
    made, geometry = core.run_audio_chain(sound, chain, 0)[:2]
    return np.asarray(made), geometry


def whole_tokens(sample: dict[str, Any]) -> list[int]:
    """The tokens that a sample must become."""
    out: list[int] = []
    sound = sound_of(sample)
    if sound is not None:
        out += [BEFORE, *[PAD] * rows_of(sound)[1]["tokens"]]
    if "png" in sample:
        out += [IMAGE_PAD] * 2
    return [*out, *sample["txt"]]


def check_stream(config: dict[str, Any], samples: list[dict[str, Any]]) -> None:
    """Every sample arrives once, with the rows of its sound and its picture."""
    expected = {tuple(whole_tokens(sample)): sample for sample in samples}
    with train(config) as loader:
        for batch in loader:
            found = [expected.pop(tuple(piece.tokens.tolist())) for piece in pieces_of(batch)]
            with_sound = [row for row, one in enumerate(found) if sound_of(one) is not None]
            with_image = [row for row, one in enumerate(found) if "png" in one]
            assert ("audio" in batch.media) == bool(with_sound)
            assert ("image" in batch.media) == bool(with_image)
            if with_image:
                assert batch.media["image"].documents.tolist() == with_image
            if not with_sound:
                continue
            media = batch.media["audio"]
            assert media.documents.tolist() == with_sound
            assert media.data is not None and media.data.dtype == np.float32
            assert media.row_splits[-1] == len(media.data)
            for item, row in enumerate(with_sound):
                sound = sound_of(found[row])
                assert sound is not None
                mel, geometry = rows_of(sound)
                assert np.array_equal(media[item], mel.T)  # a row is a frame
                frames = mel.shape[1]
                assert media.grid_thw[item].tolist() == [1, frames, geometry["real_frames"]]
                first, end = media.token_spans[item]
                assert np.all(flat(batch.tokens)[first:end] == PAD)
                assert end - first == geometry["tokens"]
    assert not expected


def test_sounds_travel_with_their_documents(tmp_path: Path) -> None:
    samples = made_up_clips()
    check_stream(clips_config(tmp_path, samples), samples)


def test_sounds_in_parquet_structs(tmp_path: Path) -> None:
    samples = [one for one in made_up_clips() if "png" not in one]
    cells = [sound_of(sample) for sample in samples]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    structs = [None if cell is None else {"bytes": cell, "path": "x"} for cell in cells]
    texts = [sample["txt"].decode() for sample in samples]
    table = pa.table({"text": texts, "audio": pa.array(structs, kind)})
    pq.write_table(table, tmp_path / "clips.parquet")
    source = {
        "files": "clips.parquet",
        "text": "text",
        "tokenizer": "bytes",
        "media": {"audio": {**SOUND, "from": "audio"}},
        "over_length": "drop",
    }
    check_stream(job_config(tmp_path, {"s": source}, context=128), samples)


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_resuming_is_exact(tmp_path: Path, engine: str) -> None:
    config = clips_config(tmp_path, made_up_clips())
    with train(config, engine=engine) as loader:
        states, batches = [], []
        for batch in loader:
            batches.append(media_content(batch))
            states.append(loader.state_dict())
    assert any(items for _, items, _ in batches)
    for taken in range(1, len(batches), 3 if engine == "processes" else 1):
        with train(config, engine=engine) as loader:
            loader.load_state_dict(states[taken - 1])
            assert [media_content(batch) for batch in loader] == batches[taken:]


def test_engines_give_the_same_stream(tmp_path: Path) -> None:
    config = clips_config(tmp_path, made_up_clips(), align=4)
    for mesh in ({"dp": 2}, {"pp": 2, "dp": 1, "cp": 2, "tp": 1}):
        with trainers(config, mesh, engine="processes") as started:
            assert hashes_of(started) == embedded_hashes(config, mesh)


def test_a_sound_that_does_not_decode_is_a_named_hole(tmp_path: Path) -> None:
    samples = made_up_clips()
    broken = next(row for row, sample in enumerate(samples) if "flac" in sample)
    lied = next(row for row, sample in enumerate(samples) if "wav" in sample)
    whole = samples[broken]["flac"]
    samples[broken]["flac"] = whole[: len(whole) * 2 // 3]  # its header is whole
    samples[lied]["wav"] = b"<html>not found</html>"
    with train(clips_config(tmp_path, samples)) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        quarantined = loader.quarantine()
    holes = [piece for piece in pieces if piece.hole]
    assert len(holes) == 1 and len(pieces) == len(samples) - 1
    assert len(holes[0].tokens) == len(whole_tokens({**samples[broken], "flac": whole}))
    assert not holes[0].weights.any() and not holes[0].tokens.any()
    reasons = sorted(str(note) for note in quarantined)
    assert len(reasons) == 2
    text = "\n".join(reasons).replace("\\", "")
    assert "media 'audio'" in text and "flac" in text and "clips.tar" in text and "HTML" in text


@pytest.mark.parametrize(
    ("chain", "tokens", "shape", "dtype", "pads"),
    [
        # Whisper's layout: spectrograms of one length, mel by mel; half as many tokens.
        (
            "mono; resample rate=16000; fit samples=3200; log_mel mels=16",
            {},
            (16, 20),
            np.float32,
            10,
        ),
        ("mono; resample rate=8000; fit samples=800", {"count": 3}, (800,), np.float32, 3),
        ("mono; resample rate=8000; random_cut samples=400", {"count": 2}, (400,), np.float32, 2),
        (
            "mono; resample rate=8000; fit samples=900; pcm16",
            {"every": 250},
            (900,),
            np.int16,
            4,
        ),
    ],
)
def test_parts_of_one_length_are_rows(
    tmp_path: Path, chain: str, tokens: Any, shape: Any, dtype: Any, pads: int
) -> None:
    field = {**SOUND, "transform": chain.split("; "), "tokens": {"pad": PAD, **tokens}}
    samples = made_up_clips(8)
    seen = []
    with train(clips_config(tmp_path, samples, field)) as loader:
        for batch in loader:
            media = batch.media.get("audio")
            if media is None:
                continue
            assert media.data is not None and media.data.dtype == dtype
            assert media.data.shape == (len(media), *shape)
            assert np.all(np.diff(media.token_spans) == pads)
            assert np.all(media.grid_thw[:, 0] == 1) and np.all(media.grid_thw[:, 1] == shape[-1])
            seen += [media.data[i].tobytes() for i in range(len(media))]
    if "random" not in chain:
        sounds = [sound for sample in samples if (sound := sound_of(sample)) is not None]
        assert sorted(seen) == sorted(rows_of(sound, chain)[0].tobytes() for sound in sounds)


def test_chunks_are_rows_of_one_item(tmp_path: Path) -> None:
    chain = "mono; resample rate=16000; chunk samples=1600; log_mel mels=16"
    field = {**SOUND, "transform": chain, "tokens": {"pad": PAD, "every": 4}}
    samples = made_up_clips(8)
    expected = [rows_of(sound, chain)[0] for one in samples if (sound := sound_of(one))]
    most = 0
    with train(clips_config(tmp_path, samples, field)) as loader:
        for batch in loader:
            media = batch.media.get("audio", ())
            for item, rows in enumerate(media):
                assert rows.shape[1:] == (16, 10)
                assert media.grid_thw[item, 0] == len(rows)
                most = max(most, len(rows))
                assert media.token_spans[item, 1] - media.token_spans[item, 0] == 3 * len(rows)
                at = next(i for i, one in enumerate(expected) if np.array_equal(one, rows))
                expected.pop(at)
    assert not expected and most > 2


def long_clips_source(folder: Path, samples: list[dict[str, Any]], place: str) -> dict[str, Any]:
    """A source of sounds that lie in a tar, in cells, or in files beside the rows."""
    if place.startswith("tar"):
        packed = tar_of(samples)
        (folder / f"clips.{place}").write_bytes(gzip.compress(packed) if "gz" in place else packed)
        return {"files": f"clips.{place}", "text": "txt", "media": {"audio": SOUND}}
    table: dict[str, Any] = {"text": [one["txt"].decode() for one in samples]}
    if place == "cells":
        table["audio"] = [sound_of(one) for one in samples]
    else:
        for one in samples:
            (folder / one["__key__"]).write_bytes(sound_of(one) or b"")
        table["audio"] = [one["__key__"] for one in samples]
    pq.write_table(pa.table(table), folder / "clips.parquet")
    field = {**SOUND, "from": "audio"}
    return {"files": "clips.parquet", "text": "text", "media": {"audio": field}}


@pytest.mark.parametrize("place", ["tar", "tar.gz", "cells", "files"])
def test_long_files_are_known_without_reading_them(tmp_path: Path, place: str) -> None:
    samples = [
        {"__key__": form, "txt": form.encode(), form: clip(form, 44_100 * 20, seed=2)}
        for form in EXTENSIONS
    ]
    # Notes before the samples of a WAV, a cover before the frames of an MP3.
    wav, cover = samples[1]["wav"], 150_000
    samples[1]["wav"] = (
        b"RIFF" + struct.pack("<I", len(wav) + cover) + b"WAVELIST"
        + struct.pack("<I", cover) + bytes(cover) + wav[12:]
    )  # fmt: skip
    size = bytes(cover >> 7 * shift & 0x7F for shift in (3, 2, 1, 0))
    samples[3]["mp3"] = b"ID3\x04\0\0" + size + bytes(cover) + samples[3]["mp3"]
    assert all(len(sound_of(sample) or b"") > 150_000 for sample in samples)
    chain = "mono; resample rate=16000; fit samples=1600; log_mel mels=16"
    source = {**long_clips_source(tmp_path, samples, place), "tokenizer": "bytes"}
    source["media"]["audio"] = {**source["media"]["audio"], "transform": chain}
    seen = []
    with train(job_config(tmp_path, {"s": source}, context=128, over_length="drop")) as loader:
        for batch in loader:
            assert not any(piece.hole for piece in pieces_of(batch))
            seen += [item[0].tobytes() for item in batch.media.get("audio", ())]
        assert not loader.quarantine()
    assert sorted(seen) == sorted(
        rows_of(sound, chain)[0].tobytes() for one in samples if (sound := sound_of(one))
    )


@pytest.mark.parametrize(
    ("field", "match"),
    [
        ({**SOUND, "kind": "smell"}, "kind"),
        ({**SOUND, "transform": "patchify layout=vit patch=8"}, "patchify"),
        ({**SOUND, "transform": "fit samples=100"}, "channels"),
        ({**SOUND, "transform": "mono; pcm16"}, "sample rates"),
        ({**SOUND, "transform": "mono; resample rate=8000"}, "tokens.count"),
        ({**SOUND, "tokens": {"pad": PAD, "count": 1, "every": 2}}, "every"),
    ],
)
def test_what_cannot_travel_is_refused(tmp_path: Path, field: Any, match: str) -> None:
    with pytest.raises((ol.ConfigError, core.InvalidArgumentError), match=match):
        train(clips_config(tmp_path, made_up_clips(4), field))


def test_costs_and_encoders_can_name_frames(tmp_path: Path) -> None:
    samples = made_up_clips()
    encoder = {"column": "audio_frames", "bytes_per_unit": 8}
    config = clips_config(tmp_path, samples, strategy={"encoder": encoder})
    units = 0
    with train(config) as loader:
        for batch in loader:
            part = batch.encoder
            assert part is not None
            for media in part.media.values():
                assert media.name == "audio"
                units += int(media.grid_thw[:, 2].sum())
    assert units == sum(
        rows_of(sound)[1]["real_frames"] for one in samples if (sound := sound_of(one))
    )
