"""What one writes today: PyAV, decord or torchcodec in a DataLoader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from overlord_bench._contenders.batches_per_second import measure_dataloader
from overlord_bench._contenders.video_files import names

Taker = Callable[[str], Any]


def _places(total: int, count: int) -> list[int]:
    return [int(place) for place in np.linspace(0, total - 1, count).round()]


def _small(frame: Any, side: int) -> Any:
    """Resized and converted in one pass of libswscale, which is the fastest way with PyAV."""
    return frame.to_ndarray(width=side, height=side, format="rgb24", interpolation="BILINEAR")


def with_pyav(work: dict[str, Any], threads: str, skips: bool) -> Taker:
    """Decode through and keep what is wanted."""
    import av  # type: ignore[import-not-found,unused-ignore]

    def frames(name: str) -> Any:
        with av.open(name) as file:
            stream = file.streams.video[0]
            stream.thread_type = threads
            stream.codec_context.thread_count = 1 if threads == "NONE" else 0
            wanted = _places(stream.frames, work["frames"])
            kept: list[Any] = []
            for index, frame in enumerate(file.decode(stream)):
                if index in wanted:
                    kept.append(_small(frame, work["side"]))
                    if skips and len(kept) == len(wanted):
                        break
            return np.stack(kept)

    return frames


def with_pyav_seek(work: dict[str, Any]) -> Taker:
    """Seek to the key frame before each wanted frame and decode on."""
    import av  # type: ignore[import-not-found,unused-ignore]

    def frames(name: str) -> Any:
        with av.open(name) as file:
            stream = file.streams.video[0]
            stream.thread_type = "NONE"
            stream.codec_context.thread_count = 1
            rate, base = stream.average_rate, stream.time_base
            assert rate is not None and base is not None
            kept = []
            for place in _places(stream.frames, work["frames"]):
                moment = int(place / rate / base)
                file.seek(moment, stream=stream)
                for frame in file.decode(stream):
                    if frame.pts is not None and frame.pts >= moment:
                        kept.append(_small(frame, work["side"]))
                        break
            return np.stack(kept)

    return frames


def with_decord(work: dict[str, Any]) -> Taker:
    """decord resizes while it decodes."""
    import decord  # type: ignore[import-not-found,unused-ignore]

    def frames(name: str) -> Any:
        side = work["side"]
        file = decord.VideoReader(name, width=side, height=side, num_threads=1)
        return file.get_batch(_places(len(file), work["frames"])).asnumpy()

    return frames


def with_torchcodec(work: dict[str, Any]) -> Taker:
    """torchcodec's decoder, resized by torch."""
    import torch
    from torchcodec.decoders import (  # type: ignore[import-not-found,unused-ignore]
        VideoDecoder,
    )

    def frames(name: str) -> Any:
        file = VideoDecoder(name, num_ffmpeg_threads=1, seek_mode="approximate")
        data = file.get_frames_at(_places(len(file), work["frames"])).data
        side = (work["side"], work["side"])
        small = torch.nn.functional.interpolate(data, size=side, mode="bilinear", antialias=True)
        return small.permute(0, 2, 3, 1).contiguous().numpy()

    return frames


def _made(work: dict[str, Any]) -> Taker:
    ways: dict[str, Callable[[], Taker]] = {
        "pyav": lambda: with_pyav(work, "NONE", skips=True),
        "pyav-threads": lambda: with_pyav(work, "AUTO", skips=True),
        "pyav-seek": lambda: with_pyav_seek(work),
        "decord": lambda: with_decord(work),
        "torchcodec": lambda: with_torchcodec(work),
    }
    return ways[work["way"]]()


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Files a second."""
    return measure_dataloader(lambda: _made(work), names(work), work, prefetch=2)
