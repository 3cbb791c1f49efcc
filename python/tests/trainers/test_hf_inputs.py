"""Inputs of Hugging Face models: the loss of packed documents is that of each fed alone."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drive import tiny_llama
from packed_job import packed_job
from reference import loss_alone

import overlord as ol

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def llama() -> Any:
    return tiny_llama(initializer_range=0.3).eval()  # far from uniform, so that what is seen counts


def batches(folder: Path, count: int, **more: Any) -> list[Any]:
    config = packed_job(folder, delivery={"microbatch_size": 2}, **more)
    with ol.job(config).train() as loader:
        return list(islice(loader, count))


def loss_of(model: Any, inputs: dict[str, Any]) -> float:
    with torch.no_grad():
        return float(model(**inputs).loss)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("flatten", [None, True])
def test_packed_documents_have_the_loss_of_each_alone(
    tmp_path: Path, llama: Any, attention: str, flatten: bool | None
) -> None:
    llama.set_attn_implementation(attention)
    found = batches(tmp_path, 3)
    assert any(batch.loss_weights[-1, -1] > 0 for batch in found)  # cut at the end of its row
    for batch in found:
        inputs = batch.model_inputs("hf", model=llama, flatten=flatten)
        assert inputs["input_ids"].shape == ((1, 128) if flatten else (2, 64))
        assert loss_of(llama, inputs) == pytest.approx(loss_alone(llama, batch), rel=1e-5)


def test_each_of_the_three_mistakes_gives_another_loss(tmp_path: Path, llama: Any) -> None:
    batch = batches(tmp_path, 1)[0]
    right = loss_alone(llama, batch)
    inputs = batch.model_inputs("hf", model=llama)
    assert loss_of(llama, inputs) == pytest.approx(right, rel=1e-5)
    cached = {key: value for key, value in inputs.items() if key != "use_cache"}
    counted = inputs["num_items_in_batch"]
    twice = {
        "input_ids": inputs["input_ids"],
        "position_ids": inputs["position_ids"],
        "use_cache": False,
        "labels": inputs["shift_labels"],
        "num_items_in_batch": counted,
    }
    placeless = {key: value for key, value in inputs.items() if key != "position_ids"}
    for mistake in (cached, twice, placeless):
        assert abs(loss_of(llama, mistake) / right - 1) > 1e-4


def test_labels_are_refused_by_name(tmp_path: Path) -> None:
    batch = batches(tmp_path, 1)[0]
    with pytest.raises(AttributeError, match="already shifted"):
        _ = batch.labels
    with pytest.raises(KeyError, match="already shifted"):
        batch["labels"]
    assert not hasattr(batch, "labels") and "labels" not in batch


class Shifting(torch.nn.Module):
    """A model as they were: shifts its labels, and takes nothing else."""

    def __init__(self, llama: Any) -> None:
        super().__init__()
        self.llama = llama
        self.config = llama.config

    def forward(self, input_ids: Any, position_ids: Any, use_cache: bool, labels: Any) -> Any:
        logits = self.llama(input_ids, position_ids=position_ids, use_cache=use_cache).logits
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum"
        )
        return transformers.modeling_outputs.CausalLMOutput(loss=loss)


def test_a_model_that_shifts_gets_labels_moved_back(tmp_path: Path, llama: Any) -> None:
    model = Shifting(llama)
    whole = {"packing": {"method": "best_fit"}, "over_length": "truncate"}
    for batch in batches(tmp_path, 2, **whole):
        inputs = batch.model_inputs("hf", model=model)
        assert set(inputs) == {"input_ids", "position_ids", "use_cache", "labels"}
        loss = loss_of(model, inputs) / batch.step_target_tokens
        assert loss == pytest.approx(loss_alone(llama, batch), rel=1e-5)


def test_a_model_that_shifts_is_refused_what_it_cannot_count(tmp_path: Path, llama: Any) -> None:
    """A document that is cut at the end of a row has its next token as a target, beyond the row."""
    batch = next(batch for batch in batches(tmp_path, 4) if batch.loss_weights[1, -1] > 0)
    with pytest.raises(ol.ConfigError, match="Shifting shifts its labels itself"):
        batch.model_inputs("hf", model=Shifting(llama))


def test_weights_between_are_refused(tmp_path: Path, llama: Any) -> None:
    config = packed_job(tmp_path, delivery={"loss_dtype": "float32"})
    with ol.job(config).train(writable=True) as loader:
        batch = next(loader)
    batch.loss_weights[0, 0] = 0.5
    with pytest.raises(ol.ConfigError, match="in a loop of your own"):
        batch.model_inputs("hf", model=llama)
    assert "labels" not in batch.model_inputs("hf", model=llama, loss=False)


def test_boundaries_cover_every_place(tmp_path: Path) -> None:
    batch = batches(tmp_path, 1)[0]
    inputs = batch.model_inputs("hf", varlen=True, seq_idx=True)
    ends = inputs["cu_seq_lens_q"]
    assert inputs["input_ids"].shape == (1, 128) and ends[-1] == 128
    assert inputs["max_length_q"] == int(ends.diff().max())
    assert ends.dtype == torch.int32 and inputs["seq_idx"].dtype == torch.int32
    firsts = np.flatnonzero(np.diff(inputs["seq_idx"][0].numpy(), prepend=-1))
    assert firsts.tolist() == ends[:-1].tolist()
    assert all(inputs["position_ids"][0, ends[:-1].long()] == 0)


def test_a_wrapped_model_is_looked_into(tmp_path: Path, llama: Any) -> None:
    batch = batches(tmp_path, 1)[0]
    wrapped = torch.nn.DataParallel(llama)
    assert set(batch.model_inputs("hf", model=wrapped)) == set(
        batch.model_inputs("hf", model=llama)
    )
    assert batch.model_inputs("hf", model=wrapped)["input_ids"].shape == (2, 64)


def test_a_batch_is_a_mapping_of_its_arrays(tmp_path: Path) -> None:
    batch = batches(tmp_path, 1)[0]
    assert {**batch}.keys() == batch.arrays().keys() == set(batch)
    assert np.shares_memory(batch["tokens"], batch.tokens)
    with pytest.raises(KeyError, match="no field 'words'"):
        batch["words"]
    moved = batch.to("cpu")
    assert torch.equal(moved["tokens"], batch.torch()["tokens"])
    assert moved.step == batch.step and moved.state == batch.state
    other = batch.to("meta")  # any other device than the host's
    assert other["tokens"].device.type == "meta"
    assert other.model_inputs("hf", loss=False)["input_ids"].device.type == "meta"
    with pytest.raises(ol.ConfigError, match="did you mean hf"):
        batch.model_inputs("hff")
