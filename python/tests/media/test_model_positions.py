"""Positions of models with media, and which tokens a slice has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from overlord._src.batch.media import Media
from overlord._src.batch.table_positions import interpolated_positions
from test_media_stream import PAD, made_up_pairs, pairs_config

import overlord as ol

MESHES = {
    "whole": ("dp=1", {}),
    "sequence_zigzag": ("cp=2", {}),
    "document_zigzag": ("cp=2", {"cp_slicing": "document_zigzag"}),
    "contiguous": ("cp=4", {"cp_slicing": "contiguous"}),
}


def batches_of(folder: Path, mesh: str, delivery: dict[str, Any]) -> dict[int, list[ol.Microbatch]]:
    """All batches of all ranks."""
    config = pairs_config(folder, made_up_pairs(), align=8, delivery={"microbatch_size": 2})
    config["delivery"] |= delivery
    loaders = ol.job(config, mesh=mesh).train(ranks="all", engine="embedded")
    return {rank: list(loader) for rank, loader in loaders.items()}


@pytest.mark.parametrize("name", list(MESHES))
def test_a_slice_says_where_its_tokens_are(tmp_path: Path, name: str) -> None:
    for folder in ("whole", "sliced"):
        (tmp_path / folder).mkdir()
    whole = batches_of(tmp_path / "whole", "dp=1", {})[0]
    sliced = batches_of(tmp_path / "sliced", *MESHES[name])
    for number, all_of_it in enumerate(whole):
        seen = []
        assert all_of_it.tokens is not None
        flat, planes = all_of_it.tokens.reshape(-1), all_of_it.mrope_positions(merge=1)
        assert planes is not None and planes.shape == (3, *all_of_it.tokens.shape)
        for batches in sliced.values():
            part = batches[number]
            assert part.token_index is not None and part.tokens is not None
            assert np.array_equal(part.tokens, flat[part.token_index])
            own = part.mrope_positions(merge=1)
            assert own is not None
            assert np.array_equal(own, planes.reshape(3, -1)[:, part.token_index])
            seen.append(part.token_index.reshape(-1))
        assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(len(flat)))


def by_definition(tokens: list[int], grids: list[list[int]]) -> np.ndarray[Any, Any]:
    """Qwen2-VL's rule for one document, a token at a time."""
    planes: list[tuple[int, int, int]] = []
    after, at, waiting = 0, 0, list(grids)
    while at < len(tokens):
        if tokens[at] != PAD:
            planes.append((after, after, after))
            after, at = after + 1, at + 1
            continue
        t, h, w = waiting.pop(0)
        planes += [
            (after + i, after + j, after + k) for i in range(t) for j in range(h) for k in range(w)
        ]
        after, at = after + max(t, h, w), at + t * h * w
    assert not waiting
    return np.array(planes, np.int64).reshape(-1, 3).T


def test_mrope_counts_every_document_alone(tmp_path: Path) -> None:
    with_pictures = 0
    for batch in batches_of(tmp_path, "dp=1", {})[0]:
        planes = batch.mrope_positions(merge=1)
        assert planes is not None and batch.tokens is not None and batch.positions is not None
        assert batch.cu_seqlens is not None and batch.cu_seqlens_padded is not None
        flat, tokens = planes.reshape(3, -1), batch.tokens.reshape(-1)
        media = batch.media.get("image")
        starts, lengths = batch.cu_seqlens_padded[:-1], np.diff(batch.cu_seqlens)
        for document, (begin, length) in enumerate(zip(starts, lengths, strict=True)):
            own = tokens[begin : begin + length].tolist()
            grids = [] if media is None else media.grid_thw[media.documents == document].tolist()
            with_pictures += len(grids)
            expected = by_definition(own, grids)
            assert np.array_equal(flat[:, begin : begin + length], expected)
            if not grids:
                positions = batch.positions.reshape(-1)[begin : begin + length]
                assert np.array_equal(expected, np.stack([positions] * 3))
    assert with_pictures > 10


def test_fields_that_do_not_fit_are_named(tmp_path: Path) -> None:
    batch = next(one for one in batches_of(tmp_path, "dp=1", {})[0] if one.media)
    with pytest.raises(ValueError, match=r"media image: .* merging 2 x 2"):
        batch.mrope_positions(merge=2, fields=["image"])
    planes = batch.mrope_positions(merge=2)  # nothing fits: all of it counts as text
    assert planes is not None and np.array_equal(planes[0], planes[2])


def test_interpolated_positions_are_a_bilinear_look_into_the_table() -> None:
    side, merge = 7, 2
    table = np.random.default_rng(3).normal(size=(side, side))
    grids = np.array([[1, 4, 10], [2, 14, 6], [1, 7 * 2, 7 * 2]])
    index, weight = interpolated_positions(grids, side, merge)
    assert index.shape == weight.shape == (4, grids.prod(axis=1).sum())
    assert np.allclose(weight.sum(axis=0), 1, atol=1e-6)
    found = (table.reshape(-1)[index] * weight).sum(axis=0)
    at = 0
    for t, high, wide in grids.tolist():
        picture = np.empty((high, wide))
        for y in range(high):
            for x in range(wide):
                v, u = y * (side - 1) / (high - 1), x * (side - 1) / (wide - 1)
                i, j = min(int(v), side - 2), min(int(u), side - 2)
                a, b = v - i, u - j
                picture[y, x] = (
                    (1 - a) * ((1 - b) * table[i, j] + b * table[i, j + 1])
                    + a * ((1 - b) * table[i + 1, j] + b * table[i + 1, j + 1])
                )  # fmt: skip
        cut = picture.reshape(high // merge, merge, wide // merge, merge).transpose(0, 2, 1, 3)
        for _ in range(t):
            assert np.allclose(found[at : at + high * wide], cut.reshape(-1), atol=1e-5)
            at += high * wide
    with pytest.raises(ValueError, match="merge"):
        interpolated_positions(np.array([[1, 3, 4]]), side, merge)


def test_interpolated_positions_are_those_of_qwen3_vl() -> None:
    torch = pytest.importorskip("torch")
    modeling = pytest.importorskip("transformers.models.qwen3_vl.modeling_qwen3_vl")
    config = pytest.importorskip("transformers.models.qwen3_vl.configuration_qwen3_vl")
    small = config.Qwen3VLVisionConfig(
        depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=32,
        num_position_embeddings=48 * 48, deepstack_visual_indexes=[],
    )  # fmt: skip
    model = modeling.Qwen3VLVisionModel(small)
    grids = np.array([[1, 6, 10], [2, 4, 98], [1, 48, 48]])
    places, weights = modeling.get_vision_interpolation_indices_and_weights(
        torch.from_numpy(grids),
        num_grid_per_side=model.num_grid_per_side,
        mode=model.interpolation_mode,
        align_corners=model.interpolation_align_corners,
        spatial_merge_size=small.spatial_merge_size,
        kwargs={},
    )
    theirs = (model.pos_embed(places) * weights[:, :, None]).sum(1).detach().numpy()
    media = Media("image", None, np.concatenate([np.zeros((3, 5), np.int64), grids], axis=1))
    index, weight = media.interpolated_positions(side=48, merge=2)
    table = model.pos_embed.weight.detach().numpy()
    ours = (table[index] * weight[:, :, None]).sum(axis=0)
    assert np.allclose(ours, theirs, atol=1e-5)
