"""What one writes today: the Hugging Face image processor in a DataLoader, pairs packed in order.

Workers decode with Pillow and run the processor; the loop's side packs pairs into records of one
context as they come. Text is its bytes, for ours too: tokenizers are not what is measured.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from overlord_bench._contenders.batches_per_second import Endless
from overlord_bench._contenders.media_stream import caption
from overlord_bench._contenders.picture_files import names

PATCH, MERGE, PAD = 14, 2, 300
MEAN = [0.48145466, 0.4578275, 0.40821073]
STD = [0.26862954, 0.26130258, 0.27577711]


def measure_records(records: Iterator[dict[str, Any]], work: dict[str, Any]) -> dict[str, Any]:
    """Pairs, records and patches a second after a second of warming up."""
    started = time.perf_counter()
    while time.perf_counter() - started < 1.0:
        next(records)
    pairs = made = patches = tokens = 0
    total = 0.0
    started = time.perf_counter()
    while time.perf_counter() - started < work["seconds"]:
        record = next(records)
        pairs += len(record["image_grid_thw"])
        patches += len(record["pixel_values"])
        tokens += int((np.asarray(record["input_ids"]) != 0).sum())
        total += float(record["pixel_values"][0, 0])
        made += 1
    taken = time.perf_counter() - started
    return {
        "samples_per_s": pairs / taken,
        "records_per_s": made / taken,
        "patches_per_sample": patches / max(pairs, 1),
        "fill": tokens / max(made, 1) / work["context"],
    }


def _processor(work: dict[str, Any]) -> Any:
    import transformers  # type: ignore[import-not-found,unused-ignore]

    name = "Qwen2VLImageProcessorFast" if work["fast"] else "Qwen2VLImageProcessor"
    return getattr(transformers, name)(
        min_pixels=work["min_pixels"],
        max_pixels=work["max_pixels"],
        patch_size=PATCH,
        merge_size=MERGE,
        image_mean=MEAN,
        image_std=STD,
    )


def _packed(pairs: Iterator[Any], context: int) -> Iterator[dict[str, Any]]:
    held: list[Any] = []
    used = 0
    for ids, pixels, grid in pairs:
        if used + len(ids) > context:
            row = np.zeros(context, np.int64)
            row[:used] = np.concatenate([item[0] for item in held])
            yield {
                "input_ids": row,
                "pixel_values": np.concatenate([item[1] for item in held]),
                "image_grid_thw": np.concatenate([item[2] for item in held]),
            }
            held, used = [], 0
        held.append((ids, pixels, grid))
        used += len(ids)


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Pairs a second."""
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)
    files = names(work)
    _processor(work)  # whoever is missing is missed here, not in a worker

    class Pairs(Dataset):  # type: ignore[misc]
        processor: Any = None

        def __len__(self) -> int:
            return 1 << 30

        def __getitem__(self, index: int) -> Any:
            self.processor = self.processor or _processor(work)
            picture = Image.open(io.BytesIO(Path(files[index]).read_bytes())).convert("RGB")
            made = self.processor(images=picture, return_tensors="np" if not work["fast"] else "pt")
            grid = np.asarray(made["image_grid_thw"])
            pads = int(grid.prod()) // MERGE**2
            text = np.frombuffer(caption(index).encode(), np.uint8)
            ids = np.concatenate([np.full(pads, PAD), text]).astype(np.int64)
            return ids, np.asarray(made["pixel_values"]), grid

    loader = DataLoader(
        Pairs(),
        batch_size=None,
        sampler=Endless(len(files)),
        num_workers=work["workers"],
        prefetch_factor=8,
    )
    pairs = ((np.asarray(a), np.asarray(b), np.asarray(c)) for a, b, c in loader)
    return measure_records(_packed(pairs, work["context"]), work)
