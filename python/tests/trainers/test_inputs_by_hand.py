"""Inputs of trainers over a microbatch that is written down, beside what each must be.

Every expectation is written out too, so a shift by one place, another mark for what is ignored or
another end of the boundaries fails here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_up_batch import MadeUpBatch, two_rows
from overlord._src.trainers.inputs import automodel, deepspeed, megatron, torchtitan, verl

import overlord as ol

torch: Any = pytest.importorskip("torch")
X = -100
LABELS = [[X, 13, X, X, 22, X, X, X], [32, 33, 34, 35, X, X, X, X]]
TOKENS = [[11, 12, 13, 7, 21, 22, 7, 7], [31, 32, 33, 34, 35, 7, 7, 7]]
POSITIONS = [[0, 1, 2, 0, 0, 1, 0, 0], [0, 1, 2, 3, 4, 0, 0, 0]]


def check(found: Any, expected: Any, kind: str) -> None:
    assert found.dtype == getattr(torch, kind)
    assert found.tolist() == expected


def test_megatron_takes_zero_for_what_is_ignored() -> None:
    out = megatron.inputs(two_rows())
    assert set(out) == {"tokens", "labels", "loss_mask", "position_ids"}
    check(out["tokens"], TOKENS, "int64")
    check(out["labels"], [[0, 13, 0, 0, 22, 0, 0, 0], [32, 33, 34, 35, 0, 0, 0, 0]], "int64")
    check(out["loss_mask"], [[0, 1, 0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0]], "float32")
    check(out["position_ids"], POSITIONS, "int64")


def test_megatron_keeps_weights_between_zero_and_one() -> None:
    batch = two_rows()
    batch.loss_weights[0, 1] = 0.25
    assert megatron.inputs(batch)["loss_mask"][0, 1] == 0.25
    for form in (torchtitan, deepspeed, verl, automodel):
        with pytest.raises(ol.ConfigError, match="weights other than 0 and 1"):
            form.inputs(batch)


def test_megatron_boundaries_that_cover_every_place() -> None:
    out = megatron.inputs(two_rows(), packed=True)
    assert "cu_seqlens_padded" not in out
    rows = [[0, 4, 8, 8, 8, 8, 8, 8, 8], [0, 8, 8, 8, 8, 8, 8, 8, 8]]
    check(out["cu_seqlens"], rows, "int32")
    check(out["max_seqlen"], [4, 8], "int32")


def test_megatron_boundaries_real_and_padded() -> None:
    out = megatron.inputs(two_rows(), packed="padded")
    check(out["cu_seqlens"], [[0, 3, 5, 5, 5, 5, 5, 5, 5], [0, 5, 5, 5, 5, 5, 5, 5, 5]], "int32")
    rows = [[0, 4, 8, 8, 8, 8, 8, 8, 8], [0, 8, 8, 8, 8, 8, 8, 8, 8]]
    check(out["cu_seqlens_padded"], rows, "int32")
    check(out["max_seqlen"], [4, 8], "int32")
    lengths = np.diff(out["cu_seqlens"].numpy()), np.diff(out["cu_seqlens_padded"].numpy())
    assert (lengths[0] <= lengths[1]).all(), "no document is longer than its place"


def test_megatron_stages_get_their_own_fields() -> None:
    bounds = {"cu_seqlens", "max_seqlen"}
    first = two_rows(targets=None, loss_weights=None)
    assert set(megatron.inputs(first, packed=True)) == {"tokens", "position_ids", *bounds}
    last = two_rows(tokens=None, positions=None)
    assert set(megatron.inputs(last, packed=True)) == {"labels", "loss_mask", *bounds}
    middle = two_rows(tokens=None, positions=None, targets=None, loss_weights=None)
    assert megatron.inputs(middle) == {}
    out = megatron.inputs(middle, packed=True, rows=2)
    assert set(out) == bounds
    assert out["cu_seqlens"].tolist() == megatron.inputs(first, packed=True)["cu_seqlens"].tolist()


def test_megatron_refuses_other_kinds_of_boundaries_and_hybrid_without_groups() -> None:
    with pytest.raises(ol.ConfigError, match="covering, padded"):
        megatron.inputs(two_rows(), packed="real")
    with pytest.raises(ol.ConfigError, match=r"strategy\.hybrid"):
        megatron.inputs(two_rows(), hybrid=True)


def test_torchtitan_rows_and_folded() -> None:
    out = torchtitan.inputs(two_rows())
    assert set(out) == {"input", "positions", "labels"}
    check(out["input"], TOKENS, "int64")
    check(out["labels"], LABELS, "int64")
    # Every 0 starts a document of its own, so padding counts like one.
    check(out["positions"], [[0, 1, 2, 0, 0, 1, 0, 1], [0, 1, 2, 3, 4, 0, 1, 2]], "int64")
    folded = torchtitan.inputs(two_rows(), folded=True)
    for name, rows in out.items():
        check(folded[name], [place for row in rows.tolist() for place in row], "int64")


def test_torchtitan_counts_the_padding_of_an_empty_row() -> None:
    batch = MadeUpBatch(
        tokens=[[1, 2], [0, 0]],
        targets=[[2, 0], [0, 0]],
        loss_weights=[[1, 0], [0, 0]],
        positions=[[0, 1], [0, 0]],
        cu_seqlens=[0, 2, 2],
        cu_seqlens_padded=[0, 2, 4],
    )
    assert torchtitan.inputs(batch)["positions"].tolist() == [[0, 1], [0, 1]]


def test_deepspeed_labels_are_shifted_already() -> None:
    out = deepspeed.inputs(two_rows())
    assert set(out) == {"input_ids", "position_ids", "shift_labels"}
    check(out["input_ids"], TOKENS, "int64")
    check(out["position_ids"], POSITIONS, "int64")
    check(out["shift_labels"], LABELS, "int64")


def test_deepspeed_pipeline_needs_the_parts_of_its_stages() -> None:
    out = deepspeed.inputs(two_rows(), pipeline=True)
    check(out["inputs"][0], TOKENS, "int64")
    check(out["inputs"][1], POSITIONS, "int64")
    check(out["labels"], LABELS, "int64")
    first = two_rows(targets=None, loss_weights=None)
    assert deepspeed.inputs(first, pipeline=True)["labels"] is None
    last = deepspeed.inputs(two_rows(tokens=None, positions=None), pipeline=True)
    assert last["inputs"] is None
    check(last["labels"], LABELS, "int64")


def test_verl_masks_the_tokens_that_are_learnt() -> None:
    out = verl.inputs(two_rows())
    assert set(out) == {"input_ids", "position_ids", "loss_mask"}
    assert all(value.is_nested and value.layout == torch.jagged for value in out.values())
    parts = {name: [row.tolist() for row in value.unbind()] for name, value in out.items()}
    assert parts["input_ids"] == [[11, 12, 13], [21, 22], [31, 32, 33, 34, 35]]
    assert parts["position_ids"] == [[0, 1, 2], [0, 1], [0, 1, 2, 3, 4]]
    assert parts["loss_mask"] == [[0, 0, 1], [0, 1], [0, 1, 1, 1, 1]]
    # As its loss reads it: the mask of all documents, moved one place to the left as a whole.
    moved = torch.roll(out["loss_mask"].values(), shifts=-1, dims=0)
    assert moved.tolist() == [0, 1, 0, 1, 0, 1, 1, 1, 1, 0]
    assert {value.values().dtype for value in out.values()} == {torch.int64}


def test_verl_padded_at_the_right() -> None:
    out = verl.inputs(two_rows(), padded=True, pad_token=9, max_length=6)
    rows = [[11, 12, 13, 9, 9, 9], [21, 22, 9, 9, 9, 9], [31, 32, 33, 34, 35, 9]]
    check(out["input_ids"], rows, "int64")
    rows = [[0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 0]]
    check(out["loss_mask"], rows, "int64")
    rows = [[1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0]]
    check(out["attention_mask"], rows, "int64")
    assert verl.inputs(two_rows(), padded=True)["input_ids"].shape == (3, 5)
    with pytest.raises(ol.ConfigError, match="longest document"):
        verl.inputs(two_rows(), padded=True, max_length=4)


def test_automodel_lengths_end_in_minus_a_thousand() -> None:
    out = automodel.inputs(two_rows())
    check(out["input_ids"], TOKENS, "int64")
    check(out["labels"], LABELS, "int64")  # its losses do not shift
    check(out["position_ids"], POSITIONS, "int64")
    check(out["seq_lens"], [[3, 2], [5, -1000]], "int64")
    check(out["seq_lens_padded"], [[4, 4], [8, -1000]], "int64")
    assert out["qkv_format"] == "thd" and len(out) == 6


def test_the_target_behind_a_cut_is_kept_or_refused() -> None:
    """Where labels are shifted already it is there; where the model shifts it cannot be."""
    assert megatron.inputs(two_rows(cut=True))["labels"][1, 4] == 36
    assert torchtitan.inputs(two_rows(cut=True))["labels"][1, 4] == 36
    assert deepspeed.inputs(two_rows(cut=True))["shift_labels"][1, 4] == 36
    assert automodel.inputs(two_rows(cut=True))["labels"][1, 4] == 36
    with pytest.raises(ol.ConfigError, match="document that was cut"):
        verl.inputs(two_rows(cut=True))


@pytest.mark.parametrize("form", [torchtitan, verl, automodel])
def test_slices_are_refused_where_documents_must_be_whole(form: Any) -> None:
    batch = two_rows()
    half = two_rows(
        tokens=batch.tokens[:, :4],
        targets=batch.targets[:, :4],
        loss_weights=batch.loss_weights[:, :4],
        positions=batch.positions[:, :4],
    )
    with pytest.raises(ol.ConfigError, match="cp_slicing"):
        form.inputs(half)
