"""Batches on a device, the next one on its way: the stream, its states and its end are the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_job import small_job

import overlord as ol

torch = pytest.importorskip("torch")


def states(config: Any, **options: Any) -> list[tuple[int, int, Any, Any]]:
    """Of every batch: its place, the loader's state after it, and its own."""
    with ol.job(config).train(engine="embedded", **options) as loader:
        return [(b.step, b.microbatch, loader.state_dict(), b.state) for b in loader]


def test_what_is_fetched_ahead_is_in_no_state(tmp_path: Path) -> None:
    config, _ = small_job(tmp_path, steps=3)
    plain = states(config)
    assert len(plain) == 48
    assert states(config, device="cpu") == plain
    assert states(config, device="meta") == plain  # another device than the host's


def test_what_fails_behind_a_batch_costs_no_batch(tmp_path: Path) -> None:
    """The file of a source is cut short: whoever looks ahead has got as much as who does not."""
    config, _ = small_job(tmp_path, steps=400)
    config["runtime"] |= {"payload_budget": 1, "prefetch": 1, "runway": 1}
    with ol.job(config).train(engine="embedded", device="cpu") as loader:
        next(loader)
        os.truncate(tmp_path / "web.parquet", 100)
        read = 1
        with pytest.raises(ol.SourceChangedError):
            for batch in loader:
                assert (batch.step * 16 + batch.microbatch) == read, "one was lost"
                read += 1
        state = loader.state_dict()
        assert state["step"] * 16 + state["microbatch"] == read
        with pytest.raises(ol.SourceChangedError):  # it stays so
            next(loader)


def test_tensors_are_on_the_device(tmp_path: Path) -> None:
    config, _ = small_job(tmp_path, steps=2)
    with ol.job(config).train(engine="embedded", device="meta") as loader:
        batch = next(loader)
        assert batch["tokens"].device.type == "meta" and isinstance(batch.tokens, np.ndarray)
        assert batch.torch()["targets"].device.type == "meta"
        assert batch.model_inputs("hf", loss=False)["input_ids"].device.type == "meta"
        state = batch.state
        again = next(loader).lineage().tolist()
        loader.load_state_dict(state)  # drops what was under way
        assert next(loader).lineage().tolist() == again


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_copies_to_a_gpu_are_whole(tmp_path: Path) -> None:
    config, _ = small_job(tmp_path, steps=3)
    with ol.job(config).train(engine="embedded") as loader:
        expected = [batch.tokens.copy() for batch in loader]
    with ol.job(config).train(engine="embedded", device="cuda", pin=True) as loader:
        found = [batch["tokens"].clone() for batch in loader]
    assert all(np.array_equal(a.cpu(), b) for a, b in zip(found, expected, strict=True))


def test_a_dataset_gives_what_the_loader_gives(tmp_path: Path) -> None:
    config, _ = small_job(tmp_path, steps=2)
    with ol.job(config).train(engine="embedded") as loader:
        expected = [batch.tokens for batch in loader]
    with ol.job(config).train(engine="embedded") as loader:
        dataset = ol.torch.Dataset(loader)
        read = iter(torch.utils.data.DataLoader(dataset, batch_size=None))
        assert np.array_equal(next(read)["tokens"], expected[0])
        state = dataset.state_dict()
    with ol.job(config).train(engine="embedded") as loader:
        dataset = ol.torch.Dataset(loader, "hf", loss=False)
        dataset.load_state_dict(state)
        given = list(torch.utils.data.DataLoader(dataset, batch_size=None))
    assert np.array_equal(given[0]["input_ids"], expected[1])
    assert len(given) == len(expected) - 1
    read = iter(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1))
    with pytest.raises(RuntimeError, match="every worker would read the whole stream"):
        next(read)
