"""Ours: the pairs of the bench `vlm`, decoded by loaders or by constructors.

`owned`: their pictures go to the ranks that encode them.
"""

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
    owned = work.get("owned", False)
    if owned:  # two groups, whose ranks encode each other's pictures too
        config["bins"] = 2
        encoder = {"column": "image_patches", "distribute": {"axis": "world"}, "bytes_per_unit": 8}
        config["strategy"] = {"encoder": encoder}
    job = ol.job(config, mesh=ol.mesh(dp=2 if owned else 1))
    with job.train(ranks="all", engine=work["engine"]) as loaders:

        def records() -> Iterator[dict[str, Any]]:
            for batches in loaders.steps():
                for batch in (one for own in batches.values() for one in own):
                    media = batch.encoder.media if batch.encoder else batch.media
                    images = media.get("image")
                    if images is not None:
                        yield {
                            "input_ids": batch.tokens,
                            "pixel_values": images.data,
                            "image_grid_thw": images.grid_thw,
                        }

        figures = measure_records(records(), work)
        status = loaders[0].status()
    [told] = status["loaders"]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "version": __version__,
        **figures,
        "sent_bytes_per_sample": told["sent_bytes"] / max(told["documents"], 1),
        "unpacked_per_sample": sum(one["blobs"] for one in status["unpacking"])
        / max(told["documents"], 1),
        "peak_bytes": usage.ru_maxrss * 1024,
    }
