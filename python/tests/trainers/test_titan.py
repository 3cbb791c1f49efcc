"""torchtitan's dataloader: built, read and kept by torchtitan's and DCP's own code, on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from own_rank import said_by_ranks
from packed_job import packed_job

import overlord as ol

torch: Any = pytest.importorskip("torch")
pytest.importorskip("torchtitan.trainer")

pytestmark = [pytest.mark.trainers, pytest.mark.deadline(600)]
HERE = Path(__file__).parent
CONTEXT, ROWS, BINS = 64, 2, 8


def job_file(folder: Path) -> str:
    path = folder / "mix.yaml"
    path.write_text(json.dumps(packed_job(folder, bins=BINS)))  # JSON is YAML
    return str(path)


def run(folder: Path, world: int, steps: int, **more: Any) -> list[list[list[str]]]:
    """The rows of every step of every rank."""
    meet = f"file://{folder}/meet-{len(list(folder.glob('meet-*')))}"
    told = {"job": job_file(folder), "rendezvous": meet, "steps": steps, "peers": 1, **more}
    told |= {"context": CONTEXT, "rows": ROWS, "bins": BINS}
    said = said_by_ranks("titan_rank.py", told, world)
    return [[word["rows"] for word in words] for words in said]


def test_a_checkpoint_of_two_ranks_goes_on_with_one_and_with_peers(tmp_path: Path) -> None:
    """What dp_rank keys cannot: another number of data-parallel ranks, and the same rows follow."""
    [whole] = run(tmp_path, 1, 20)
    assert len(whole) == 20 and len({row for step in whole for row in step}) == 20 * BINS
    two = run(tmp_path, 2, 6, save=str(tmp_path / "kept"))
    for step in range(6):
        assert sorted(two[0][step] + two[1][step]) == sorted(whole[step])
    [after] = run(tmp_path, 1, 30, load=str(tmp_path / "kept"))
    assert after == whole[6:], "also up to its end, which ends the generator"
    peers = run(tmp_path, 4, 3, load=str(tmp_path / "kept"), peers=2)
    assert peers[0] == peers[1] and peers[2] == peers[3], "tensor peers see the same"
    assert [sorted(a + b) for a, b in zip(peers[0], peers[2], strict=True)] == [
        sorted(step) for step in whole[6:9]
    ]


def built(folder: Path, **told: Any) -> Any:
    from overlord import titan

    config = titan.DataLoader.Config(job=job_file(folder), engine="embedded")
    return config.build(dp_world_size=1, dp_rank=0, tokenizer=None, **told)


def test_both_signatures_give_the_shape_they_ask_for(tmp_path: Path) -> None:
    from torchtitan.components.dataloader import BaseDataLoader

    rows = built(tmp_path, seq_len=CONTEXT, local_batch_size=ROWS, snapshot_every_n_steps=None)
    assert isinstance(rows, BaseDataLoader)
    folded = built(tmp_path, max_context_length=CONTEXT, num_tokens_per_batch=ROWS * CONTEXT)
    (inputs, labels), (flat, flat_labels) = next(iter(rows)), next(iter(folded))
    assert inputs["input"].shape == labels.shape == (ROWS, CONTEXT)
    assert torch.equal(flat["input"], inputs["input"].flatten())
    assert torch.equal(flat["positions"], inputs["positions"].flatten())
    assert torch.equal(flat_labels, labels.flatten())
    rows.close()
    folded.close()


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ol.ConfigError, match="sequences of 32 tokens"):
        built(tmp_path, seq_len=32, local_batch_size=ROWS)
    with pytest.raises(ol.ConfigError, match="multiples of 64"):
        built(tmp_path, max_context_length=CONTEXT, num_tokens_per_batch=100)
    with pytest.raises(ol.ConfigError, match="other words"):
        built(tmp_path, tokens=3)
    loader = built(tmp_path, seq_len=CONTEXT, local_batch_size=ROWS)
    loader.load_state_dict({})
    with pytest.raises(ol.ConfigError, match="another dataloader"):
        loader.load_state_dict({"dp_rank_0": b"", "world_size": 1})
    loader.close()


def test_a_state_inside_a_step_is_told_of(tmp_path: Path, caplog: Any) -> None:
    loader = built(tmp_path, seq_len=CONTEXT, local_batch_size=ROWS)
    next(iter(loader))
    loader.state_dict()
    assert "training.global_batch_size" in caplog.text
    loader.close()


def test_the_mesh_is_that_of_the_data_groups() -> None:
    from overlord._src.trainers.titan import mesh_of_groups

    mesh = mesh_of_groups([0, 0, 1, 1, 0, 0, 1, 1], 2, 5)
    assert mesh.axes == (("outer", 2), ("dp", 2), ("inner", 2)) and mesh.rank == 5
    assert mesh_of_groups([0, 0], 1, 1).axes == (("outer", 1), ("dp", 1), ("inner", 2))
    with pytest.raises(ol.ConfigError, match="regular order"):
        mesh_of_groups([0, 1, 1, 0], 2, 0)
