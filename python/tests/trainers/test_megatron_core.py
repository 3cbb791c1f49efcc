"""Megatron's provider under megatron-core's own schedules, on the CPU: DP, TP, PP, virtual PP."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from own_rank import said_by_ranks
from packed_job import packed_job

import overlord as ol

torch: Any = pytest.importorskip("torch")
pytest.importorskip("megatron.core")

pytestmark = [pytest.mark.trainers, pytest.mark.deadline(600)]
HERE = Path(__file__).parent
CONTEXT, ROWS, BINS, STEPS = 64, 2, 16, 20
MESHES: dict[str, dict[str, int]] = {
    "dp2": {},
    "tp2": {"tp": 2},
    "pp2": {"pp": 2},
    "pp2-vp2": {"pp": 2, "vp": 2},
    "tp2-pp2": {"tp": 2, "pp": 2},
}


def config_of(folder: Path) -> dict[str, Any]:
    return packed_job(folder, bins=BINS, delivery={"microbatch_size": ROWS}, steps=STEPS)


def run(folder: Path, mesh: dict[str, int], **more: Any) -> list[list[dict[str, Any]]]:
    """What every rank said."""
    world = max(2, mesh.get("tp", 1) * mesh.get("pp", 1))
    told = {
        "mesh": mesh,
        "config": config_of(folder),
        "folder": str(folder),
        "rendezvous": f"file://{folder}/meet-{len(list(folder.glob('meet-*')))}",
        "context": CONTEXT,
        "rows": ROWS,
        "bins": BINS,
        "begin": 0,
        "end": STEPS,
        "engine": "embedded",
        **more,
    }
    return said_by_ranks("megatron_rank.py", told, world)


def alone(folder: Path) -> list[float]:
    """The losses of the same model in one process, over whole steps."""
    torch.manual_seed(3)
    embedding = torch.nn.Embedding(96, 16)
    layers = [torch.nn.Linear(16, 16) for _ in range(4)]
    head = torch.nn.Linear(16, 96)
    parameters = [p for part in (embedding, *layers, head) for p in part.parameters()]
    losses = []
    with ol.job(config_of(folder)).train(engine="embedded") as loader:
        for batches in islice(loader.steps(), STEPS):
            total, count = torch.zeros(()), 0
            for batch in batches:
                fields = batch.torch()
                hidden = embedding(fields["tokens"].long())
                for layer in layers:
                    hidden = torch.tanh(layer(hidden))
                each = torch.nn.functional.cross_entropy(
                    head(hidden).flatten(0, 1), fields["targets"].long().flatten(), reduction="none"
                )
                total = total + (each * fields["loss_weights"].flatten()).sum()
                count += int(fields["loss_weights"].sum())
            losses.append(float(total.detach()) / count)
            gradients = torch.autograd.grad(total, parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter -= 0.5 * gradient / count
    return losses


@pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES)
def test_losses_are_those_of_one_process(tmp_path: Path, mesh: dict[str, int]) -> None:
    said = run(tmp_path, mesh)
    expected = alone(tmp_path)
    for rank in said:
        assert [word["loss"] for word in rank[:-1]] == pytest.approx(expected, rel=1e-5)
    tp, pp = mesh.get("tp", 1), mesh.get("pp", 1)
    for number, rank in enumerate(said):
        assert (rank[-1]["reads"] > 0) == (number % tp == 0), "TP rank 0 alone holds a loader"
        assert rank[-1]["reads"] <= mesh.get("vp", 1)
    if tp > 1:  # the ranks of a group see one batch
        assert [w["tokens"] for w in said[0][:-1]] == [w["tokens"] for w in said[1][:-1]]
    assert pp * tp * (2 if mesh == {} else 1) == len(said)


def test_a_state_goes_from_one_mesh_to_another(tmp_path: Path) -> None:
    """Saved by two data-parallel ranks after step 7, read by two stages: the same tokens follow."""
    whole = run(tmp_path, {"pp": 2})
    first = run(tmp_path, {}, save=7, end=9)
    assert len(first[0]) == 10
    files = sorted((tmp_path / "iter_0000007").rglob("*.pt"))
    assert [file.name for file in files] == [
        "train_dataloader_dprank000.pt",
        "train_dataloader_dprank001.pt",
    ]
    states = [torch.load(file, weights_only=True) for file in files]
    assert states[0] == states[1]
    after = run(tmp_path, {"pp": 2}, begin=7)
    for rank in range(2):
        for key in ("tokens", "labels"):
            ours = [word[key] for word in after[rank][:-1]]
            assert ours == [word[key] for word in whole[rank][7:-1]]


def test_a_run_that_goes_on_must_find_its_state(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from overlord.megatron import saved_state

    told = SimpleNamespace(iteration=3, dataloader_save=str(tmp_path), load="somewhere")
    with pytest.raises(ol.ConfigError, match="no state of the loader for iteration 3"):
        saved_state(told)
    told.load = None
    assert saved_state(told) is None
