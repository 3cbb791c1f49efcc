"""What each rank of a mesh sees: together exactly the step, each its own part of it."""

from __future__ import annotations

import gc
import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import EOD, Corpus, made_up_documents, two_sources
from delivered import Array, content, flat, pieces_of, segments_of, slice_indices

import overlord as ol

CONTEXT = 64
PAYLOAD = ("tokens", "targets", "loss_weights", "positions")
SLICINGS = ["sequence_zigzag", "document_zigzag", "contiguous", "trainer"]
Placed = dict[tuple[int, int, int], ol.Microbatch]  # step, data-parallel group, microbatch


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return two_sources(tmp_path_factory.mktemp("views"))


def config_of(corpus: Corpus, delivery: dict[str, Any], **top: Any) -> dict[str, Any]:
    shape = {"bins": 8, "align": 8, "at_end": "repeat", "steps": 3, "context": CONTEXT, **top}
    return corpus.config(delivery=delivery, **shape)


def group_of(mesh: ol.Mesh, rank: int) -> int:
    """The data-parallel group of a rank."""
    group = 0
    for name, size in mesh.axes:
        if name == "dp" or name.startswith("dp_"):
            group = group * size + mesh.coordinate(rank, name)
    return group


def whole_batches(config: dict[str, Any], mesh: ol.Mesh) -> Placed:
    """The microbatches of every group as one rank without model parallelism sees them."""
    sizes = {name: size for name, size in mesh.axes if name.startswith("dp")}
    flat_mesh = ol.mesh.from_axes(list(sizes.items()))
    whole = {**config, "delivery": {**config["delivery"], "broadcast": []}}
    placed: Placed = {}
    with ol.job(whole, mesh=flat_mesh).train(ranks="all") as loaders:
        for batches in loaders.rounds():
            for rank, batch in batches.items():
                placed[batch.step, rank, batch.microbatch] = batch
    return placed


MESHES = [
    "pp=1,dp=2,cp=2,tp=2",
    "pp=2,dp=2,cp=2,tp=1",
    "pp=3,dp=1,cp=4,tp=2",
    "pp=4,dp=4,cp=1,tp=1",
    "dp=2,cp=4",
    "dp_replicate=2,dp_shard=2,cp=2",
]


@pytest.mark.parametrize("slicing", SLICINGS)
@pytest.mark.parametrize("mesh_text", MESHES)
def test_slices_are_the_independent_ones(mesh_text: str, slicing: str, corpus: Corpus) -> None:
    """Every rank's arrays are what NumPy cuts out of the whole microbatch of its group."""
    config = config_of(corpus, {"cp_slicing": slicing, "microbatch_size": 2})
    job = ol.job(config, mesh=mesh_text)
    whole = whole_batches(config, job.mesh)
    cp, stages = job.mesh.size("cp"), job.mesh.size("pp")
    seen = 0
    with job.train(ranks="all") as loaders:
        for batches in loaders.rounds():
            for rank, batch in batches.items():
                expected = whole[batch.step, group_of(job.mesh, rank), batch.microbatch]
                indices = slice_indices(
                    slicing,
                    (2, CONTEXT),
                    flat(expected.cu_seqlens_padded).tolist(),
                    job.mesh.coordinate(rank, "cp"),
                    cp,
                )
                check_view(batch, expected, indices, job.mesh.coordinate(rank, "pp"), stages)
                seen += 1
    assert seen == len(whole) * job.mesh.world_size // job.mesh.data_size


