"""What the page "Under your trainer" shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from overlord_bench._pages import blocks, glue_lines, pages
from packed_job import packed_job

import overlord as ol

torch = pytest.importorskip("torch")


def test_the_mistakes_of_the_page(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from drive import tiny_llama
    from reference import loss_alone

    model = tiny_llama().eval()
    for parameter in model.parameters():
        parameter.data *= 5  # far from uniform, so that what is seen counts
    with ol.job(packed_job(tmp_path)).train() as loader:
        batch = next(loader)
    names: dict[str, Any] = {"batch": batch, "model": model, "torch": torch}
    with torch.no_grad():
        exec(blocks("README")[0], names)
        alone = loss_alone(model, batch)
    assert float(names["right"]) == pytest.approx(alone, rel=1e-5)
    for mistake in ("cached", "placeless", "twice"):
        assert abs(float(names[mistake]) / alone - 1) > 1e-4, mistake


def test_every_page_is_in_ten_lines() -> None:
    assert {"ddp", "fsdp2", "hf", "sft", "accelerate", "lightning", "jax"} <= set(pages())
    for page in pages():
        assert 1 <= len(glue_lines(page)) <= 10, glue_lines(page)
        assert all(len(line) <= 100 for line in glue_lines(page))


def test_accelerate_deals_out_what_it_prepares(tmp_path: Path) -> None:
    """A DataLoader around a loader that has this rank's batches: half of them are dropped."""
    pytest.importorskip("accelerate")
    from accelerate.data_loader import prepare_data_loader

    config = packed_job(tmp_path, steps=2)
    with ol.job(config).train() as loader:
        expected = [batch.tokens[0].tolist() for batch in loader]
    with ol.job(config).train() as loader:
        wrapped = torch.utils.data.DataLoader(ol.torch.Dataset(loader), batch_size=1)
        dealt = prepare_data_loader(
            wrapped, num_processes=2, process_index=0, dispatch_batches=False, put_on_device=False
        )
        found = [batch["tokens"][0, 0].tolist() for batch in dealt]
    assert found == expected[::2]
