"""Pictures: codecs and transforms against Pillow and against plain NumPy definitions."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL
import pytest
from PIL import Image, ImageOps

from overlord import _core as media

FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


def photo(width: int, height: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Waves, hard edges and a little noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for c in range(channels):
        plane = 128 + 60 * np.sin(x / (17 + 5 * c) + c) + 50 * np.cos(y / (23 + 3 * c))
        plane = np.where((x // 37 + y // 29) % 7 == 3, 255 - plane, plane)
        planes.append(plane + rng.normal(0, 4, (height, width)))
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def encode(image: Image.Image, format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def pillow(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def difference(a: np.ndarray, b: Any) -> int:
    other = np.asarray(b)
    assert a.shape == other.shape
    return int(np.abs(a.astype(int) - other.astype(int)).max())


def resized(image: Image.Image, target: tuple[int, int], filter: str) -> Image.Image:
    """Across first, then down, as Pillow did up to 12 in one call and any does in two."""
    across = image.resize((target[0], image.height), FILTERS[filter])
    return across.resize(target, FILTERS[filter])


def with_alpha(width: int, height: int) -> Image.Image:
    image = Image.fromarray(photo(width, height))
    image.putalpha(Image.fromarray(photo(width, height, 1, seed=5)[:, :, 0]))
    return image


def rgb(width: int, height: int) -> Image.Image:
    return Image.fromarray(photo(width, height))


FILES: dict[str, Callable[[], bytes]] = {
    "jpeg-444": lambda: encode(rgb(301, 227), "JPEG", subsampling=0),
    "jpeg-422": lambda: encode(rgb(301, 227), "JPEG", subsampling=1),
    "jpeg-420": lambda: encode(rgb(301, 227), "JPEG", subsampling=2),
    "jpeg-one-pixel": lambda: encode(rgb(1, 1), "JPEG"),
    "jpeg-progressive": lambda: encode(rgb(203, 99), "JPEG", progressive=True),
    "jpeg-grey": lambda: encode(rgb(120, 77).convert("L"), "JPEG"),
    "jpeg-cmyk": lambda: encode(Image.fromarray(photo(90, 61, 4), "CMYK"), "JPEG"),
    "png": lambda: encode(rgb(101, 77), "PNG"),
    "png-grey": lambda: encode(rgb(101, 77).convert("L"), "PNG"),
    "png-palette": lambda: encode(rgb(101, 77).convert("P"), "PNG"),
    "png-bits": lambda: encode(rgb(101, 77).convert("1"), "PNG"),
    "png-alpha": lambda: encode(with_alpha(101, 77), "PNG"),
    "png-grey-alpha": lambda: encode(with_alpha(101, 77).convert("LA"), "PNG"),
    "png-palette-alpha": lambda: encode(rgb(101, 77).convert("P"), "PNG", transparency=3),
    "webp": lambda: encode(rgb(101, 77), "WEBP"),
    "webp-lossless": lambda: encode(rgb(101, 77), "WEBP", lossless=True),
    "webp-alpha": lambda: encode(with_alpha(101, 77), "WEBP"),
}


@pytest.mark.parametrize("name", FILES)
def test_exact_decoding_equals_pillow(name: str) -> None:
    data = FILES[name]()
    assert difference(media.decode_image(data, "alpha=drop"), pillow(data).convert("RGB")) == 0
    header = media.probe_image(data)
    assert (header["width"], header["height"]) == pillow(data).size
    assert header["format"] == name.split("-")[0]
    assert header["alpha"] == ("alpha" in name)


@pytest.mark.parametrize("name", [n for n in FILES if n.endswith("alpha")])
def test_alpha_over_a_background_equals_pillow(name: str) -> None:
    data = FILES[name]()
    front = pillow(data).convert("RGBA")
    back = Image.new("RGBA", front.size, (10, 200, 30, 255))
    back.alpha_composite(front)
    ours = media.decode_image(data, "alpha=over background=10,200,30")
    assert difference(ours, back.convert("RGB")) <= 1


def test_sixteen_bits_keep_their_high_byte() -> None:
    levels = (photo(60, 40, 1)[:, :, 0].astype(np.uint16) << 8) + 77
    data = encode(Image.fromarray(levels), "PNG")
    assert media.probe_image(data)["bit_depth"] == 16
    assert difference(media.decode_image(data)[:, :, 1], (levels >> 8).astype(np.uint8)) == 0


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize(
    ("size", "target"),
    [
        ((640, 480), (224, 224)),
        ((301, 227), (224, 224)),
        ((100, 80), (224, 300)),
        ((900, 700), (64, 48)),
        ((640, 480), (640, 100)),
        ((640, 480), (100, 480)),
        ((5, 3), (20, 31)),
        ((2000, 40), (28, 28)),
        ((300, 1300), (224, 224)),
    ],
)
@pytest.mark.parametrize("kind", ["photo", "noise"])
def test_resize_is_within_one_level_of_pillow(
    filter: str, size: tuple[int, int], target: tuple[int, int], kind: str
) -> None:
    pixels = photo(*size)
    if kind == "noise":  # black and white dots: the strongest over- and undershoot
        pixels = (np.random.default_rng(1).integers(0, 2, pixels.shape) * 255).astype(np.uint8)
    image = Image.fromarray(pixels)
    data = encode(image, "PNG", compress_level=0)
    chain = f"resize width={target[0]} height={target[1]} filter={filter}"
    ours, _ = media.run_image_chain(data, chain)
    assert difference(ours, resized(image, target, filter)) <= 1


def pillow_goes_down_first(size: tuple[int, int], target: tuple[int, int]) -> bool:
    """By the rule that docs/reference/images.md tells of the installed Pillow."""
    shrinks_across, shrinks_down = size[0] - target[0], size[1] - target[1]
    new = int(PIL.__version__.split(".")[0]) >= 13
    return new and shrinks_down > 0 and shrinks_down > 2 * shrinks_across


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("height", [480, 800, 801, 2000])
def test_the_order_of_the_installed_pillow_is_the_documented_one(filter: str, height: int) -> None:
    size, target = (512, height), (224, 224)
    pixels = np.random.default_rng(2).integers(0, 2, (height, 512, 3)) * 255
    image = Image.fromarray(pixels.astype(np.uint8))
    theirs = image.resize(target, FILTERS[filter])
    ours, _ = media.run_image_chain(
        encode(image, "PNG", compress_level=0), f"resize width=224 height=224 filter={filter}"
    )
    if pillow_goes_down_first(size, target):
        down_first = image.resize((512, 224), FILTERS[filter]).resize(target, FILTERS[filter])
        assert difference(np.asarray(theirs), down_first) == 0
    else:
        assert difference(ours, theirs) <= 1
    # Ours does not follow: what a stream holds is not a matter of what is installed.
    assert difference(ours, resized(image, target, filter)) <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(rgb(120, 90), "JPEG", exif=exif, quality=95)
    assert media.probe_image(data)["orientation"] == orientation
    upright = ImageOps.exif_transpose(pillow(data))
    ours, _ = media.run_image_chain(data, "orient")
    assert difference(ours, upright) == 0
    ours, _ = media.run_image_chain(data, "orient; resize width=64 height=50")
    assert difference(ours, resized(upright, (64, 50), "bicubic")) <= 1
    width, height = upright.width * 70 // 90, upright.height * 70 // 90
    left, top = (width - 33) // 2, (height - 64) // 2
    ours, _ = media.run_image_chain(
        data, "orient; resize_short side=70; centre_crop width=33 height=64"
    )
    reference = resized(upright, (width, height), "bicubic")
    assert difference(ours, reference.crop((left, top, left + 33, top + 64))) <= 1


@pytest.mark.parametrize("quality", [10, 50, 90, 100])
@pytest.mark.parametrize("divisor", [2, 4, 8])
@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"restart_marker_blocks": 7}])
def test_scaled_grey_equals_pillows_draft(
    quality: int, divisor: int, options: dict[str, Any]
) -> None:
    grey = rgb(56 * divisor, 40 * divisor).convert("L")
    data = encode(grey, "JPEG", quality=quality, **options)
    image = pillow(data)
    image.draft("L", (56, 40))
    assert image.size == (56, 40)
    ours, _ = media.run_image_chain(data, "decode jpeg=scaled; resize width=56 height=40")
    assert np.array_equal(ours[..., 0], np.asarray(image))


@pytest.mark.parametrize("sampling", [0, 1, 2])
@pytest.mark.parametrize("size", [(640, 480), (1001, 777), (300, 260), (2000, 1600)])
def test_scaled_decoding_is_close_to_pillows_draft(size: tuple[int, int], sampling: int) -> None:
    data = encode(rgb(*size), "JPEG", quality=90, subsampling=sampling)
    image = pillow(data)
    _, box = image.draft("RGB", (224, 224)) or (None, None)
    reference = image.resize((224, 224), FILTERS["bilinear"], box=box)
    chain = "decode jpeg=scaled; resize width=224 height=224 filter=bilinear"
    ours, _ = media.run_image_chain(data, chain)
    # Planes are resized before the colours are mixed, so rounding and clipping happen elsewhere;
    # where chroma is stored smaller than luma, ours is not blown up first.
    off = np.abs(ours.astype(int) - np.asarray(reference).astype(int))
    assert off.mean() < 1.3
    assert np.quantile(off, 0.99) <= 12


def normalised(pixels: np.ndarray) -> np.ndarray:
    rescaled = (pixels.astype(np.float64) * (1 / 255)).astype(np.float32)
    return (rescaled - np.array(CLIP_MEAN, np.float32)) / np.array(CLIP_STD, np.float32)


def test_qwen2vl_patches_are_those_of_the_definition() -> None:
    data = encode(rgb(640, 480), "PNG")
    mean, std = (",".join(map(repr, values)) for values in (CLIP_MEAN, CLIP_STD))
    chain = media.ImageChain(f"smart_resize; normalise mean={mean} std={std}; patchify")
    patches, geometry = chain.run(data)
    assert geometry["grid_thw"] == (1, 34, 46)
    assert geometry["tokens"] == 34 * 46 // 4
    assert geometry == chain.planned_size(data)
    pixels, _ = media.run_image_chain(data, "smart_resize")
    frames = np.repeat(normalised(pixels).transpose(2, 0, 1)[None], 2, axis=0)
    # frame, channel, block row, row in block, y, block column, column in block, x
    cut = frames.reshape(2, 3, 17, 2, 14, 23, 2, 14)
    reference = cut.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(34 * 46, 3 * 2 * 14 * 14)
    assert patches.dtype == np.float32
    assert np.array_equal(patches, reference)


def test_qwen2vl_patches_are_those_of_transformers() -> None:
    # Values that Qwen2VLImageProcessorPil of transformers 5.22.2 gives for this picture; the whole
    # array was equal bit for bit.
    y, x = np.mgrid[0:61, 0:90]
    planes = [(7 * x + 3 * y) % 256, (x * x // 3 + 5 * y) % 256, (9 * y + (x // 5) * 40) % 256]
    data = encode(Image.fromarray(np.stack(planes, -1).astype(np.uint8)), "PNG")
    mean, std = (",".join(map(repr, values)) for values in (CLIP_MEAN, CLIP_STD))
    patches, geometry = media.run_image_chain(
        data, f"smart_resize; normalise mean={mean} std={std}; patchify"
    )
    assert geometry["grid_thw"] == (1, 4, 6)
    reference = {
        (0, 0): -1.7922625541687012,
        (1, 5): 0.2953125238418579,
        (2, 200): -0.6827820539474487,
        (3, 700): 1.1744177341461182,
        (7, 1175): 1.278473138809204,
        (12, 588): 0.5440914630889893,
        (15, 444): 1.3995342254638672,
        (23, 1000): -0.9398571848869324,
    }
    assert {at: float(patches[at]) for at in reference} == reference
    assert float(patches.astype(np.float64).sum()) == pytest.approx(5150.3796998551115, abs=1e-9)


def test_vit_patches_and_planes() -> None:
    data = encode(rgb(64, 48), "PNG")
    pixels = np.asarray(pillow(data))
    patches, _ = media.run_image_chain(data, "patchify layout=vit patch=16")
    cut = pixels.reshape(3, 16, 4, 16, 3)
    assert np.array_equal(patches, cut.transpose(0, 2, 4, 1, 3).reshape(12, -1))
    last, _ = media.run_image_chain(data, "patchify layout=vit_last patch=16")
    assert np.array_equal(last, cut.transpose(0, 2, 1, 3, 4).reshape(12, -1))
    planes, _ = media.run_image_chain(data, "planes")
    assert np.array_equal(planes, pixels.transpose(2, 0, 1))
    grey, _ = media.run_image_chain(data, "grey")
    assert difference(grey[:, :, 0], pillow(data).convert("L")) == 0


def test_tiles_and_thumbnail() -> None:
    image = rgb(800, 420)
    data = encode(image, "PNG")
    tiles, geometry = media.run_image_chain(data, "tile size=112 most=6")
    assert geometry["tile_grid"] == (2, 1)
    assert tiles.shape == (3, 112, 112, 3)
    grid = np.asarray(resized(image, (224, 112), "bicubic"))
    assert difference(tiles[1], grid[:, 112:]) <= 1
    assert difference(tiles[2], resized(image, (112, 112), "bicubic")) <= 1


def test_chance_is_keyed() -> None:
    data = encode(rgb(320, 240), "JPEG")
    chain = media.ImageChain("random_resized_crop width=64 height=64; random_flip")
    first, _ = chain.run(data, 1)
    assert np.array_equal(first, chain.run(data, 1)[0])
    assert len({chain.run(data, key)[0].tobytes() for key in range(20)}) == 20


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<html>404 not found</html>", "HTML"),
        (b"GIF89a" + bytes(20), "GIF"),
        (encode(Image.fromarray(photo(99, 50)), "JPEG")[:900], "cut"),
        (encode(Image.fromarray(photo(99, 50)), "PNG")[:1500], "cannot be decoded"),
    ],
)
def test_bad_pictures_say_why(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        media.decode_image(data)


def test_codecs_are_listed() -> None:
    listed = {codec["name"]: codec for codec in media.media_codecs()}
    assert list(listed) == ["jpeg", "png", "webp", "audio", "video"]
    for name, codec in listed.items():
        assert codec["present"] == bool(codec["version"]) and codec["package"], name
    absent = [codec["package"] for codec in listed.values() if not codec["present"]]
    if absent:
        pytest.skip(f"this build is without {', '.join(absent)}")


def test_mrope_positions() -> None:
    planes = media.mrope_positions(9, [(2, 1, 2, 2)])
    assert planes.tolist() == [
        [0, 1, 2, 2, 2, 2, 4, 5, 6],
        [0, 1, 2, 2, 3, 3, 4, 5, 6],
        [0, 1, 2, 3, 2, 3, 4, 5, 6],
    ]
