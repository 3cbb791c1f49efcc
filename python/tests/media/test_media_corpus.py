"""Generated media: pictures and sounds that are what their captions say, the same everywhere."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from overlord._src.corpus import DEMO, CorpusParameters, ensure_corpus, generate, media_files
from overlord._src.corpus.chance import Chance
from overlord._src.corpus.drawing import draw
from overlord._src.corpus.scenes import COLOURS, Scene, make_scene, scene_words
from overlord._src.corpus.tunes import RATE, Tune, make_tune, play, tune_words, wav_file
from overlord._src.corpus.words import FIRST_CAPTION_WORD, tokenizer_json
from overlord._src.showing.png import encode_png

from overlord import _core as core

SMALL = CorpusParameters(
    seed=5,
    sources=tuple(
        replace(source, documents=9, row_group=4)
        for source in DEMO.sources
        if source.kind in ("pairs", "sounds", "interleaved")
    ),
)
SCENES = 60
TUNES = 40
# Made of whole numbers alone: a machine that gives others is not one that we know.
PIXELS = "796162fb045c76f5f18651e5628a886e"
SAMPLES = "d2f41c22cb304cddbbb9ee4d3d74da40"


def scenes() -> list[tuple[Scene, Any]]:
    """Some scenes and their pictures."""
    made = []
    for key in range(SCENES):
        chance = Chance(1000 + key)
        scene = make_scene(chance)
        made.append((scene, draw(scene, chance)))
    return made


def test_pixels_and_samples_never_change() -> None:
    pixels, samples = hashlib.sha256(), hashlib.sha256()
    for scene, picture in scenes():
        pixels.update(f"{scene.caption()} {picture.shape}".encode() + picture.tobytes())
    for key in range(TUNES):
        tune = make_tune(Chance(key))
        samples.update(tune.caption().encode() + play(tune).astype("<i2").tobytes())
    assert (pixels.hexdigest()[:32], samples.hexdigest()[:32]) == (PIXELS, SAMPLES)


def spots(mask: Any, least: int = 12) -> list[tuple[float, float]]:
    """Middles (y, x) of the connected regions of a mask that have at least so many pixels."""
    left = mask.copy()
    found = []
    for y, x in zip(*np.nonzero(mask), strict=True):
        if not left[y, x]:
            continue
        left[y, x] = False
        region, waiting = [], [(int(y), int(x))]
        while waiting:
            at = waiting.pop()
            region.append(at)
            for next_y, next_x in (
                (at[0] - 1, at[1]),
                (at[0] + 1, at[1]),
                (at[0], at[1] - 1),
                (at[0], at[1] + 1),
            ):
                if (
                    0 <= next_y < mask.shape[0]
                    and 0 <= next_x < mask.shape[1]
                    and left[next_y, next_x]
                ):
                    left[next_y, next_x] = False
                    waiting.append((next_y, next_x))
        if len(region) >= least:
            found.append(tuple(np.mean(region, axis=0).tolist()))
    return found


def test_a_picture_shows_what_its_caption_says() -> None:
    seen = set()
    for scene, picture in scenes():
        middles = []
        for group in scene.groups:
            there = spots(np.all(picture == np.array(COLOURS[group.colour]), axis=2))
            assert len(there) == group.count, scene.caption()
            middles.append(np.mean(there, axis=0))
            seen.add(group.shape)
        if scene.relation is not None:
            (first_y, first_x), (second_y, second_x) = middles
            holds = {
                "above": first_y < second_y,
                "below": first_y > second_y,
                "left of": first_x < second_x,
                "right of": first_x > second_x,
            }
            assert holds[scene.relation], scene.caption()
        assert set(scene.caption().split()) <= set(scene_words())
    assert len(seen) == 8


def loud_notes(samples: Any) -> Any:
    """How loud each semitone above C0 is, from a spectrum."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    hertz = 440.0 * 2.0 ** ((np.arange(108) - 57) / 12)
    places = hertz * len(samples) / RATE
    return np.array(
        [
            spectrum[max(0, round(place) - 2) : round(place) + 3].max(initial=0)
            if place < len(spectrum)
            else 0.0
            for place in places
        ]
    )


def parts_of(tune: Tune, samples: Any) -> list[tuple[Any, list[int]]]:
    """Stretches of a clip, and the notes that must be heard in each."""
    keys = [note.key for note in tune.notes]
    if tune.kind in ("tone", "chord"):
        return [(samples, keys)]
    if tune.kind == "melody":
        ends = [tune.length * (at + 1) // len(keys) for at in range(len(keys))]
        return [
            (samples[begin:end], [key])
            for begin, end, key in zip([0, *ends[:-1]], ends, keys, strict=True)
        ]
    return []


def test_a_sound_has_the_notes_of_its_caption() -> None:
    kinds = set()
    for key in range(TUNES):
        tune = make_tune(Chance(key))
        samples = play(tune)
        kinds.add(tune.kind)
        assert len(samples) == tune.length and np.abs(samples.astype(int)).max() < 2**15 - 1
        for part, notes in parts_of(tune, samples):
            loud = loud_notes(part)
            # Overtones are softer than what they belong to.
            assert min(loud[note] for note in notes) > 0.5 * loud.max(), tune.caption()
        if tune.kind == "sweep":
            halves = np.array_split(samples, 2)
            first, second = (int(np.argmax(np.abs(np.fft.rfft(half)))) for half in halves)
            assert (first < second) == ("rising" in tune.caption())
        assert set(tune.caption().translate(str.maketrans("", "", "3456")).split()) <= set(
            tune_words()
        )
    assert kinds == {"tone", "chord", "melody", "sweep"}


def test_captions_are_a_token_for_a_word() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json())
    for scene, _ in scenes():
        ids = tokenizer.encode(scene.caption()).ids
        assert len(ids) == len(scene.caption().split()) and max(ids) >= FIRST_CAPTION_WORD


