"""Loaders over the real engine: arrays, hashes, states, ends and interrupts."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from overlord._src.corpus import CorpusParameters, sampling, words
from overlord._src.corpus.generate import shard_path
from trainers import in_time

import overlord as ol

MESHES = ["dp=1", "dp=2,tp=2", "pp=2,dp=2,cp=2,tp=2", "dp=4,cp=2"]
STEPS = 4


def open_job(config: Path, mesh: str = "dp=1", *overrides: str) -> ol.Job:
    """The starter's job with small steps; bytes as tokens need no worker process to start."""
    tokenizers = ["sources.web.tokenizer=bytes", "sources.forum.tokenizer=bytes"]
    return ol.job(config, mesh=mesh, overrides=["context=256", "bins=8", *tokenizers, *overrides])


def lineage_of_steps(job: ol.Job, steps: int, state: Any = None) -> list[set[tuple[int, ...]]]:
    """What each of the next steps holds, over all ranks, without where it lies."""
    found = []
    with job.train(ranks="all") as loaders:
        if state is not None:
            loaders.load_state_dict(state)
        for step in islice(loaders.steps(), steps):
            rows = {
                tuple(row)[:5]
                for batches in step.values()
                for batch in batches
                for row in batch.lineage().tolist()
            }
            found.append(rows)
    return found


def test_arrays_of_one_rank(starter: Path) -> None:
    with open_job(starter).train() as loader:
        batch = next(loader)
    assert batch.step == 0 and batch.microbatch == 0 and batch.microbatches == 8
    assert batch.tokens is not None and batch.tokens.shape == (1, 256)
    assert batch.tokens.dtype == np.int32 and not batch.tokens.flags.writeable
    assert batch.targets is not None and batch.loss_weights is not None
    assert batch.positions is not None and batch.cu_seqlens is not None
    assert batch.loss_weights.dtype == np.float32 and batch.cu_seqlens.dtype == np.int32
    assert batch.num_docs == len(batch.cu_seqlens) - 1 and 0 < batch.fill <= 1
    assert set(batch.arrays()) >= {"tokens", "targets", "positions", "cu_seqlens_padded"}
    assert "step=0" in repr(batch) and batch.nbytes > 4 * 256 * 4


def test_targets_are_the_next_tokens(starter: Path) -> None:
    with open_job(starter).train() as loader:
        for batch in islice(loader, 16):
            assert batch.tokens is not None and batch.targets is not None
            assert batch.loss_weights is not None and batch.positions is not None
            tokens, targets = batch.tokens[0], batch.targets[0]
            inside = (batch.loss_weights[0][:-1] > 0) & (batch.positions[0][1:] > 0)
            assert np.array_equal(targets[:-1][inside], tokens[1:][inside])
            assert batch.loss_weights.sum() == batch.target_tokens


def test_every_ready_token_is_the_generated_one(starter: Path, corpus: CorpusParameters) -> None:
    """A delivered token is a function of (source, shard, row, position)."""
    job = open_job(starter, "dp=1", 'mixture={"weights": {"code": 3, "forum": 1}}')
    opened = job.open_stream()
    number = opened.source_names.index("code")
    shape = corpus.source("code")
    paths = {str(shard_path(starter.parent / "data", shape, n)): n for n in range(shape.shards)}
    documents = []  # by shard and row
    for shard in range(shape.shards):
        tokens, counts = sampling.shard_tokens(
            corpus, shape, shard, words.VOCABULARY, words.FIRST_TOKEN
        )
        documents.append(np.split(tokens, np.cumsum(counts)[:-1]))
    checked = 0
    with job.train() as loader:
        for batch in islice(loader, 120):
            assert batch.tokens is not None and batch.cu_seqlens_padded is not None
            flat = batch.tokens.reshape(-1)
            for row, begin in zip(batch.lineage(), batch.cu_seqlens_padded, strict=False):
                if row["source"] != number:
                    continue
                place = opened.native.locate(number, int(row["pass"]), int(row["position"]))
                document = documents[paths[place["shard"]]][place["row_in_shard"]]
                whole = np.append(document.astype(np.int32), words.EOD_TOKEN)
                part = whole[row["first"] : row["first"] + row["count"]]
                assert np.array_equal(flat[begin : begin + row["count"]], part)
                checked += len(part)
    assert checked > 500


