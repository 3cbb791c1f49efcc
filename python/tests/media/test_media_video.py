"""Clips: headers, choice of frames, pixels and patches against PyAV and plain NumPy."""

from __future__ import annotations

import functools
import io
import shutil
import tempfile
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overlord import _core as media

av = pytest.importorskip("av")


def picture(index: int, width: int, height: int) -> np.ndarray:
    """Slow waves of colour, and a square that moves."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [
        np.sin(x / 23 + index / 5),
        np.cos(y / 17 - index / 7),
        np.sin((x + y) / 31 + index / 9),
    ]
    out = np.stack([128 + 80 * wave for wave in waves], 2)
    left = (5 * index) % width
    out[height // 3 : height // 2, left : left + width // 6] = (230, 200, 40)
    return out.astype(np.uint8)


def clip(
    frames: int = 50,
    size: tuple[int, int] = (160, 96),
    codec: str = "libx264",
    format: str = "mp4",
    times: Callable[[int], int] | None = None,
    pixels: str = "yuv420p",
    options: dict[str, str] | None = None,
    movflags: str = "",
) -> bytes:
    """A clip at 25 frames a second, or with frames at `times` milliseconds."""
    if codec not in av.codecs_available:
        pytest.skip(f"this PyAV has no {codec}")
    out = Path(tempfile.mkdtemp()) / "clip"  # a file: tables in front are written in a second pass
    with av.open(
        str(out), "w", format=format, options={"movflags": movflags} if movflags else {}
    ) as f:
        stream = f.add_stream(codec, rate=25, options=options or {})
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        if times is not None:
            stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        for index in range(frames):
            frame = av.VideoFrame.from_ndarray(picture(index, *size), format="rgb24")
            frame = frame.reformat(format=pixels)
            if times is not None:
                frame.pts, frame.time_base = times(index), Fraction(1, 1000)
            f.mux(stream.encode(frame))
        f.mux(stream.encode())
    data = out.read_bytes()
    shutil.rmtree(out.parent)
    return data


GROUPS = {"x264-params": "keyint=12:bframes=3:b-pyramid=normal:scenecut=0"}
UNEVEN = [0, 40, 80, 400, 440, 1000, 1040, 1080, 1120, 2500, 2540, 2600]
CLIPS: dict[str, dict[str, Any]] = {
    "h264": {"options": GROUPS},
    "h264-one-group": {},
    "h264-front": {"options": GROUPS, "movflags": "faststart"},
    "h264-fragments": {"options": GROUPS, "movflags": "frag_keyframe+empty_moov"},
    "h264-mov": {"options": GROUPS, "format": "mov"},
    "h264-mkv": {"options": GROUPS, "format": "matroska"},
    "h264-open": {
        "options": {"x264-params": "keyint=10:open-gop=1:bframes=3:scenecut=0"},
        "format": "matroska",
    },
    "h264-odd": {"size": (158, 90)},
    "h264-slices": {"options": {"x264-params": "slices=4:keyint=20:bframes=3"}},
    "h264-444": {"pixels": "yuv444p"},
    "h264-422-10": {"pixels": "yuv422p10le"},
    "h264-uneven": {"frames": len(UNEVEN), "times": UNEVEN.__getitem__},
    "hevc": {"codec": "libx265", "options": {"x265-params": "keyint=10:log-level=none"}},
    "vp9": {"codec": "libvpx-vp9", "format": "webm", "options": {"g": "10"}},
    "vp8": {"codec": "libvpx", "format": "webm", "options": {"g": "10"}},
    "av1": {"codec": "libsvtav1", "format": "mp4", "frames": 20},
    "mpeg4": {"codec": "mpeg4", "options": {"g": "10", "bf": "2"}},
}


@functools.cache
def made(name: str) -> bytes:
    return clip(**CLIPS[name])


@functools.cache
def theirs(name: str) -> tuple[np.ndarray, list[Fraction]]:
    """RGB and times of all frames by PyAV."""
    with av.open(io.BytesIO(made(name))) as file:
        frames = list(file.decode(video=0))
        pixels = [frame.to_ndarray(format="rgb24") for frame in frames]
        return np.stack(pixels), [frame.pts * frame.time_base for frame in frames]


@pytest.mark.parametrize("name", CLIPS)
def test_header_is_that_of_the_file(name: str) -> None:
    header = media.probe_video(made(name))
    pixels, times = theirs(name)
    assert (header["height"], header["width"]) == pixels.shape[1:3]
    assert header["frames"] == len(pixels)
    assert header["coding"] == name.split("-")[0]
    if "times" not in CLIPS[name]:
        assert header["fps"] == (25, 1)
        assert header["milliseconds"] == 40 * len(pixels)
    else:
        assert header["milliseconds"] >= round(1000 * (times[-1] - times[0]))


# Ours: 16-bit fixed point, one rounding. libswscale rounds its products earlier and, for 4:2:2 and
# deeper samples, interpolates colours between pixels where ours repeats them.
TOLERANCE = {"h264-422-10": (80, 2.5), "h264-odd": (40, 1.5)}


@pytest.mark.parametrize("name", CLIPS)
def test_frames_are_those_of_pyav(name: str) -> None:
    ours = media.decode_video(made(name))
    pixels, _ = theirs(name)
    assert ours.shape == pixels.shape and ours.dtype == np.uint8
    apart = np.abs(ours.astype(int) - pixels)
    most, mean = TOLERANCE.get(name, (4, 1.0))
    assert apart.max() <= most and apart.mean() <= mean, (apart.max(), apart.mean())


@pytest.mark.parametrize("name", CLIPS)
def test_some_frames_are_those_of_a_full_decode(name: str) -> None:
    """Starting at key frames, skipping what nothing leans on and stopping early change no pixel."""
    data, whole = made(name), media.decode_video(made(name))
    _, times = theirs(name)
    for count in (1, 2, 3, 7, len(whole)):
        ours, geometry = media.run_video_chain(data, f"sample frames={count}")
        assert geometry["frames"] == count
        span = times[-1] - times[0]
        moments = [times[0] + span * i / max(count - 1, 1) for i in range(count)]
        nearest = [
            min(range(len(times)), key=lambda k, m=m: (abs(times[k] - m), k % 2)) for m in moments
        ]
        assert np.array_equal(ours, whole[nearest])
    for place in range(0, len(whole), 3):  # every kind of frame alone
        start = int(1000 * (times[place] - times[0]))
        ours, _ = media.run_video_chain(data, f"clip start={start}; sample frames=2")
        assert np.array_equal(ours[0], whole[place])
        assert np.array_equal(ours[1], whole[-1])


def test_threads_of_the_decoder_change_nothing() -> None:
    one = media.run_video_chain(made("h264"), "sample frames=5")[0]
    four = media.run_video_chain(made("h264"), "decode threads=4; sample frames=5")[0]
    assert np.array_equal(one, four)


def test_resized_frames_are_near_those_of_pillow() -> None:
    pillow = pytest.importorskip("PIL.Image")
    pixels, _ = theirs("h264")
    for width, height in ((224, 224), (80, 48), (61, 37)):
        chain = f"sample frames=4; resize width={width} height={height} filter=bicubic"
        ours = media.run_video_chain(made("h264"), chain)[0]
        for frame, place in zip(ours, (0, 16, 33, 49), strict=True):
            image = pillow.fromarray(pixels[place]).resize((width, height), pillow.BICUBIC)
            apart = np.abs(frame.astype(int) - np.asarray(image))
            # Ours resizes planes before colours: edges of strong colour differ.
            assert apart.mean() < 1.5, apart.mean()


def qwen2vl_patches(frames: np.ndarray, patch: int, temporal: int, merge: int) -> np.ndarray:
    """The processor's rule: frames x height x width x 3 to rows of channel, time, y, x."""
    if len(frames) % temporal:
        frames = np.concatenate(
            [frames, np.repeat(frames[-1:], temporal - len(frames) % temporal, 0)]
        )
    count, height, width, channels = frames.shape
    grid_t, grid_h, grid_w = count // temporal, height // patch, width // patch
    patches = frames.transpose(0, 3, 1, 2).reshape(
        grid_t, temporal, channels, grid_h // merge, merge, patch, grid_w // merge, merge, patch
    )
    patches = patches.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8)
    return patches.reshape(grid_t * grid_h * grid_w, channels * temporal * patch * patch)


