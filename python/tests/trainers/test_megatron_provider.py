"""Megatron's provider without Megatron: who reads, what virtual stages see, what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from overlord.megatron import provider
from packed_job import packed_job

import overlord as ol

torch: Any = pytest.importorskip("torch")
VALID = {"streams": {"valid": {"steps": 2}}}


def provide(folder: Path, rank: int, arguments: Any = None, **more: Any) -> Any:
    mesh = ol.mesh(**{"pp": 3, "tp": 2, **more.pop("mesh", {})}, rank=rank)
    options = {name: more.pop(name) for name in ("packed", "overrides") if name in more}
    told = arguments or SimpleNamespace()
    config = packed_job(folder, **more)
    return provider(config, mesh=mesh, arguments=told, engine="embedded", **options)


@pytest.mark.parametrize(("packed", "reading"), [(False, {0, 4}), (True, {0, 2, 4})])
def test_tensor_rank_0_reads_where_the_stage_needs_something(
    tmp_path: Path, packed: bool, reading: set[int]
) -> None:
    found = {}
    for rank in range(6):
        train, valid, test = provide(tmp_path, rank, packed=packed)([1, 1, 1])
        assert valid is test is None
        if train is not None:
            found[rank] = set(next(train))
            train.close()
    assert set(found) == reading
    bounds = {"cu_seqlens", "max_seqlen"} if packed else set()
    assert found[0] == {"tokens", "position_ids"} | bounds
    assert found[4] == {"labels", "loss_mask"} | bounds
    assert found.get(2, bounds) == bounds


def test_virtual_stages_see_the_same_and_one_may_never_read(tmp_path: Path) -> None:
    make = provide(tmp_path, 0, mesh={"pp": 2})
    chunks = [make([1, 1, 1], vp_stage=stage)[0] for stage in range(3)]
    with ol.job(packed_job(tmp_path)).train() as loader:
        expected = [next(loader).tokens.tolist() for _ in range(24)]
    # The second lies a step behind the first; the third is never asked.
    first = [next(chunks[0])["tokens"].tolist() for _ in range(8)]
    second = []
    for _ in range(16):
        first.append(next(chunks[0])["tokens"].tolist())
        second.append(next(chunks[1])["tokens"].tolist())
    assert first == expected and second == expected[:16]
    assert chunks[0].save_state() == chunks[1].save_state() == chunks[2].save_state()
    with pytest.raises(ol.OutOfRangeError, match="more than a step behind"):
        next(chunks[2])
    chunks[0].close()


def test_the_state_is_that_of_another_mesh_too(tmp_path: Path) -> None:
    train, _, _ = provide(tmp_path, 0)(None)
    for _ in range(8):  # a step
        next(train)
    folder = tmp_path / "kept/iter_0000001/mp_rank_00"
    folder.mkdir(parents=True)
    state = train.save_state()
    torch.save({"dataloader_state_dict": state}, folder / "train_dataloader_dprank000.pt")
    expected = next(train)["tokens"]
    train.close()
    told = SimpleNamespace(iteration=1, load="x", dataloader_save=str(tmp_path / "kept"))
    again, _, _ = provide(tmp_path, 0, told, mesh={"pp": 1, "tp": 1})(None)
    assert torch.equal(next(again)["tokens"], expected)
    again.restore_state(state)
    assert torch.equal(next(again)["tokens"], expected)
    again.close()


def test_the_stream_for_evaluation_begins_anew(tmp_path: Path) -> None:
    _, valid, _ = provide(tmp_path, 0, **VALID)(None)
    read = [next(valid)["tokens"].tolist() for _ in range(2 * 2 * 8)]
    assert read[:16] == read[16:]
    valid.close()


@pytest.mark.parametrize(
    ("name", "value"), [("seq_length", 32), ("global_batch_size", 4), ("micro_batch_size", 2)]
)
def test_sizes_that_differ_from_megatrons_are_refused(
    tmp_path: Path, name: str, value: int
) -> None:
    told = SimpleNamespace(seq_length=64, global_batch_size=8, micro_batch_size=1)
    setattr(told, name, value)
    with pytest.raises(ol.ConfigError, match=f"--{name.replace('_', '-')} {value}"):
        provide(tmp_path, 0, told)(None)