def test_stages_and_peers_get_what_they_need(starter: Path) -> None:
    job = open_job(starter, "pp=3,dp=2,cp=2,tp=2")
    with job.train(ranks="all") as loaders:
        batches = next(loaders.rounds())
    for rank, batch in batches.items():
        stage = job.mesh.coordinate(rank, "pp")
        has = set(batch.arrays())
        assert ("tokens" in has) == (stage == 0) and ("positions" in has) == (stage == 0)
        assert ("targets" in has) == (stage == 2) and ("loss_weights" in has) == (stage == 2)
        assert "cu_seqlens" in has
        if batch.tokens is not None:
            assert batch.tokens.shape == (1, 128)
            peer = batches[rank ^ 1].tokens  # tp is the fastest axis
            assert peer is not None and np.array_equal(peer, batch.tokens)


def run_hashes(config: Path, mesh: str, **options: Any) -> tuple[str, str]:
    with open_job(config, mesh).train(ranks="all", hash=True, **options) as loaders:
        for _ in islice(loaders.steps(), STEPS):
            pass
        return loaders.stream_hash(), loaders.content_hash()


def test_content_is_the_same_on_every_mesh(starter: Path) -> None:
    assert len({run_hashes(starter, mesh)[1] for mesh in MESHES}) == 1
    assert len({run_hashes(starter, mesh)[0] for mesh in MESHES}) == len(MESHES)


def test_threads_and_prefetch_change_nothing(starter: Path) -> None:
    options = [{}, {"prefetch": 1}, {"prefetch": 5, "threads": 1}, {"threads": 4}]
    assert len({run_hashes(starter, "dp=2,cp=2", **option) for option in options}) == 1


@pytest.fixture
def straight(starter: Path) -> list[bytes]:
    """Bytes of the first microbatches of rank 0, read without a stop."""
    with open_job(starter).train() as loader:
        return [content(batch) for batch in islice(loader, 24)]


def content(batch: ol.Microbatch) -> bytes:
    parts = [array.tobytes() for array in batch.arrays().values()]
    return b"".join([*parts, batch.lineage().tobytes(), bytes([batch.step, batch.microbatch])])


@pytest.mark.parametrize("stop", [0, 1, 3, 7, 8, 9, 16, 21])
def test_resume_at_any_microbatch(stop: int, starter: Path, straight: list[bytes]) -> None:
    with open_job(starter).train() as loader:
        for _ in range(stop):
            next(loader)
        state = json.loads(json.dumps(loader.state_dict()))
    assert (state["step"], state["microbatch"]) == divmod(stop, 8)
    with open_job(starter).train(prefetch=1, threads=1) as loader:
        loader.load_state_dict(state)
        assert loader.state_dict() == state
        rest = [content(batch) for batch in islice(loader, 24 - stop)]
    assert rest == straight[stop:]


def test_a_loader_can_be_rewound(starter: Path, straight: list[bytes]) -> None:
    with open_job(starter).train() as loader:
        start = loader.state_dict()
        for _ in range(5):
            next(loader)
        loader.load_state_dict(start)
        assert content(next(loader)) == straight[0]


def test_state_is_the_same_on_every_rank_and_loads_on_every_mesh(starter: Path) -> None:
    uninterrupted = lineage_of_steps(open_job(starter), 4)
    for mesh in MESHES:
        with open_job(starter, mesh).train(ranks="all") as loaders:
            for _ in islice(loaders.steps(), 2):
                pass
            saved = [json.dumps(loader.state_dict()) for loader in loaders.values()]
        assert len(set(saved)) == 1
        for other in MESHES:
            rest = lineage_of_steps(open_job(starter, other), 2, json.loads(saved[0]))
            assert rest == uninterrupted[2:]


def test_a_state_inside_a_step_is_bound_to_its_mesh(starter: Path) -> None:
    with open_job(starter, "dp=2").train(rank=0) as loader:
        next(loader)
        state = loader.state_dict()
    assert state["mesh"].startswith("pp=1,dp=2,cp=1,tp=1,microbatch_size=1")
    with (
        open_job(starter, "dp=4").train(rank=0) as other,
        pytest.raises(ol.StateMismatchError, match=r"saved inside step 0.*dp=2.*dp=4"),
    ):
        other.load_state_dict(state)


