"""Ours: image-text pairs through the stream, as packed Qwen2-VL records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from overlord._version import __version__

from overlord_bench._contenders.hf_vlm import MEAN, MERGE, PAD, PATCH, STD, measure_records
from overlord_bench._contenders.picture_files import tar_name


def config_of(work: dict[str, Any]) -> dict[str, Any]:
    """The job."""
    sides = {
        "factor": PATCH * MERGE,
        "min_pixels": work["min_pixels"],
        "max_pixels": work["max_pixels"],
    }
    image = {
        "from": ["jpg"],
        "transform": [
            {"smart_resize": sides},
            {"normalise": {"mean": MEAN, "std": STD}},
            {"patchify": {"layout": "qwen2vl", "patch": PATCH, "temporal": 2, "merge": MERGE}},
        ],
        "tokens": {"pad": PAD},
    }
    return {
        "job": "bench-vlm",
        "seed": 7,
        "index_dir": work["folder"] + "/index-vlm",
        "steps": 1_000_000,
        "context": work["context"],
        "bins": 1,
        "vocabulary": PAD + 1,
        "over_length": "drop",
        "at_end": "repeat",
        "sources": {
            "pairs": {
                "files": tar_name(work),
                "text": "txt",
                "tokenizer": "bytes",
                "shuffle": "full",
                "media": {"image": image},
                "workers": work["workers"],
            }
        },
        "mixture": {"weights": {"pairs": 1}},
        "runtime": {"threads": work["workers"], "prefetch": 4, "runway": 4},
    }


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Pairs a second."""
    import overlord as ol

    with ol.job(config_of(work)).train(engine="embedded") as loader:

        def records() -> Iterator[dict[str, Any]]:
            for batch in loader:
                images = batch.media["image"]
                yield {
                    "input_ids": batch.tokens,
                    "pixel_values": images.data,
                    "image_grid_thw": images.grid_thw,
                }

        return {"version": __version__, **measure_records(records(), work)}
