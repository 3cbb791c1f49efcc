"""Writes the folders of MDS beside this file with MosaicML's own package, and what its reader says.

mosaicml-streaming 0.13.0 wants NumPy below 2.2 and cannot be installed beside what our tests need:
run it in an environment of its own, `python write.py FOLDER`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from streaming import LocalDataset, MDSWriter
from streaming.base.util import merge_index

COLUMNS = {
    "text": "str",
    "number": "int",
    "small": "uint16",
    "tokens": "ndarray:int32",
    "packed": "bytes",
    "fixed": "ndarray:uint16:8",
    "any": "ndarray",
    "meta": "json",
    "image": "jpeg",
    "images": "list[png]",
}


def noise(seed: int) -> Image.Image:
    """A picture of three by three."""
    values = np.random.default_rng(seed).integers(0, 255, (3, 3, 3), np.uint8)
    return Image.fromarray(values.astype(np.uint8))


def jpeg(seed: int) -> Image.Image:
    """A picture that is a file: its bytes are kept."""
    path = Path(tempfile.gettempdir()) / f"picture-{seed}.jpg"
    Image.new("RGB", (8 + seed, 8), (10 * seed % 255, 90, 200)).save(path, quality=40)
    return Image.open(path)


def sample(number: int) -> dict[str, Any]:
    """One sample."""
    rng = np.random.default_rng(number)
    tokens = rng.integers(1, 900, rng.integers(3, 20))
    ask = {"role": "user", "content": f"ask {number}"}
    answer = {"role": "assistant", "content": f"answer {number}"}
    caption = f"caption of {number}"
    return {
        "text": f"sample {number}: größe 学习 " + "words " * int(rng.integers(1, 9)),
        "number": number * 1000,
        "small": np.uint16(number),
        "tokens": tokens.astype(np.int32),
        "packed": tokens[::-1].astype(np.uint16).tobytes(),
        "fixed": np.arange(1, 9, dtype=np.uint16) + number,
        "any": tokens.astype([np.int64, np.uint16, np.int32][number % 3]),
        "meta": {"caption": caption, "tags": [number, "x"], "messages": [ask, answer]},
        "image": jpeg(number),
        "images": [noise(number * 10 + j) for j in range(number % 3 + 1)],
    }


def told(item: dict[str, Any]) -> dict[str, Any]:
    """What the package's reader says of a sample."""
    return {
        "text": item["text"],
        "number": int(item["number"]),
        "small": int(item["small"]),
        "tokens": item["tokens"].tolist(),
        "packed": np.frombuffer(item["packed"], np.uint16).tolist(),
        "fixed": item["fixed"].tolist(),
        "any": item["any"].tolist(),
        "meta": item["meta"],
        "image": list(item["image"].size),
        "images": [np.asarray(one)[0, 0].tolist() for one in item["images"]],
    }


def write(folder: Path, numbers: Iterable[int], **options: Any) -> None:
    """A folder of shards."""
    with MDSWriter(out=str(folder), columns=COLUMNS, size_limit="8kb", **options) as out:
        for number in numbers:
            out.write(sample(number))


def main(folder: Path) -> None:
    """All of them."""
    write(folder / "plain", range(12))
    write(folder / "zstd", range(12), compression="zstd:3", hashes=["sha1"])
    write(folder / "gz", range(12), compression="gz")
    write(folder / "br", range(2), compression="br")
    write(folder / "merged" / "a", range(6))
    write(folder / "merged" / "b", range(6, 12))
    merge_index(str(folder / "merged"))
    read = [told(item) for item in LocalDataset(str(folder / "plain"))]
    (folder / "samples.json").write_text(json.dumps(read, ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