def saved_state(config: Path, *overrides: str) -> dict[str, Any]:
    with open_job(config, "dp=1", *overrides).train() as loader:
        for _ in range(8):
            next(loader)
        return loader.state_dict()


REFUSED = [
    (["seed=8"], "config of stream: saved [0-9a-f]{32}, now [0-9a-f]{32}"),
    (["context=512"], "config of stream"),
    (["mixture.weights.web=0.5"], "config of mixture: saved"),
    (["sources.web.shuffle=full"], "config of source web: saved"),
    (["job=other"], "is of job 'starter', this is 'other'"),
]


@pytest.mark.parametrize(("overrides", "part"), REFUSED)
def test_a_state_of_another_config_is_refused(
    overrides: list[str], part: str, starter: Path
) -> None:
    state = saved_state(starter)
    with (
        open_job(starter, "dp=1", *overrides).train() as loader,
        pytest.raises(ol.StateMismatchError, match=part),
    ):
        loader.load_state_dict(state)


def test_declared_changes_go_on(starter: Path) -> None:
    state = saved_state(starter)
    with open_job(starter, "dp=1", "mixture.weights.web=0.1").train() as loader:
        loader.load_state_dict(state, allow=("mixture",))
        assert next(loader).step == 1
    weights = 'mixture={"weights": {"web": 0.5, "forum": 0.5}}'
    with open_job(starter, "dp=1", weights).train() as loader:
        with pytest.raises(ol.StateMismatchError, match="source code: lost"):
            loader.load_state_dict(state, allow=("mixture",))
        loader.load_state_dict(state, allow=("sources",))
        assert next(loader).step == 1
        with pytest.raises(ValueError, match="unknown change 'seed'"):
            loader.load_state_dict(state, allow=("seed",))


def test_damaged_states_are_refused(starter: Path) -> None:
    state = saved_state(starter)
    with open_job(starter).train() as loader:
        with pytest.raises(ol.StateMismatchError, match=r"web\.position: the state says 1"):
            edited = {**state["sources"]["web"], "position": 1}
            loader.load_state_dict({**state, "sources": {**state["sources"], "web": edited}})
        with pytest.raises(ol.BadDataError, match="truncated or was edited"):
            loader.load_state_dict({**state, "blob": state["blob"][:-8]})
        with pytest.raises(ol.VersionMismatchError, match="overlord-state/7"):
            loader.load_state_dict({**state, "format": "overlord-state/7"})
        assert next(loader).step == 0


def test_streams_have_their_own_state(starter: Path) -> None:
    job = open_job(starter)
    with job.valid() as valid, job.train() as train:
        steps = [batch.step for batch in valid]
        assert steps == sorted(steps) and max(steps) == 3  # the config gives it four steps
        with pytest.raises(StopIteration):
            next(valid)
        with pytest.raises(ol.StateMismatchError, match="stream"):
            train.load_state_dict(valid.state_dict())
    with pytest.raises(ol.ConfigError, match="did you mean valid"):
        job.stream("valdi")


def test_views_outlive_the_loader(starter: Path) -> None:
    loader = open_job(starter).train()
    held = [next(loader) for _ in range(24)]
    before = [content(batch) for batch in held]
    loader.close()
    del loader
    gc.collect()
    assert [content(batch) for batch in held] == before
    tokens = held[0].tokens
    del held
    gc.collect()
    assert tokens is not None and tokens.sum() > 0


def engine_threads() -> int:
    gc.collect()
    return len(list(Path("/proc/self/task").iterdir()))


def test_closing_and_dropping_release_everything(starter: Path) -> None:
    job = open_job(starter)
    job.open_stream()
    before = engine_threads()
    with job.train() as loader:
        next(loader)
        assert engine_threads() > before
    in_time(lambda: engine_threads() <= before, "the engine's threads are gone")
    with pytest.raises(RuntimeError, match="closed"):
        next(loader)
    loader = job.train()
    next(loader)
    del loader
    in_time(lambda: engine_threads() <= before, "the engine's threads are gone")
    job.train()  # never started: nothing to stop