@pytest.mark.parametrize("frames", [1, 4, 5])
@pytest.mark.parametrize("temporal", [1, 2, 3])
def test_patches_over_time_are_those_of_the_processor(frames: int, temporal: int) -> None:
    steps = f"sample frames={frames}; resize width=112 height=56"
    stack, _ = media.run_video_chain(made("h264"), steps)
    levels, geometry = media.run_video_chain(
        made("h264"), f"{steps}; patchify patch=14 temporal={temporal} merge=2"
    )
    assert np.array_equal(levels, qwen2vl_patches(stack, 14, temporal, 2))
    assert geometry["grid_thw"] == (-(-frames // temporal), 4, 8)
    assert geometry["tokens"] * 4 == geometry["patches"] == len(levels)
    floats, _ = media.run_video_chain(
        made("h264"),
        f"{steps}; normalise mean=0.5,0.4,0.3 std=0.2,0.3,0.4; patchify temporal={temporal}",
    )
    mean, std = np.float32([0.5, 0.4, 0.3]), np.float32([0.2, 0.3, 0.4])
    normal = ((stack * (1 / 255)).astype(np.float32) - mean) / std
    assert np.array_equal(floats, qwen2vl_patches(normal, 14, temporal, 2))


def smart_resize(height: int, width: int, factor: int, low: float, high: float) -> tuple[int, int]:
    """The rule for pictures, in doubles."""
    h, w = round(height / factor) * factor, round(width / factor) * factor
    if h * w > high:
        beta = (height * width / high) ** 0.5
        h, w = (max(factor, int(side / beta // factor) * factor) for side in (height, width))
    elif h * w < low:
        beta = (low / (height * width)) ** 0.5
        h, w = (-int(-side * beta // factor) * factor for side in (height, width))
    return h, w


@pytest.mark.parametrize("frames", [2, 8, 24])
def test_pixels_of_a_clip_share_a_budget(frames: int) -> None:
    low, high, total = 4 * 784, 40 * 784, 96 * 784
    _, geometry = media.run_video_chain(
        made("h264"),
        f"sample frames={frames}; smart_resize min_pixels={low} max_pixels={high} "
        f"total_pixels={total}",
    )
    most = max(min(high, total / frames * 2), int(low * 1.05))
    assert (geometry["height"], geometry["width"]) == smart_resize(96, 160, 28, low, most)


def test_rates_and_multiples() -> None:
    def count(steps: str) -> int:
        return int(media.VideoChain(steps).planned_size(made("h264"))["frames"])

    assert count("sample fps=2") == 4
    assert count("sample fps=1/2") == 1
    assert count("sample fps=5 multiple_of=4") == 8
    assert count("sample fps=25 max=16") == 16
    assert count("sample fps=60") == 50
    assert count("clip start=500 end=1500; sample fps=10") == 10


def test_rotation_is_read_and_applied() -> None:
    """The matrix of the track header, turned by hand."""
    data = bytearray(made("h264"))
    matrix = data.find(b"tkhd") + 4 + 40
    one, minus = (1 << 16).to_bytes(4, "big"), (-(1 << 16)).to_bytes(4, "big", signed=True)
    nothing = bytes(4)
    upright = media.decode_video(bytes(data))
    turned = {90: (nothing, one, minus, nothing), 180: (minus, nothing, nothing, minus)}
    turned[270] = (nothing, minus, one, nothing)
    for rotation, (a, b, c, d) in turned.items():
        data[matrix : matrix + 8], data[matrix + 12 : matrix + 20] = a + b, c + d
        assert media.probe_video(bytes(data))["rotation"] == rotation
        ours, _ = media.run_video_chain(bytes(data), "orient; sample frames=2")
        wanted = np.rot90(upright[[0, 49]], -rotation // 90, axes=(1, 2))
        assert np.array_equal(ours, wanted)
        assert np.array_equal(media.decode_video(bytes(data)), upright)


def test_colours_follow_the_stream() -> None:
    for matrix, full in (("bt709", "tv"), ("bt709", "pc"), ("smpte170m", "pc"), ("bt2020nc", "tv")):
        ranges = {"tv": "off", "pc": "on"}[full]
        data = clip(
            4,
            pixels="yuv444p",
            options={"x264-params": f"colormatrix={matrix}:fullrange={ranges}", "crf": "1"},
        )
        with av.open(io.BytesIO(data)) as file:
            planes = [frame.to_ndarray(format="yuv444p") for frame in file.decode(video=0)]
        y, u, v = np.stack(planes).astype(float).transpose(1, 0, 2, 3)
        red, blue = {"bt709": (0.2126, 0.0722), "smpte170m": (0.299, 0.114)}.get(
            matrix, (0.2627, 0.0593)
        )
        light = y / 255 if full == "pc" else (y - 16) / 219
        u, v = ((side - 128) / (255 if full == "pc" else 224) for side in (u, v))
        r, b = light + 2 * (1 - red) * v, light + 2 * (1 - blue) * u
        g = (light - red * r - blue * b) / (1 - red - blue)
        wanted = np.clip(np.stack([r, g, b], -1) * 255, 0, 255)
        assert np.abs(media.decode_video(data) - wanted).max() < 0.6


@pytest.mark.parametrize("name", ["h264", "h264-fragments", "vp9"])
def test_damage_is_named_and_never_repaired(name: str) -> None:
    data = made(name)
    for share in (0.2, 0.5, 0.9):
        with pytest.raises(ValueError, match=r"cut|damaged|no moov|no frame|no video"):
            media.probe_video(data[: int(len(data) * share)])
    drawn = np.random.default_rng(1)
    refused = 0
    for _ in range(40):
        bad = bytearray(data)
        for place in drawn.integers(len(data) // 8, len(data) * 7 // 8, 30):
            bad[place] = drawn.integers(256)
        try:
            # What is left may be a clip of fewer frames, if its container says so.
            assert len(media.decode_video(bytes(bad))) == media.probe_video(bytes(bad))["frames"]
        except ValueError:
            refused += 1
    assert refused > 0


def test_threads_share_a_chain() -> None:
    chain = media.VideoChain("sample frames=4; resize width=56 height=56")
    wanted = chain.run(made("h264"))[0]
    found: list[bool] = []

    def work() -> None:
        for _ in range(4):
            found.append(np.array_equal(chain.run(made("h264"))[0], wanted))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 16
