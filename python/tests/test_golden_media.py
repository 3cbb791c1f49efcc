"""Golden hashes of media: the same pixels, samples and frames on every CPU.

The pictures, sounds and clips are files (`golden_media`, `kept_clips.py`), so that no encoder of
the day has a say in what goes in. `golden_media.json` was made by
`python python/tests/test_golden_media.py`; `test_golden.py` says what it means when hashes change.

Pinned is what docs/media.md promises on every CPU: JPEG, PNG, WebP, WAV, FLAC, H.264 and VP9, and
every step of the chains. Vorbis, Opus and MP3 are decoded in floats by their library, and MPEG-4 by
a transform that may differ between CPUs: they are not here. The codecs' fingerprints are stored too
and tell, when a hash has changed, whether a library makes other pixels.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import job_config
from kept_clips import SMALL, WEBM, WIDE
from overlord._src.corpus.media_files import write_tar
from overlord._src.showing.png import encode_png

import overlord as ol
from overlord import _core as core

GOLDEN = Path(__file__).with_name("golden_media.json")
KEPT = Path(__file__).with_name("golden_media")
MESHES = ["dp=1", "pp=2,dp=2,cp=2"]
PICTURES, SOUNDS, CLIPS = ["jpg", "png", "webp"], ["wav", "flac"], ["mp4", "webm"]
TOKENS = {"pad": 900, "before": 901, "after": 902}

SMALL_SQUARE = "resize_short side=40 filter=bilinear; centre_crop width=32 height=32"
CHANCE = (
    "random_resized_crop width=48 height=40 filter=lanczos; random_flip;"
    "random_crop width=32 height=32"
)
NORMALISE = "normalise mean=0.48145466,0.4578275,0.40821073 std=0.26862954,0.26130258,0.27577711"
PICTURE_CHAINS = {
    "exact to patches": f"orient; smart_resize max_pixels=12544; {NORMALISE}; patchify",
    "scaled to patches": f"decode jpeg=scaled; orient; resize width=42 height=28; {NORMALISE};"
    "patchify layout=vit",
    "scaled to planes": f"decode jpeg=scaled; {SMALL_SQUARE}; planes",
    "exact by chance": f"decode alpha=drop; orient; {CHANCE}; normalise order=fused",
    "scaled by chance": f"decode jpeg=scaled background=7,99,201; {CHANCE}",
    "tiles": f"orient; tile size=28 most=6; {NORMALISE}; patchify",
    "buckets": "orient; aspect_bucket buckets=32x32,48x32,32x48; patchify layout=vit_last patch=8",
    "as they are": "centre_crop width=48 height=40; grey",
}
SOUND_CHAINS = {
    "mel of chunks": "mono; resample rate=16000; chunk samples=1600 hop=1200;"
    "log_mel mels=80 tokens=whisper",
    "mel of frames": "mono; resample rate=16000 quality=high; log_mel mels=128 tokens=qwen2_audio",
    "pcm16": "mono; resample rate=16000 quality=fast; random_cut samples=1600; pcm16",
    "samples": "mono; resample rate=22050; fit samples=4000",
}
CLIP_CHAINS = {
    "frames to patches": "sample fps=12 max=6 multiple_of=2; smart_resize min_pixels=784"
    f" max_pixels=3136; {NORMALISE}; patchify",
    "frames": "orient; clip start=40 end=240; sample frames=3 at=centres;"
    "resize width=33 height=21; planes",
}
# The encoder's samples have owners of their own, on all ranks; text is balanced over its groups.
HYBRID = {
    "distribute": {"axis": "dp"},
    "cost": {"kind": "sum", "terms": [{"column": "tokens", "linear_q32": 1 << 32}]},
    "balance": {"method": "lpt_search"},
    "encoder": {
        "cost": {"kind": "sum", "terms": [{"column": "image_patches", "linear_q32": 1 << 32}]},
        "balance": {"method": "lpt_search"},
        "bytes_per_unit": 8,
    },
}


@cache
def codecs() -> dict[str, Any]:
    """Those of this build, by name."""
    return {codec["name"]: codec for codec in core.media_codecs()}


def kept(extensions: list[str]) -> list[tuple[str, bytes]]:
    """Extension and bytes of the kept files, in the order of their names."""
    files = [path for path in sorted(KEPT.iterdir()) if path.suffix[1:] in extensions]
    found = [(path.suffix[1:], path.read_bytes()) for path in files]
    if extensions == CLIPS:
        found += [("mp4", SMALL), ("webm", WEBM), ("mp4", WIDE)]
    return found


def media_config(
    folder: Path, kind: str, extensions: list[str], chain: str, **top: Any
) -> dict[str, Any]:
    """A job over a tar that has every kept file twice, each time with another text."""
    files = kept(extensions)
    rows = [
        {extension: data, "txt": f"row {row} of {kind}, {'again ' * (row % 7)}".encode()}
        for row, (extension, data) in enumerate([*files, *files])
    ]
    write_tar(folder / "media.tar", rows)
    tokens = TOKENS if "patchify" in chain or "log_mel" in chain else {**TOKENS, "count": 5}
    field = {"kind": kind, "from": extensions, "transform": chain, "tokens": tokens}
    source = {
        "files": "media.tar",
        "text": "txt",
        "tokenizer": "bytes",
        "media": {kind: field},
        "over_length": "drop",
        "window_rows": 8,
    }
    settings = {"job": "golden", "at_end": "repeat", "steps": 5, "bins": 8, "context": 256}
    return job_config(folder, {"s": source}, **{"align": 4, **settings, **top})


def jobs() -> Iterator[tuple[str, list[str], str, list[str], str, dict[str, Any]]]:
    """Name, codecs, kind, extensions, chain and further keys of every job."""
    stills = ["jpeg", "png", "webp"]
    for name, chain in PICTURE_CHAINS.items():
        yield f"pictures, {name}", stills, "image", PICTURES, chain, {}
    chain = PICTURE_CHAINS["exact to patches"]
    yield "pictures, hybrid", stills, "image", PICTURES, chain, {"strategy": HYBRID}
    for name, chain in SOUND_CHAINS.items():
        yield f"sounds, {name}", ["audio"], "audio", SOUNDS, chain, {}
    for name, chain in CLIP_CHAINS.items():
        yield f"clips, {name}", ["video"], "video", CLIPS, chain, {}


JOBS = {name: told for name, *told in jobs()}


def needed(name: str) -> list[str]:
    return list(JOBS[name][0])


def absent(name: str) -> list[str]:
    """Codecs that a job needs and this build does not have."""
    return [codec for codec in needed(name) if not codecs()[codec]["present"]]


def hashes_of(folder: Path, name: str) -> dict[str, str]:
    """The hashes of a job: one of its contents, which no mesh changes, and one for each mesh."""
    _, kind, extensions, chain, top = JOBS[name]
    config = media_config(folder, kind, extensions, chain, **top)
    found: dict[str, str] = {}
    for mesh in MESHES:
        with ol.job(config, mesh=mesh).train(ranks="all", hash=True) as loaders:
            items = 0
            for batches in loaders.rounds():
                items += sum(count_items(batch) for batch in batches.values())
            assert items > 0 and not loaders.quarantine(), "every kept file decodes"
            found[f"stream {mesh}"] = loaders.stream_hash()
            found.setdefault("content", loaders.content_hash())
            assert found["content"] == loaders.content_hash()
    return found


def count_items(batch: ol.Microbatch) -> int:
    """Items of which a batch has the data."""
    held = [*batch.media.values(), *(batch.encoder.media.values() if batch.encoder else ())]
    return sum(len(media.grid_thw) for media in held if media.data is not None)


def checked_in() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(GOLDEN.read_text())
    return stored


@pytest.mark.parametrize("name", JOBS)
def test_hashes_of_media_are_the_checked_in_ones(tmp_path: Path, name: str) -> None:
    if absent(name):
        pytest.skip(f"this build has no {', '.join(absent(name))}")
    stored = checked_in()
    prints = {codec: codecs()[codec]["fingerprint"] for codec in needed(name)}
    told = {codec: stored["fingerprints"][codec] for codec in prints}
    assert hashes_of(tmp_path, name) == stored["hashes"][name], "the codecs' own fingerprints " + (
        "are those of the file" if prints == told else f"differ as well: {prints}, not {told}"
    )


def test_one_level_of_one_pixel_changes_the_hash(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hashes see what media hold, also where encoders have owners of their own."""
    if absent("pictures, hybrid"):
        pytest.skip("this build cannot read every picture")
    pixels = np.arange(48 * 40 * 3, dtype=np.uint32).reshape(40, 48, 3).astype(np.uint8)
    other = pixels.copy()
    other[20, 30, 1] ^= 1
    for name in ("pictures, as they are", "pictures, hybrid"):
        made = []
        for drawn in (pixels, pixels, other):
            file = ("png", encode_png(drawn))
            monkeypatch.setattr(sys.modules[__name__], "kept", lambda _, file=file: [file] * 4)
            made.append(hashes_of(tmp_path_factory.mktemp("drawn"), name))
        first, again, changed = made
        assert first == again and first["content"] == changed["content"]
        assert all(first[f"stream {mesh}"] != changed[f"stream {mesh}"] for mesh in MESHES)


def golden() -> dict[str, Any]:
    """What the file holds, made here and now."""
    hashes = {}
    for name in JOBS:
        with tempfile.TemporaryDirectory() as folder:
            hashes[name] = hashes_of(Path(folder), name)
    return {
        "about": "Made by test_golden_media.py, which says what it means when these change.",
        "fingerprints": {name: codec["fingerprint"] for name, codec in codecs().items()},
        "hashes": hashes,
    }


def main(arguments: list[str]) -> None:
    """`--print` prints the hashes; without it golden_media.json is written anew."""
    made = json.dumps(golden(), indent=2)
    if arguments == ["--print"]:
        print(made)
        return
    GOLDEN.write_text(made + "\n")
    print(f"wrote {GOLDEN}")


if __name__ == "__main__":
    main(sys.argv[1:])
