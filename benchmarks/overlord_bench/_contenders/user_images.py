"""What one writes today: JPEGs to small RGB pictures in a DataLoader, WebDataset or SPDL.

Pillow decodes whole pictures, or scaled ones after `draft`; simplejpeg (libjpeg-turbo) decodes
scaled ones and OpenCV shrinks them; OpenCV alone decodes at a half, a quarter or an eighth.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from overlord_bench._contenders.batches_per_second import Endless, measure_batches, shuffled
from overlord_bench._contenders.picture_files import names, tar_name

Decoder = Callable[[bytes], Any]


def with_pillow(side: int, *, draft: bool = False) -> Decoder:
    """Whole decode, or libjpeg's scaled one."""
    from PIL import Image

    def decode(data: bytes) -> Any:
        picture = Image.open(io.BytesIO(data))
        if draft:
            picture.draft("RGB", (side, side))
        resized = picture.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
        return np.asarray(resized)

    return decode


def with_draft(side: int) -> Decoder:
    """Pillow, scaled."""
    return with_pillow(side, draft=True)


def with_simplejpeg(side: int) -> Decoder:
    """The fastest pair we know in Python."""
    import cv2  # type: ignore[import-not-found,unused-ignore]
    import simplejpeg  # type: ignore[import-not-found,import-untyped,unused-ignore]

    cv2.setNumThreads(1)

    def decode(data: bytes) -> Any:
        scaled = simplejpeg.decode_jpeg(data, min_height=side, min_width=side)
        return cv2.resize(scaled, (side, side), interpolation=cv2.INTER_LINEAR)

    return decode


def with_opencv(side: int) -> Decoder:
    """Decoded by OpenCV at a reduced size, as its header allows."""
    import cv2  # type: ignore[import-not-found,unused-ignore]
    from PIL import Image

    cv2.setNumThreads(1)
    modes = {
        1: cv2.IMREAD_COLOR,
        2: cv2.IMREAD_REDUCED_COLOR_2,
        4: cv2.IMREAD_REDUCED_COLOR_4,
        8: cv2.IMREAD_REDUCED_COLOR_8,
    }

    def decode(data: bytes) -> Any:
        shorter = min(Image.open(io.BytesIO(data)).size)  # reads the header alone
        part = max(part for part in modes if shorter // part >= side or part == 1)
        pixels: Any = cv2.imdecode(np.frombuffer(data, np.uint8), modes[part])
        resized = cv2.resize(pixels, (side, side), interpolation=cv2.INTER_LINEAR)
        return cv2.cvtColor(resized, cv2.COLOR_BGR2RGB)

    return decode


DECODERS: dict[str, Callable[[int], Decoder]] = {
    "pillow": with_pillow,
    "pillow_draft": with_draft,
    "simplejpeg": with_simplejpeg,
    "opencv": with_opencv,
}


def _dataloader(work: dict[str, Any]) -> Iterator[Any]:
    import torch
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)
    files, make, side = names(work), DECODERS[work["decoder"]], work["side"]

    class Pictures(Dataset):  # type: ignore[misc]
        decode: Decoder | None = None

        def __len__(self) -> int:
            return 1 << 30

        def __getitem__(self, index: int) -> Any:
            self.decode = self.decode or make(side)
            return torch.from_numpy(np.array(self.decode(Path(files[index]).read_bytes())))

    return iter(
        DataLoader(
            Pictures(),
            batch_size=work["batch"],
            sampler=Endless(len(files)),
            num_workers=work["workers"],
            prefetch_factor=4,
        )
    )


def _webdataset(work: dict[str, Any]) -> Iterator[Any]:
    import torch
    import webdataset  # type: ignore[import-not-found,import-untyped,unused-ignore]

    make, side = DECODERS[work["decoder"]], work["side"]
    made: list[Decoder] = []

    def decode(sample: dict[str, Any]) -> Any:
        if not made:
            made.append(make(side))
        return torch.from_numpy(np.array(made[0](sample["jpg"])))

    tars = [tar_name(work)] * work["workers"]  # each worker reads one
    shards = webdataset.WebDataset(tars, shardshuffle=False, nodesplitter=lambda urls: urls)
    data = shards.repeat().shuffle(64).map(decode).batched(work["batch"], collation_fn=torch.stack)
    return iter(webdataset.WebLoader(data, batch_size=None, num_workers=work["workers"]))


def _spdl(work: dict[str, Any]) -> Iterator[Any]:
    from spdl.pipeline import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        PipelineBuilder,
    )

    files, decode = names(work), DECODERS[work["decoder"]](work["side"])

    def load(index: int) -> Any:
        return decode(Path(files[index]).read_bytes())

    pipeline = (
        PipelineBuilder()
        .add_source(shuffled(len(files)))
        .pipe(load, concurrency=work["workers"])
        .aggregate(work["batch"])
        .pipe(np.stack)
        .add_sink(4)
        .build(num_threads=work["workers"])
    )
    with pipeline.auto_stop():
        yield from pipeline.get_iterator()


LOADERS = {"dataloader": _dataloader, "webdataset": _webdataset, "spdl": _spdl}


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Files a second."""
    DECODERS[work["decoder"]](work["side"])  # whoever is missing is missed here, not in a worker
    return measure_batches(iter(LOADERS[work["loader"]](work)), work)
