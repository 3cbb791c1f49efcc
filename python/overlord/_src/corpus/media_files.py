"""Shards with media: pictures and sounds with captions in tars, illustrated texts in Parquet."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlord._src.corpus import sampling, words
from overlord._src.corpus.chance import Chance
from overlord._src.corpus.drawing import draw
from overlord._src.corpus.parameters import CorpusParameters, SourceShape
from overlord._src.corpus.scenes import make_scene
from overlord._src.corpus.tunes import make_tune, play, wav_file
from overlord._src.native import core
from overlord._src.showing.png import encode_png

VERSION = 1  # of the generators: raised when they make other bytes of the same parameters
_QUALITY = 92  # of JPEGs: edges stay clean
_PNG_SHARE = 4  # one picture in so many is a PNG
_MOST_PICTURES = 5  # of an illustrated text


def shard_chances(parameters: CorpusParameters, source: SourceShape, shard: int) -> list[Chance]:
    """One chance per row of a shard."""
    key = sampling.shard_key(parameters, source.name, shard)
    keys = sampling.row_keys(key, sampling.shard_rows(source, shard))
    return [Chance(row) for row in keys.tolist()]


def drawn_picture(chance: Chance) -> tuple[str, str, bytes]:
    """A captioned picture: caption, extension, file. JPEG where this build can write it."""
    scene = make_scene(chance)
    pixels = draw(scene, chance)
    if chance.below(_PNG_SHARE) > 0 and _has_jpeg():
        return scene.caption(), "jpg", core.encode_jpeg(pixels, _QUALITY)
    return scene.caption(), "png", encode_png(pixels)


@cache
def _has_jpeg() -> bool:
    return any(codec["name"] == "jpeg" and codec["present"] for codec in core.media_codecs())


def write_pairs(path: Path, chances: Iterable[Chance]) -> None:
    """A tar of samples: a picture and its caption."""

    def sample(chance: Chance) -> dict[str, bytes]:
        caption, extension, file = drawn_picture(chance)
        return {extension: file, "txt": caption.encode()}

    write_tar(path, (sample(chance) for chance in chances))


def write_sounds(path: Path, chances: Iterable[Chance]) -> None:
    """A tar of samples: a sound and its caption."""

    def sample(chance: Chance) -> dict[str, bytes]:
        tune = make_tune(chance)
        facts = json.dumps({"milliseconds": tune.length * 1000 // 16_000})
        file = wav_file(play(tune))
        return {"wav": file, "txt": tune.caption().encode(), "json": facts.encode()}

    write_tar(path, (sample(chance) for chance in chances))


def write_tar(path: Path, samples: Iterable[Mapping[str, bytes]]) -> None:
    """A plain tar without times and owners, so that equal samples are equal bytes."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for row, sample in enumerate(samples):
            for extension, data in sample.items():
                member = tarfile.TarInfo(f"{path.stem}-{row:05d}.{extension}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def write_interleaved(path: Path, source: SourceShape, chances: Iterable[Chance]) -> None:
    """Parallel lists `texts` and `images`, as OBELICS has them: one of both is null in each place.

    Pictures are struct{bytes, path}, the Hub's layout.
    """
    texts: list[list[str | None]] = []
    images: list[list[dict[str, Any] | None]] = []
    for chance in chances:
        text, image = illustrated_text(source, chance)
        texts.append(text)
        images.append(image)
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table(
        {
            "texts": pa.array(texts, pa.list_(pa.string())),
            "images": pa.array(images, pa.list_(picture)),
        }
    )
    pq.write_table(table, path, row_group_size=source.row_group, compression="none")


def illustrated_text(
    source: SourceShape, chance: Chance
) -> tuple[list[str | None], list[dict[str, Any] | None]]:
    """Paragraphs that end with a caption, each before its picture; then a last paragraph."""
    count = 1
    while count < _MOST_PICTURES and chance.below(5) >= 2:  # 2.5 on average, were it not bounded
        count += 1
    texts: list[str | None] = []
    images: list[dict[str, Any] | None] = []
    paragraphs = _paragraphs(source, chance, count + 1)
    for paragraph in paragraphs[:-1]:
        caption, extension, file = drawn_picture(chance)
        texts += [f"{paragraph} {caption}:", None]
        images += [None, {"bytes": file, "path": f"{chance.below(10**8):08d}.{extension}"}]
    return [*texts, paragraphs[-1]], [*images, None]


def _paragraphs(source: SourceShape, chance: Chance, count: int) -> list[str]:
    """Texts of made-up words that together are as long as a row of the source."""
    key = np.array([chance.word()], np.uint64)
    tokens = int(sampling.row_lengths(source.lengths, key)[0])
    counts = np.full(count, max(4, tokens // count), np.int64)
    keys = np.array([chance.word() for _ in range(count)], np.uint64)
    units = words.draw_units(sampling.position_values(keys, counts), counts)
    return words.build_texts(units, counts, source.mark)