def test_engines_start_lazily(starter: Path) -> None:
    job = open_job(starter)
    job.open_stream()
    before = engine_threads()
    loader = job.train()
    assert engine_threads() == before
    next(loader)
    assert engine_threads() > before
    loader.close()


BAD_CALLS = [
    ({"rank": 4}, "0 to 3"),
    ({}, "needed on a mesh of 4 ranks"),
    ({"rank": 0, "engine": "rya"}, "embedded"),
    ({"rank": 0, "prefetch": 0}, "prefetch: too small"),
    ({"rank": 0, "threads": 0}, "threads: too small"),
    ({"rank": 0, "threads": True}, "threads: not an integer"),
    ({"rank": 0, "prefetch": 100_000}, "prefetch: too large.* at most 1024; .*planned"),
    ({"rank": 0, "threads": 10**6}, "threads: too large.* at most 1024; .*a thread"),
    ({"ranks": [0, 0]}, "each rank once"),
    ({"ranks": []}, "at least one"),
    ({"rank": 0, "ranks": "all"}, "both given"),
]


@pytest.mark.parametrize(("options", "part"), BAD_CALLS)
def test_bad_calls(options: dict[str, Any], part: str, starter: Path) -> None:
    with pytest.raises(ol.ConfigError, match=part):
        open_job(starter, "dp=4").train(**options)


def test_rank_from_the_mesh(starter: Path) -> None:
    mesh = ol.mesh.from_env(environment={"RANK": "1", "WORLD_SIZE": "2"})
    with ol.job(starter, mesh=mesh).train() as loader:
        assert loader.rank == 1


def test_one_rank_processes_agree_with_one_of_all_ranks(starter: Path) -> None:
    from overlord._src.native import core

    mesh = "dp=2,cp=2"
    together, _ = run_hashes(starter, mesh)
    hashes, chains = [], set()
    for rank in range(4):
        with open_job(starter, mesh).train(rank=rank, hash=True) as loader:
            for _ in islice(loader.steps(), STEPS):
                pass
            hashes.append(loader.rank_hash())
            chains.add(loader._shared.running().plan_chain())
    assert len(chains) == 1
    assert core.combine_stream_hash(chains.pop(), hashes) == together


INTERRUPTED = """
import sys
import overlord as ol
loader = ol.job(sys.argv[1]).train()
next(loader)
try:
    print("waiting", flush=True)
    while True:
        next(loader)
except KeyboardInterrupt:
    loader.close()
    print("interrupted", flush=True)
"""


def test_ctrl_c_reaches_the_loop(starter: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(starter)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert process.wait() == 0


def test_torch_tensors_share_the_memory(starter: Path) -> None:
    torch = pytest.importorskip("torch")
    with open_job(starter).train() as loader:
        batch = next(loader)
    tensors = batch.torch()
    assert set(tensors) == set(batch.arrays())
    for name, array in batch.arrays().items():
        assert tensors[name].data_ptr() == array.__array_interface__["data"][0]
    assert tensors["tokens"].dtype == torch.int32
    kept = tensors["tokens"]
    total = int(kept.sum())
    del batch, tensors
    gc.collect()
    assert int(kept.sum()) == total


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """306 sources of a few documents each."""
    folder = tmp_path_factory.mktemp("many")
    names = [f"source-{number:03d}" for number in range(306)]
    for name in names:
        lines = "".join(json.dumps({"text": f"{name} {row} " * 9}) + "\n" for row in range(6))
        (folder / f"{name}.jsonl").write_text(lines)
    config = {
        "job": "many",
        "seed": 1,
        "context": 512,
        "bins": 64,
        "vocabulary": 256,
        "at_end": "repeat",
        "mixture": {"weights": dict.fromkeys(names, 1)},
        "sources": {
            name: {"files": f"{name}.jsonl", "text": "text", "tokenizer": "bytes"} for name in names
        },
    }
    path = folder / "mix.json"
    path.write_text(json.dumps(config))
    yield path


def test_state_of_306_sources_is_small(many: Path) -> None:
    with ol.job(many).train() as loader:
        for _ in islice(loader.steps(), 3):
            pass
        state = loader.state_dict()
    assert len(state["sources"]) == 306
    assert len(json.dumps(state)) < 64 * 1024