def check_view(
    batch: ol.Microbatch, whole: ol.Microbatch, indices: list[int], stage: int, stages: int
) -> None:
    """The fields of a stage, cut; boundaries and counts of the whole on every rank."""
    wanted = {"cu_seqlens", "cu_seqlens_padded"}
    if stage == 0:
        wanted |= {"tokens", "positions"}
    if stage == stages - 1:
        wanted |= {"targets", "loss_weights"}
    arrays, all_of_it = batch.arrays(), whole.arrays()
    assert set(arrays) == wanted
    for name in wanted:
        if name in PAYLOAD:
            assert arrays[name].shape == (2, len(indices) // 2)
            assert arrays[name].dtype == all_of_it[name].dtype
            assert np.array_equal(flat(arrays[name]), flat(all_of_it[name])[indices])
        else:
            assert np.array_equal(arrays[name], all_of_it[name])
    assert batch.lineage().tobytes() == whole.lineage().tobytes()
    for name in ("max_seqlen", "num_docs", "num_tokens", "target_tokens", "step_target_tokens"):
        assert getattr(batch, name) == getattr(whole, name)


@pytest.mark.parametrize("slicing", ["sequence_zigzag", "document_zigzag", "contiguous"])
def test_slices_cover_each_place_once(slicing: str) -> None:
    """The oracle itself: over all ranks every place of the microbatch once."""
    padded = [0, 16, 24, 64, 96, 128]
    for ranks in (2, 4):
        places = [
            i for r in range(ranks) for i in slice_indices(slicing, (2, 64), padded, r, ranks)
        ]
        assert sorted(places) == list(range(128))


@pytest.mark.parametrize("mesh_text", ["dp=1", "dp=2", "dp=8", "dp_replicate=2,dp_shard=4"])
@pytest.mark.parametrize("size", [1, 2])
def test_groups_share_a_step_exactly_once(mesh_text: str, size: int, corpus: Corpus) -> None:
    """Every segment of the step's plan is delivered by one group, once."""
    config = config_of(corpus, {"microbatch_size": size}, bins=16)
    job = ol.job(config, mesh=mesh_text)
    planner = job.open_stream().native.planner(None, [])
    with job.train(ranks="all") as loaders:
        for step in loaders.steps():
            plan = planner.next()
            planned = sorted(row[:5] for rows in plan.bins() for row in rows)
            held = segments_of(itertools.chain.from_iterable(step.values()))
            assert held == planned
            batches = [batch for listed in step.values() for batch in listed]
            assert {batch.step_target_tokens for batch in batches} == {plan.target_tokens}
            assert sum(batch.target_tokens for batch in batches) == plan.target_tokens
            assert sum(batch.num_tokens for batch in batches) == plan.tokens
        assert planner.next() is None


def test_tensor_parallel_peers_share_memory(corpus: Corpus) -> None:
    """The same bytes, and in one process the same memory: one copy for all peers."""
    config = config_of(corpus, {"all_stages": True})
    job = ol.job(config, mesh="pp=2,dp=2,cp=2,tp=2")
    with job.train(ranks="all") as loaders:
        for batches in loaders.rounds():
            addresses = defaultdict(set)
            for rank, batch in batches.items():
                place = (group_of(job.mesh, rank), job.mesh.coordinate(rank, "cp"))
                for name, array in batch.arrays().items():
                    addresses[place, name].add(array.__array_interface__["data"][0])
            payload = {key: found for key, found in addresses.items() if key[1] in PAYLOAD}
            assert len(payload) == 4 * len(PAYLOAD)
            assert all(len(found) == 1 for found in payload.values())


def test_all_stages_get_all_fields(corpus: Corpus) -> None:
    config = config_of(corpus, {"all_stages": True})
    with ol.job(config, mesh="pp=3,dp=2").train(ranks="all") as loaders:
        for batches in loaders.rounds():
            for rank in (0, 1):
                peers = [content(batches[rank + 2 * stage]) for stage in range(3)]
                assert len(set(peers)) == 1


BROADCASTS = [
    (["tp"], "pp=2,dp=2,cp=2,tp=2"),
    (["cp", "tp"], "dp=2,cp=2,tp=2"),
    (["pp"], "pp=3,dp=2"),
]


@pytest.mark.parametrize(("axes", "mesh_text"), BROADCASTS)
def test_broadcast_ranks_iterate_with_nothing(
    axes: list[str], mesh_text: str, corpus: Corpus
) -> None:
    """They fetch nothing, and still step, checkpoint and end with the others."""
    config = config_of(corpus, {"broadcast": axes})
    job = ol.job(config, mesh=mesh_text)
    whole = whole_batches(config, job.mesh)
    with job.train(ranks="all") as loaders:
        for batches in loaders.rounds():
            places = {(b.step, b.microbatch, b.microbatches) for b in batches.values()}
            assert len(places) == 1
            for rank, batch in batches.items():
                if any(job.mesh.coordinate(rank, axis) for axis in axes):
                    assert batch.arrays() == {} and batch.tokens is None
                elif "cp" in axes:  # coordinate 0 hands out the whole sequence
                    expected = whole[batch.step, group_of(job.mesh, rank), batch.microbatch]
                    assert np.array_equal(flat(batch.tokens), flat(expected.tokens))
        for loader in loaders.values():
            assert next(loader, None) is None
            assert loader.state_dict()["step"] == 3


@pytest.mark.parametrize("mesh_text", ["dp=3,tp=2", "dp=5", "dp=16"])
def test_empty_microbatches_fill_up(mesh_text: str, corpus: Corpus) -> None:
    """Where groups do not divide the bins: the same number of rounds for all, nothing twice."""
    config = config_of(corpus, {"fill_empty": True})
    whole = ol.job(config_of(corpus, {}))
    with whole.train() as loader:
        steps = [segments_of(step) for step in loader.steps()]
    job = ol.job(config, mesh=mesh_text)
    with job.train(ranks="all") as loaders:
        for number, step in enumerate(loaders.steps()):
            assert len({len(batches) for batches in step.values()}) == 1
            by_group = {group_of(job.mesh, rank): batches for rank, batches in step.items()}
            listed = list(itertools.chain.from_iterable(by_group.values()))
            assert segments_of(listed) == steps[number]
            for batch in listed:
                assert pieces_of(batch) or (batch.num_docs == 0 and batch.fill == 0)


@pytest.mark.parametrize("order", ["tp-cp-dp-pp", "dp-pp-tp-cp"])
def test_custom_rank_orders(order: str, corpus: Corpus) -> None:
    """Only the numbers of the ranks change with the order of the axes."""
    config = config_of(corpus, {})
    sizes = {"pp": 2, "dp": 2, "cp": 2, "tp": 2}
    usual, custom = ol.mesh(**sizes), ol.mesh(**sizes, order=order)

    def batches_by_place(mesh: ol.Mesh) -> dict[tuple[int, ...], list[bytes]]:
        with ol.job(config, mesh=mesh).train(ranks="all") as loaders:
            return {
                tuple(mesh.coordinate(rank, axis) for axis in sizes): [content(b) for b in batches]
                for rank, batches in next(loaders.steps()).items()
            }

    assert batches_by_place(usual) == batches_by_place(custom)


TOKEN_DTYPES = {"uint16": np.uint16, "int32": np.int32, "int64": np.int64}


@pytest.mark.parametrize("token_dtype", TOKEN_DTYPES)
@pytest.mark.parametrize("loss_dtype", ["float32", "uint8"])
@pytest.mark.parametrize("cp", [1, 2])
def test_dtypes(token_dtype: str, loss_dtype: str, cp: int, corpus: Corpus) -> None:
    usual = config_of(corpus, {})
    chosen = config_of(corpus, {"token_dtype": token_dtype, "loss_dtype": loss_dtype})
    mesh = f"cp={cp}"
    with (
        ol.job(usual, mesh=mesh).train(rank=0) as one,
        ol.job(chosen, mesh=mesh).train(rank=0) as other,
    ):
        for expected, batch in zip(one, other, strict=True):
            arrays = batch.arrays()
            assert arrays["tokens"].dtype == arrays["targets"].dtype == TOKEN_DTYPES[token_dtype]
            assert arrays["loss_weights"].dtype == np.dtype(loss_dtype)
            for name, array in expected.arrays().items():
                assert np.array_equal(arrays[name], array)
                assert arrays[name].flags.aligned and not arrays[name].flags.writeable


# A view lives as long as it is held (law 14)


def big_config(folder: Path, **runtime: Any) -> dict[str, Any]:
    """Microbatches of half a megabyte, so that their memory is pooled and used again."""
    corpus = Corpus(folder)
    corpus.add_megatron("code", made_up_documents(1500, longest=400, seed=4), eod=EOD)
    small = {"payload_budget": "1MiB", "constructor_budget": "8MiB", **runtime}
    return corpus.config(context=32768, bins=2, at_end="repeat", steps=30, runtime=small)


def test_views_outlive_steps_and_engine(tmp_path: Path) -> None:
    config = big_config(tmp_path)
    job = ol.job(config)
    loader = job.train()
    held: list[tuple[dict[str, Array], bytes]] = []
    for number, batch in enumerate(loader):
        if number % 5 == 0:
            arrays = dict(batch.arrays())
            held.append((arrays, b"".join(array.tobytes() for array in arrays.values())))
        del batch
    assert loader.status()["memory"]["pool_reused"] > 20  # memory did come around again
    assert len(held) == 12
    loader.close()
    del loader, job
    gc.collect()
    again = ol.job(config).train()  # writes over whatever was let go
    for _ in again:
        pass
    again.close()
    for arrays, expected in held:
        assert b"".join(array.tobytes() for array in arrays.values()) == expected


def test_a_single_array_keeps_its_memory(tmp_path: Path) -> None:
    with ol.job(big_config(tmp_path)).train() as loader:
        batch = next(loader)
        part = flat(batch.tokens)[1000:2000][::2]
        expected = part.tolist()
        del batch
        for _ in loader:
            pass
    del loader
    gc.collect()
    assert part.tolist() == expected


@pytest.mark.parametrize("context", [32768, 512])
def test_holding_too_much_is_a_typed_error(context: int, tmp_path: Path) -> None:
    """Batches held beyond budgets and limit end in an error that says what to do, not in a kill."""
    config = big_config(tmp_path, private_copy_limit="2MiB")
    config.update(context=context, bins=2 * 32768 // context, steps=None)
    held: list[ol.Microbatch] = []
    held_bytes = 0
    limit_bytes = (8 + 1 + 2 + 4) << 20  # budgets, limit, and the steps on their way
    with ol.job(config).train() as loader, pytest.raises(ol.ResourceError) as caught:
        while held_bytes < 4 * limit_bytes:
            held.append(next(loader))
            held_bytes += held[-1].nbytes
    assert held_bytes < 2 * limit_bytes
    assert "private_copy_limit" in str(caught.value) and isinstance(caught.value, OSError)
    kept = [content(batch) for batch in held]
    gc.collect()
    assert [content(batch) for batch in held] == kept


def test_after_letting_go_the_stream_goes_on(tmp_path: Path) -> None:
    config = big_config(tmp_path, private_copy_limit="2MiB")
    with ol.job(config).train() as loader:
        straight = [content(batch) for batch in loader]
    held: list[ol.Microbatch] = []
    digests: list[bytes] = []
    with ol.job(config).train() as loader:
        refusals = 0
        while len(digests) < len(straight):
            try:
                held.append(next(loader))
                digests.append(content(held[-1]))
            except ol.ResourceError:
                refusals += 1
                held.clear()
    assert refusals > 0 and digests == straight
