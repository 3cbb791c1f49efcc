"""What DeepSpeed's pipeline engine and verl's SFT trainer call `next()` on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packed_job import packed_job

import overlord as ol

torch: Any = pytest.importorskip("torch")
PAYLOAD = {"readers": "payload"}


def staged(folder: Path, rank: int, **more: Any) -> ol.Job:
    mesh = ol.mesh(pp=3, rank=rank)
    return ol.job(packed_job(folder, delivery=PAYLOAD, **more), mesh=mesh)


def test_the_first_and_the_last_stage_read_the_same_microbatches(tmp_path: Path) -> None:
    loaders = [
        ol.deepspeed.pipeline(staged(tmp_path, rank), engine="embedded") for rank in range(3)
    ]
    assert loaders[1] == (None, None)
    (first, inputs), (last, labels) = loaders[0], loaders[2]
    with ol.job(packed_job(tmp_path)).train() as whole:
        for _ in range(12):
            batch = next(whole)
            (tokens, positions), none = next(inputs)
            nothing, targets = next(labels)
            assert none is nothing is None
            assert (tokens.numpy() == batch.tokens).all()
            assert (positions.numpy() == batch.positions).all()
            weighed = batch.loss_weights > 0
            assert (targets.numpy()[weighed] == batch.targets[weighed]).all()
            assert (targets.numpy()[~weighed] == -100).all()
    assert first.state_dict() == last.state_dict()
    first.close()
    last.close()


def test_stages_that_never_read_must_not_be_waited_for(tmp_path: Path) -> None:
    job = ol.job(packed_job(tmp_path), mesh=ol.mesh(pp=3, rank=0))
    with pytest.raises(ol.ConfigError, match=r"delivery\.readers.*payload"):
        ol.deepspeed.pipeline(job)


def verl_job(folder: Path, ranks: int = 1) -> ol.Job:
    shape = {"packing": {"method": "pad"}, "steps": 4}
    return ol.job(packed_job(folder, **shape), mesh=ol.mesh(dp=ranks))


def rows(batches: Any) -> list[list[tuple[list[int], list[int]]]]:
    return [
        [
            (tokens.tolist(), mask.tolist())
            for tokens, mask in zip(
                batch["input_ids"].unbind(), batch["loss_mask"].unbind(), strict=True
            )
        ]
        for batch in batches
    ]


def test_a_batch_is_a_step_and_every_rank_has_as_many_documents(tmp_path: Path) -> None:
    whole = ol.verl.StepBatches(verl_job(tmp_path), engine="embedded")
    expected = rows(whole)
    assert len(whole) == len(expected) == 4 and {len(step) for step in expected} == {8}
    assert all(mask[0] == 0 and len(mask) == len(tokens) for s in expected for tokens, mask in s)
    halves = [ol.verl.StepBatches(verl_job(tmp_path, 2), rank=r, engine="embedded") for r in (0, 1)]
    steps = [rows(half) for half in halves]
    for step, parts in enumerate(zip(*steps, strict=True)):
        assert [len(part) for part in parts] == [4, 4]
        assert sorted(parts[0] + parts[1]) == sorted(expected[step])
    for loader in (whole, *halves):
        loader.close()


def test_a_state_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    one = ol.verl.StepBatches(verl_job(tmp_path), engine="embedded")
    reading = iter(one)
    next(reading)
    state = one.state_dict()
    expected = rows(reading)
    half = ol.verl.StepBatches(verl_job(tmp_path, 2), rank=1, engine="embedded", padded=True)
    half.load_state_dict(state)
    found = list(half)
    assert len(found) == 3
    masks = found[0]["attention_mask"].bool()
    tokens = [row[kept].tolist() for row, kept in zip(found[0]["input_ids"], masks, strict=True)]
    assert all(row in [tokens for tokens, _ in expected[0]] for row in tokens)
    one.close()
    half.close()


def test_verl_refuses_packed_jobs_and_streams_without_an_end(tmp_path: Path) -> None:
    with pytest.raises(ol.ConfigError, match=r"packing\.method.*pad"):
        ol.verl.StepBatches(ol.job(packed_job(tmp_path)))
    endless = packed_job(tmp_path, packing={"method": "pad"}, steps=None)
    with pytest.raises(ol.ConfigError, match="length"):
        ol.verl.StepBatches(ol.job(endless))
