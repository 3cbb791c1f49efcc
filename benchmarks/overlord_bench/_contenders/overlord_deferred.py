"""Ours: the pairs of the bench `vlm`, decoded by loaders or by constructors."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any

from overlord._version import __version__

from overlord_bench._contenders.hf_vlm import measure_records
from overlord_bench._contenders.overlord_vlm import config_of


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Pairs a second, and the bytes that loaders handed to constructors for each."""
    import overlord as ol

    config = config_of(work)
    config["sources"]["pairs"]["decode_at"] = work["decode_at"]
    with ol.job(config).train(engine=work["engine"]) as loader:

        def records() -> Iterator[dict[str, Any]]:
            for batch in loader:
                images = batch.media["image"]
                yield {
                    "input_ids": batch.tokens,
                    "pixel_values": images.data,
                    "image_grid_thw": images.grid_thw,
                }

        figures = measure_records(records(), work)
        [told] = loader.status()["loaders"]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "version": __version__,
        **figures,
        "sent_bytes_per_sample": told["sent_bytes"] / max(told["documents"], 1),
        "peak_bytes": usage.ru_maxrss * 1024,
    }