def test_wav_files_are_read_back() -> None:
    tune = make_tune(Chance(3))
    data = wav_file(play(tune))
    header = core.probe_audio(data)
    assert (header["format"], header["sample_rate"], header["frames"]) == ("wav", RATE, tune.length)
    decoded: Any = core.decode_audio(data)
    assert np.array_equal(np.rint(decoded[:, 0] * 32768).astype(np.int16), play(tune))


@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 5, 3), (40, 33, 1), (40, 33, 4), (9, 4)])
def test_png_files_are_read_back(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    data = encode_png(pixels)
    decoded: Any = core.decode_image(data, "alpha=drop")
    wide = pixels.reshape(*shape[:2], -1)
    expected = wide[:, :, :3] if wide.shape[2] >= 3 else wide.repeat(3, axis=2)
    assert np.array_equal(decoded, expected)
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(data))
    assert np.array_equal(np.asarray(image).reshape(wide.shape), wide)
    with pytest.raises(ValueError, match="not the samples"):
        encode_png(pixels.astype(np.int32))  # type: ignore[arg-type]


def test_jpeg_files_are_close() -> None:
    if "jpeg" not in {codec["name"] for codec in core.media_codecs() if codec["present"]}:
        pytest.skip("this build is without libjpeg")
    scene, picture = scenes()[1]
    data = core.encode_jpeg(picture, 92)
    decoded: Any = core.decode_image(data)
    assert decoded.shape == picture.shape == (scene.height, scene.width, 3)
    assert np.abs(decoded.astype(int) - picture).mean() < 4
    with pytest.raises(core.InvalidArgumentError, match="quality"):
        core.encode_jpeg(picture, 0)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> generate.Corpus:
    return ensure_corpus(tmp_path_factory.mktemp("corpus"), SMALL)


def test_tars_have_a_blob_and_a_caption(small: generate.Corpus) -> None:
    for name, extensions in (("drawings", {"jpg", "png"}), ("tunes", {"wav"})):
        source = SMALL.source(name)
        seen = set()
        with tarfile.open(generate.shard_path(small.folder, source, 0)) as tar:
            members = tar.getmembers()
            assert all(member.mtime == 0 and member.uid == 0 for member in members)
            keys = [member.name.partition(".")[0] for member in members]
            assert keys == sorted(keys) and len(set(keys)) == 5
            for member in members:
                file = tar.extractfile(member)
                assert file is not None
                extension = member.name.partition(".")[2]
                if extension == "txt":
                    assert file.read().decode().split()[-1].isalnum()
                elif extension != "json":
                    seen.add(extension)
        assert seen <= extensions and seen


def test_pictures_of_a_tar_are_those_of_their_rows(small: generate.Corpus) -> None:
    source = SMALL.source("drawings")
    chances = media_files.shard_chances(SMALL, source, 1)
    with tarfile.open(generate.shard_path(small.folder, source, 1)) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        for row, chance in enumerate(chances):
            caption, extension, data = media_files.drawn_picture(chance)
            stored = files[f"drawings-001-{row:05d}.{extension}"]
            text = files[f"drawings-001-{row:05d}.txt"]
            assert stored is not None and text is not None
            assert stored.read() == data and text.read().decode() == caption


def test_guides_have_a_text_or_a_picture_in_every_place(small: generate.Corpus) -> None:
    path = generate.shard_path(small.folder, SMALL.source("guides"), 0)
    counts = []
    for row in pq.read_table(path).to_pylist():
        assert len(row["texts"]) == len(row["images"])
        places = list(zip(row["texts"], row["images"], strict=True))
        assert all((text is None) != (image is None) for text, image in places)
        pictures = [image for _, image in places if image is not None]
        counts.append(len(pictures))
        for image in pictures:
            assert core.probe_image(image["bytes"])["width"] >= 112
            assert image["path"].endswith((".jpg", ".png"))
        for before, (_, image) in zip(row["texts"], places[1:], strict=False):
            if image is not None:
                assert before is not None and " on " in before  # the caption stands before it
    assert min(counts) >= 1 and max(counts) > 1


def test_it_is_made_anew_for_another_seed(tmp_path: Path, small: generate.Corpus) -> None:
    other = ensure_corpus(tmp_path, replace(SMALL, seed=6))
    assert other.made and not ensure_corpus(small.folder, SMALL).made
    for source in SMALL.sources:
        first = generate.shard_path(small.folder, source, 0).read_bytes()
        assert first != generate.shard_path(tmp_path, source, 0).read_bytes()
