"""Pictures through the stream: placeholders, slabs, holes, engines and resumes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import job_config, made_up_texts
from delivered import content, flat, pieces_of
from overlord._src.config.reading import read_config
from overlord._src.index import indexing
from test_webdataset import tar_of
from trainers import embedded_hashes, hashes_of, trainers

import overlord as ol
from overlord import _core as core

PIL = pytest.importorskip("PIL.Image")

PAD, BEFORE, AFTER = 900, 901, 902
PATCH = 8
CHAIN = "patchify layout=vit patch=8"
TOKENS = {"pad": PAD, "before": BEFORE, "after": AFTER}
IMAGE = {"from": ["png", "jpg"], "transform": CHAIN, "tokens": TOKENS}


def picture(rng: np.random.Generator, width: int, height: int) -> np.ndarray[Any, Any]:
    """Smooth colours, so that JPEG keeps them."""
    x = np.linspace(0, 1, width)[None, :, None]
    y = np.linspace(0, 1, height)[:, None, None]
    return (255 * (x * rng.random(3) + y * rng.random(3)) / 2).astype(np.uint8)


def encoded(pixels: np.ndarray[Any, Any], form: str) -> bytes:
    """The file of a picture."""
    out = io.BytesIO()
    PIL.fromarray(pixels).save(out, form, **({"quality": 95} if form == "JPEG" else {}))
    return out.getvalue()


def made_up_pairs(rows: int = 24, seed: int = 5) -> list[dict[str, Any]]:
    """Texts, most of them with a picture of two to twelve patches."""
    rng = np.random.default_rng(seed)
    samples: list[dict[str, Any]] = []
    for row, text in enumerate(made_up_texts(rows, seed, longest=4)):
        sample: dict[str, Any] = {"__key__": f"{row:06d}", "txt": text.encode()}
        if row % 4 != 3:
            width, height = PATCH * rng.integers(1, 4), PATCH * rng.integers(2, 5)
            form = "JPEG" if row % 4 == 1 else "PNG"
            pixels = picture(rng, int(width), int(height))
            sample["jpg" if form == "JPEG" else "png"] = encoded(pixels, form)
        samples.append(sample)
    return samples


def pairs_config(
    folder: Path, samples: list[dict[str, Any]], field: Any = IMAGE, **top: Any
) -> dict[str, Any]:
    """A job over one tar of them."""
    (folder / "pairs.tar").write_bytes(tar_of(samples))
    source = {
        "files": "pairs.tar",
        "text": "txt",
        "tokenizer": "bytes",
        "media": {"image": field},
        "over_length": "drop",
        "bad_rows_allowed": 8,
    }
    return job_config(folder, {"s": source}, **{"context": 96, **top})


def patches_of(image: bytes) -> np.ndarray[Any, Any]:
    """Rows of a picture as the chain makes them, by Pillow and NumPy."""
    pixels = np.asarray(PIL.open(io.BytesIO(image)).convert("RGB"))
    high, wide = pixels.shape[0] // PATCH, pixels.shape[1] // PATCH
    cut = pixels.reshape(high, PATCH, wide, PATCH, 3).transpose(0, 2, 4, 1, 3)
    return cut.reshape(high * wide, -1)


def image_of(sample: dict[str, Any]) -> bytes | None:
    """The picture of a sample, if it has one."""
    return sample.get("png") or sample.get("jpg")


def whole_tokens(sample: dict[str, Any]) -> list[int]:
    """The tokens that a sample must become."""
    image = image_of(sample)
    pads = [] if image is None else [BEFORE, *[PAD] * len(patches_of(image)), AFTER]
    return [*pads, *sample["txt"]]


def train(config: dict[str, Any], **options: Any) -> Any:
    """A loader of one rank that hashes what it delivers."""
    return ol.job(config).train(engine=options.pop("engine", "embedded"), **options)


def test_pictures_travel_with_their_documents(tmp_path: Path) -> None:
    samples = made_up_pairs()
    expected = {tuple(whole_tokens(sample)): sample for sample in samples}
    seen = 0
    with train(pairs_config(tmp_path, samples)) as loader:
        for batch in loader:
            pieces = pieces_of(batch)
            found = [expected.pop(tuple(piece.tokens.tolist())) for piece in pieces]
            with_image = [row for row, one in enumerate(found) if image_of(one) is not None]
            for piece in pieces:
                masked = np.isin(piece.targets, [PAD, BEFORE, AFTER])
                assert not piece.weights[masked].any() and piece.weights[:-1][~masked[:-1]].all()
            media = batch.media.get("image")
            assert (media is None) == (not with_image)
            if media is None:
                continue
            assert media.documents.tolist() == with_image
            assert media.data is not None and not media.data.flags.writeable
            assert media.row_splits[-1] == len(media.data)
            for item, row in enumerate(with_image):
                image = image_of(found[row])
                assert image is not None
                rows = patches_of(image)
                close = 2 if "jpg" in found[row] else 0
                assert np.abs(media[item].astype(int) - rows).max() <= close
                height, width = np.asarray(PIL.open(io.BytesIO(image))).shape[:2]
                assert media.grid_thw[item].tolist() == [1, height // PATCH, width // PATCH]
                first, end = media.token_spans[item]
                assert np.all(flat(batch.tokens)[first:end] == PAD)
                assert end - first == len(rows)
                seen += 1
    assert not expected and seen == sum(image_of(sample) is not None for sample in samples)


def media_content(batch: ol.Microbatch) -> tuple[Any, ...]:
    """Everything of a batch, media included, as something to compare."""
    items = [
        (name, media.grid_thw.tolist(), media.documents.tolist(), media.token_spans.tolist())
        for name, media in batch.media.items()
    ]
    data = [media.data.tobytes() for media in batch.media.values() if media.data is not None]
    return content(batch), items, data


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_resuming_at_every_microbatch_is_exact(tmp_path: Path, engine: str) -> None:
    config = pairs_config(tmp_path, made_up_pairs())
    with train(config, engine=engine) as loader:
        states, batches = [], []
        for batch in loader:
            batches.append(media_content(batch))
            states.append(loader.state_dict())
    assert any(items for _, items, _ in batches)
    for taken in range(1, len(batches), 3 if engine == "processes" else 1):
        with train(config, engine=engine) as loader:
            loader.load_state_dict(states[taken - 1])
            assert [media_content(batch) for batch in loader] == batches[taken:]


def test_engines_give_the_same_stream(tmp_path: Path) -> None:
    config = pairs_config(tmp_path, made_up_pairs())
    for mesh in ({"dp": 2}, {"pp": 2, "dp": 1, "cp": 2, "tp": 1}):
        config["align"] = 4
        with trainers(config, mesh, engine="processes") as started:
            assert hashes_of(started) == embedded_hashes(config, mesh)


def test_held_pictures_count_and_are_copied(tmp_path: Path) -> None:
    config = pairs_config(tmp_path, made_up_pairs(), steps=20)
    expected = [
        batch.media["image"].data.copy() for batch in train(config) if "image" in batch.media
    ]
    held: list[Any] = []
    config["runtime"] = {"constructor_budget": "8KiB", "private_copy_limit": "12KiB"}
    with train(config, engine="processes") as loader:
        with pytest.raises(ol.ResourceError, match="private_copy_limit"):
            for batch in loader:
                if "image" in batch.media:
                    held.append(batch.media["image"].data)
        assert sum(data.nbytes for data in held) > 8 * 1024, "shared ones and copies"
        for data, told in zip(held, expected, strict=False):
            assert np.array_equal(data, told)
        held.clear()
        assert next(loader) is not None, "what was let go of can be used again"


@pytest.mark.parametrize("way", ["hybrid", "one owner"])
def test_engines_agree_on_the_strategies_for_pictures_and_text(tmp_path: Path, way: str) -> None:
    patches = {"kind": "sum", "terms": [{"column": "image_patches", "linear_q32": 1 << 32}]}
    tokens = {"kind": "sum", "terms": [{"column": "tokens", "linear_q32": 1 << 32}]}
    strategy: dict[str, Any] = {"distribute": {"axis": "dp"}, "cost": tokens}
    if way == "hybrid":
        strategy |= {"balance": {"method": "lpt_search"}}
        strategy |= {"encoder": {"cost": patches, "bytes_per_unit": 8}}
    else:
        strategy |= {"balance": {"method": "vector"}, "further_costs": [patches]}
    config = pairs_config(tmp_path, made_up_pairs(48), strategy=strategy, bins=8)
    mesh = {"pp": 2, "dp": 2}
    with trainers(config, mesh, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, mesh)


def test_a_picture_that_does_not_decode_is_a_named_hole(tmp_path: Path) -> None:
    samples = made_up_pairs()
    broken = next(row for row, sample in enumerate(samples) if "png" in sample)
    lied = next(row for row, sample in enumerate(samples) if "jpg" in sample)
    whole = samples[broken]["png"]
    samples[broken]["png"] = whole[: len(whole) - 30]  # its header is whole
    samples[lied]["jpg"] = b"GIF89a, which is no picture that we read"
    with train(pairs_config(tmp_path, samples)) as loader:
        pieces = [piece for batch in loader for piece in pieces_of(batch)]
        quarantined = loader.quarantine()
    holes = [piece for piece in pieces if piece.hole]
    assert len(holes) == 1 and len(pieces) == len(samples) - 1
    assert len(holes[0].tokens) == len(whole_tokens({**samples[broken], "png": whole}))
    assert not holes[0].weights.any() and not holes[0].tokens.any()
    reasons = sorted(str(note) for note in quarantined)
    assert len(reasons) == 2
    text = "\n".join(reasons).replace("\\", "")
    assert "media 'image'" in text and "PNG" in text and "pairs.tar" in text and "GIF" in text


def test_transforms_can_be_lists_and_are_refused_by_name(tmp_path: Path) -> None:
    samples = made_up_pairs(8)
    steps = [{"resize": {"width": 16, "height": 16}}, "planes", {"normalise": {"mean": [0.5] * 3}}]
    listed = {**IMAGE, "transform": [steps[1], steps[0]], "tokens": {"pad": PAD, "count": 3}}
    with pytest.raises(ol.ConfigError, match=r"media\.image\.transform.*too late"):
        train(pairs_config(tmp_path, samples, listed))
    listed["transform"] = steps
    with train(pairs_config(tmp_path, samples, listed)) as loader:
        batch = next(iter(loader))
    media = batch.media["image"]
    assert media.data is not None and media.data.dtype == np.float32
    assert media.data.shape[1:] == (3, 16, 16)
    assert np.all(np.diff(media.token_spans) == 3)


@pytest.mark.parametrize(
    ("field", "top", "match"),
    [
        ({**IMAGE, "transform": "resize_short side=8"}, {}, "different sizes"),
        ({**IMAGE, "transform": "shrink"}, {}, "shrink"),
        ({**IMAGE, "transform": "resize width=8 height=8"}, {}, "tokens.count"),
        ({"from": "png", "tokens": TOKENS}, {}, "transform"),
        ({**IMAGE, "tokens": {"pad": 1000}}, {}, "vocabulary"),
        (IMAGE, {"packing": {"method": "concat"}}, "concat"),
    ],
)
def test_what_cannot_travel_is_refused(tmp_path: Path, field: Any, top: Any, match: str) -> None:
    config = pairs_config(tmp_path, made_up_pairs(4), field, **top)
    with pytest.raises((ol.ConfigError, core.InvalidArgumentError), match=match):
        train(config)


def test_documents_with_media_are_never_cut(tmp_path: Path) -> None:
    config = pairs_config(tmp_path, made_up_pairs(4))
    config["sources"]["s"]["over_length"] = "split"
    with pytest.raises(ol.ConfigError, match="never cut"):
        train(config)


def test_costs_can_name_what_media_give(tmp_path: Path) -> None:
    cost = {"kind": "sum", "terms": [{"column": "image_patches", "linear_q32": 1 << 32}]}
    strategy = {"distribute": {"axis": "dp"}, "cost": cost, "balance": {"method": "lpt"}}
    config = pairs_config(tmp_path, made_up_pairs(), strategy=strategy)
    with train(config) as loader:
        assert sum(len(batch.media.get("image", ())) for batch in loader) == 18


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_pictures_go_to_the_ranks_that_encode_them(tmp_path: Path, engine: str) -> None:
    config = pairs_config(tmp_path, made_up_pairs(), strategy={"encoder": {"bytes_per_unit": 8}})
    plain = pairs_config(tmp_path, made_up_pairs())
    pixels = {}
    with train(plain) as loader:
        for batch in loader:
            lineage = batch.lineage()
            for media in batch.media.values():
                for document, rows in zip(media.documents, media, strict=True):
                    pixels[lineage[document]["position"]] = rows.tolist()
    seen = 0
    with train(config, engine=engine) as loader:
        for batch in loader:
            part = batch.encoder
            assert part is not None and all(one.data is None for one in batch.media.values())
            for media in part.media.values():
                for sample, rows in zip(part.samples[media.documents], media, strict=True):
                    assert rows.tolist() == pixels[sample["position"]]
                    seen += 1
    assert seen == len(pixels) > 10


def test_lengths_may_come_from_the_index(tmp_path: Path) -> None:
    config = pairs_config(tmp_path, made_up_pairs())
    with train(config) as loader:
        decoded = [media_content(batch) for batch in loader]
    opened = ol.job(config).open_stream()
    indexing.build_indexes(read_config(config), opened.sources, lengths=True)
    with train(config) as loader:
        assert [media_content(batch) for batch in loader] == decoded
