"""The stream is a pure function: hashes, meshes, processes, resumption and states."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import (
    EOD,
    Corpus,
    job_config,
    json_lines,
    made_up_documents,
    token_lines,
    two_sources,
)
from delivered import content, segments_of
from overlord._src.config.reading import read_config
from overlord._src.index import indexing
from overlord._src.native import core

import overlord as ol

STEPS = 8
MESHES = [
    "dp=1",
    "dp=2,tp=2",
    "dp=4,cp=2",
    "pp=2,dp=2,cp=2,tp=2",
    "dp=8",
    "dp_replicate=2,dp_shard=2",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two sources with documents on both sides of the context; the second pass begins soon."""
    return two_sources(tmp_path_factory.mktemp("laws"), rows=160)


def config_of(corpus: Corpus, **top: Any) -> dict[str, Any]:
    """Eight sequences a step; sources that are read again; small windows."""
    config = corpus.config(bins=8, at_end="repeat", steps=STEPS, align=4, **top)
    for source in config["sources"].values():
        source["window_rows"] = 16
    return config


def run(config: dict[str, Any], mesh: str = "dp=2,cp=2", **options: Any) -> tuple[str, str, bytes]:
    """Stream hash, content hash, and a digest of every batch of every rank of our own making."""
    digests = b""
    with ol.job(config, mesh=mesh).train(ranks="all", hash=True, **options) as loaders:
        for batches in loaders.rounds():
            digests += b"".join(content(batch) for batch in batches.values())
        return loaders.stream_hash(), loaders.content_hash(), digests


@pytest.fixture(scope="module")
def usual(corpus: Corpus) -> tuple[str, str, bytes]:
    """The stream as the defaults give it."""
    return run(config_of(corpus))


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("prefetch", [1, 2, 7])
def test_threads_and_prefetch(
    threads: int, prefetch: int, corpus: Corpus, usual: tuple[str, str, bytes]
) -> None:
    assert run(config_of(corpus), threads=threads, prefetch=prefetch) == usual


@pytest.mark.parametrize("loaders", [1, 2, 5])
@pytest.mark.parametrize("workers", [1, 3])
def test_loader_slots_and_workers(
    loaders: int, workers: int, corpus: Corpus, usual: tuple[str, str, bytes]
) -> None:
    config = config_of(corpus)
    for source in config["sources"].values():
        source.update(loaders=loaders, workers=workers)
    assert run(config) == usual


RUNTIMES: list[dict[str, Any]] = [
    {"payload_budget": 4096},  # less than one block: everything is read again and again
    {"payload_budget": 20_000, "threads": 4},
    {"constructor_budget": 4 * 64 * 16},  # exactly one step of one group
    {"runway": 1},
    {"runway": 16, "prefetch": 16},
    {"io_threads": 1, "open_files": 1},
    {"io_threads": 4, "threads": 1},
    {"private_copy_limit": 1},
]


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda runtime: "-".join(runtime))
def test_budgets_and_depths(
    runtime: dict[str, Any], corpus: Corpus, usual: tuple[str, str, bytes]
) -> None:
    assert run(config_of(corpus, runtime=runtime)) == usual


def test_repeated_runs(corpus: Corpus, usual: tuple[str, str, bytes]) -> None:
    job = ol.job(config_of(corpus), mesh="dp=2,cp=2")
    for _ in range(3):
        with job.train(ranks="all", hash=True) as loaders:
            for _ in loaders.rounds():
                pass
            assert (loaders.stream_hash(), loaders.content_hash()) == usual[:2]


def test_ranks_read_at_their_own_pace(corpus: Corpus, usual: tuple[str, str, bytes]) -> None:
    """A rank may be a few steps ahead of another; neither bytes nor hashes change."""
    config = config_of(corpus, runtime={"prefetch": 3, "runway": 6})
    with ol.job(config, mesh="dp=2,cp=2").train(ranks="all", hash=True) as loaders:
        ahead = loaders[3]
        for _ in range(2):
            next(ahead)
        rng = np.random.default_rng(1)
        while loaders:
            rank = int(rng.integers(4))
            done = [loader.state_dict()["step"] for loader in loaders.values()]
            if min(done) == STEPS:
                break
            if done[rank] - min(done) < 3:
                next(loaders[rank], None)
        assert loaders.stream_hash() == usual[0]


def test_hashing_changes_nothing(corpus: Corpus, usual: tuple[str, str, bytes]) -> None:
    digests = b""
    with ol.job(config_of(corpus), mesh="dp=2,cp=2").train(ranks="all") as loaders:
        for batches in loaders.rounds():
            digests += b"".join(content(batch) for batch in batches.values())
        assert loaders.content_hash() == usual[1]
    assert digests == usual[2]


def test_what_decides_the_stream_changes_the_hash(
    corpus: Corpus, usual: tuple[str, str, bytes]
) -> None:
    """The other side: a hash that never changes proves nothing."""
    changed = [
        config_of(corpus, seed=8),
        config_of(corpus, mixture={"weights": {"web": 2, "code": 1}}),
        config_of(corpus, packing={"slack": 0.3}),
        config_of(corpus, mixture={"weights": {"web": 1, "code": 1}, "quota": "multinomial"}),
    ]
    shuffled = config_of(corpus)
    shuffled["sources"]["web"]["shuffle"] = "full"
    hashes = [run(config)[:2] for config in [*changed, shuffled]]
    assert len({usual[:2], *hashes}) == len(hashes) + 1
    assert len({usual[1], *(item[1] for item in hashes)}) == len(hashes) + 1


def test_contents_on_every_mesh(corpus: Corpus) -> None:
    """What a step holds is the same on every mesh; where it goes is not."""
    config = config_of(corpus)
    hashes, held = [], []
    for mesh in MESHES:
        with ol.job(config, mesh=mesh).train(ranks="all", hash=True) as loaders:
            held.append(
                [
                    sorted(set(segments_of(itertools.chain.from_iterable(step.values()))))
                    for step in loaders.steps()
                ]
            )
            hashes.append((loaders.stream_hash(), loaders.content_hash()))
    assert all(steps == held[0] for steps in held)
    assert len({content_hash for _, content_hash in hashes}) == 1
    assert len({stream_hash for stream_hash, _ in hashes}) == len(MESHES)


def build_lengths(config: dict[str, Any]) -> None:
    """What `overlord index --lengths` does."""
    opened = ol.job(config).open_stream()
    indexing.build_indexes(read_config(config), opened.sources, lengths=True)


def test_lengths_in_the_index_change_no_content(corpus: Corpus, tmp_path: Path) -> None:
    """Law 4: where lengths come from is in no digest."""
    decoded, counted = config_of(corpus), config_of(corpus, index_dir=str(tmp_path / "index"))
    build_lengths(counted)
    origins = [ol.job(config).open_stream() for config in (decoded, counted)]
    web = origins[0].source_names.index("web")
    assert [opened.infos[web]["has_lengths"] for opened in origins] == [False, True]
    assert origins[0].native.manifest_digest == origins[1].native.manifest_digest
    assert run(decoded) == run(counted)


# N processes


ONE_RANK = """
import json, sys
import overlord as ol
config, mesh, rank = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with ol.job(config, mesh=mesh).train(rank=rank, hash=True, threads=1 + rank % 2) as loader:
    for batch in loader:
        pass
    engine = loader._shared.running()
    print(json.dumps([engine.rank_hash(rank), engine.plan_chain(), engine.content_hash()]))
"""


def test_n_processes_of_one_rank_are_one_of_n(
    corpus: Corpus, usual: tuple[str, str, bytes]
) -> None:
    config = config_of(corpus)
    arguments = [sys.executable, "-c", ONE_RANK, json.dumps(config), "dp=2,cp=2"]
    children = [
        subprocess.Popen([*arguments, str(rank)], stdout=subprocess.PIPE) for rank in range(4)
    ]
    answers = [json.loads(child.communicate()[0]) for child in children]
    rank_hashes, plan_chains, content_hashes = zip(*answers, strict=True)
    assert len(set(plan_chains)) == 1 and set(content_hashes) == {usual[1]}
    assert core.combine_stream_hash(plan_chains[0], list(rank_hashes)) == usual[0]


@pytest.mark.parametrize("mesh", ["pp=2,dp=2,cp=2", "dp=3,tp=2"])
def test_engines_of_one_rank_agree(mesh: str, corpus: Corpus) -> None:
    config = config_of(corpus, delivery={"fill_empty": True, "broadcast": ["tp"]})
    together = run(config, mesh)
    job = ol.job(config, mesh=mesh)
    hashes, chains = [], set()
    for rank in range(job.mesh.world_size):
        with job.train(rank=rank, hash=True) as loader:
            for _ in loader:
                pass
            hashes.append(loader.rank_hash())
            chains.add(loader._shared.running().plan_chain())
    assert len(chains) == 1
    assert core.combine_stream_hash(chains.pop(), hashes) == together[0]


def test_a_rank_reads_payload_only_for_itself(tmp_path: Path) -> None:
    """With lengths in the index one rank of eight touches about an eighth of the bytes."""
    corpus = Corpus(tmp_path)
    corpus.add_megatron("code", made_up_documents(2000, longest=60), eod=EOD)
    config = corpus.config(bins=64, context=128)
    config["sources"]["code"].update(shuffle="full")

    def read_bytes(ranks: Any) -> int:
        with ol.job(config, mesh="dp=8").train(ranks=ranks) as loaders:
            for _ in loaders.rounds():
                pass
            return sum(loader["read_bytes"] for loader in loaders.status()["loaders"])

    assert read_bytes([3]) < 0.3 * read_bytes("all")


# Resuming


def masked(folder: Path) -> dict[str, Any]:
    """Sources with masks and documents that are cut, so that everything is carried over."""
    rng = np.random.default_rng(2)
    documents = made_up_documents(120, seed=5, longest=200)
    rows = [{"t": d.tolist(), "m": rng.integers(0, 2, len(d)).tolist()} for d in documents]
    (folder / "chat.jsonl").write_bytes(json_lines(rows))
    (folder / "web.jsonl").write_bytes(
        json_lines({"t": d.tolist()} for d in made_up_documents(70, seed=6))
    )
    sources = {
        "chat": {"files": "chat.jsonl", "tokens": "t", "mask": "m", "window_rows": 16, "eod": EOD},
        "web": {"files": "web.jsonl", "tokens": "t", "window_rows": 8},
    }
    return job_config(folder, sources, at_end="repeat", steps=6, seed=3)


SHAPES: dict[str, dict[str, Any]] = {
    "best_fit": {"packing": {"slack": 0.4, "max_delay": 2}, "align": 4},
    "concat": {"packing": {"method": "concat"}},
    "pad": {"packing": {"method": "pad"}, "over_length": "truncate"},
    "substeps": {"substeps": 2, "packing": {"slack": 0.2}},
    "multinomial": {"mixture": {"weights": {"chat": 3, "web": 1}, "quota": "multinomial"}},
    "samples": {"mixture": {"weights": {"chat": 3, "web": 1}, "unit": "samples"}},
    "staged": {
        "mixture": {
            "stages": [
                {"steps": [0, 2], "weights": {"chat": 1, "web": 0}},
                {"steps": [2, None], "weights": {"chat": 0, "web": 1}},
            ]
        }
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_resume_anywhere_is_no_stop(shape: str, tmp_path: Path) -> None:
    """From every microbatch of the run, in another engine: the same bytes, the same hash."""
    job = ol.job({**masked(tmp_path), **SHAPES[shape]})
    states, digests = [], []
    with job.train(hash=True) as loader:
        states.append(loader.state_dict())
        for batch in loader:
            digests.append(content(batch))
            states.append(loader.state_dict())
        end = loader.content_hash()
    assert len(digests) == 24 and len({json.dumps(state) for state in states}) == 25
    for stop, state in enumerate(states):
        saved = json.loads(json.dumps(state))
        assert (saved["step"], saved["microbatch"]) == divmod(stop, 4)
        with job.train(prefetch=1 + stop % 3, threads=1 + stop % 2) as loader:
            loader.load_state_dict(saved)
            assert loader.state_dict() == saved
            assert [content(batch) for batch in loader] == digests[stop:]
            assert loader.content_hash() == end and loader.state_dict() == states[-1]


def test_a_source_of_a_later_stage_is_left_alone_until_then(tmp_path: Path) -> None:
    """Hundreds of open sources wait for their stage: none of them reads or keeps anything."""
    early, late = {"chat": 1, "web": 0}, {"chat": 0, "web": 1}
    stages = [{"steps": [0, 100], "weights": early}, {"steps": [100, None], "weights": late}]
    config = {**masked(tmp_path), "mixture": {"stages": stages}, "steps": 120}
    with ol.job(config).train() as loader:
        for batches in loader.steps():
            posted = {part["source"]: part["rows_posted"] for part in loader.status()["loaders"]}
            if batches[0].step < 60:
                assert posted["chat"] > 0 and posted["web"] == 0
        assert posted["web"] > 0 and batches[0].step == 119


def test_resume_on_another_mesh(corpus: Corpus, usual: tuple[str, str, bytes]) -> None:
    """At every step boundary another mesh goes on with the same documents; hashes chain on."""
    config = config_of(corpus)
    state, held = None, []
    for step, mesh in enumerate(itertools.islice(itertools.cycle(MESHES), STEPS)):
        with ol.job(config, mesh=mesh).train(ranks="all") as loaders:
            if state is not None:
                loaders.load_state_dict(state)
            batches = next(loaders.steps())
            states = {json.dumps(loader.state_dict()) for loader in loaders.values()}
            assert len(states) == 1 and all(b.step == step for r in batches.values() for b in r)
            state = json.loads(states.pop())
            held.append(sorted(set(segments_of(itertools.chain.from_iterable(batches.values())))))
            content_hash = loaders.content_hash()
    assert content_hash == usual[1]
    with ol.job(config).train() as loader:
        assert [segments_of(step) for step in loader.steps()] == held


def test_states_are_the_same_on_every_rank(corpus: Corpus) -> None:
    """Also on ranks that fetch nothing, and whatever the rank's process hosts."""
    config = config_of(corpus, delivery={"broadcast": ["tp"]})
    mesh = "pp=2,dp=2,tp=2"
    with ol.job(config, mesh=mesh).train(ranks="all") as loaders:
        by_step: list[set[str]] = []
        for _ in loaders.steps():
            by_step.append({json.dumps(loader.state_dict()) for loader in loaders.values()})
    assert [len(states) for states in by_step] == [1] * STEPS
    for rank in (0, 5):
        with ol.job(config, mesh=mesh).train(rank=rank) as loader:
            for step, _ in enumerate(loader.steps()):
                assert json.dumps(loader.state_dict()) in by_step[step]


def test_states_know_no_mesh(corpus: Corpus) -> None:
    """Only the chain of plan hashes tells the mesh that a state comes from."""
    described = []
    for mesh in MESHES:
        with ol.job(config_of(corpus), mesh=mesh).train(rank=0) as loader:
            steps = [loader._connected().state() for _ in loader.steps()]
        described.append([core.describe_state(blob) for blob in steps])
        assert len({state.pop("plan_chain") for state in described[-1]}) == STEPS
    assert all(states == described[0] for states in described)


def plain(value: Any) -> bool:
    """Whether a value is data that JSON has."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(plain(item) for item in value)
    return value is None or isinstance(value, str | int | float | bool)


@pytest.mark.parametrize("with_masks", [False, True])
def test_the_state_of_306_sources_is_small(with_masks: bool, tmp_path: Path) -> None:
    """Real sizes: a carry-over of many documents, with loss spans where there are masks."""
    rng = np.random.default_rng(0)
    sources: dict[str, dict[str, Any]] = {}
    for number in range(306):
        name = f"source-with-a-long-name-{number:03d}"
        rows = []
        for document in made_up_documents(4, seed=number, longest=1500):
            mask = np.repeat(rng.integers(0, 2, len(document) // 20 + 1), 20)[: len(document)]
            rows.append({"t": document.tolist(), "m": mask.tolist()})
        (tmp_path / f"{number}.jsonl").write_bytes(json_lines(rows))
        sources[name] = {"files": f"{number}.jsonl", "tokens": "t", "eod": EOD}
        if with_masks:
            sources[name]["mask"] = "m"
    config = job_config(tmp_path, sources, at_end="repeat", context=1024, bins=32)
    with ol.job(config).train() as loader:
        for _, _ in zip(loader.steps(), range(6), strict=False):
            state = loader.state_dict()
            assert plain(state) and len(json.dumps(state)) < 64 * 1024
    assert len(state["sources"]) == 306
    with ol.job(config, mesh="dp=4").train(rank=2) as loader:
        loader.load_state_dict(json.loads(json.dumps(state)))
        assert next(loader).step == 6


@pytest.mark.parametrize("attempt", range(5))
def test_ranks_in_threads_of_their_own(
    attempt: int, corpus: Corpus, usual: tuple[str, str, bytes]
) -> None:
    """Each rank is read by its own thread, as trainers of one process do; all start at once."""
    counts: dict[int, int] = {}
    together = threading.Barrier(4)
    with ol.job(config_of(corpus), mesh="dp=2,cp=2").train(ranks="all", hash=True) as loaders:

        def read(rank: int) -> None:
            together.wait()
            counts[rank] = sum(1 for _ in loaders[rank])

        readers = [threading.Thread(target=read, args=(rank,), daemon=True) for rank in loaders]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert counts == dict.fromkeys(range(4), STEPS * 4)
        assert (loaders.stream_hash(), loaders.content_hash()) == usual[:2]


# Declared changes


def positions_by_source(batches: Iterable[ol.Microbatch]) -> dict[int, set[tuple[int, int]]]:
    """(pass, position) of every document, by number of its source."""
    found: dict[int, set[tuple[int, int]]] = {}
    for source, number_of_pass, position, _, _ in segments_of(batches):
        found.setdefault(source, set()).add((number_of_pass, position))
    return found


def is_gapless(positions: set[tuple[int, int]], rows: int) -> bool:
    """Whether documents were taken in order, pass after pass, none left out."""
    taken = sorted(number_of_pass * rows + position for number_of_pass, position in positions)
    return taken == list(range(len(taken)))


def test_a_changed_mixture_loses_and_repeats_nothing(corpus: Corpus) -> None:
    """Sources go on where they were; what was drawn before the change still comes."""
    before = {**config_of(corpus, packing={"slack": 0.3}), "at_end": "drop", "steps": None}
    after = {**before, "mixture": {"weights": {"web": 1, "code": 9}}}
    with ol.job(before).train() as loader:
        batches = [next(loader) for _ in range(3 * 8)]
        state = loader.state_dict()
    with ol.job(after, mesh="dp=2").train(ranks="all") as loaders:
        with pytest.raises(ol.StateMismatchError, match="mixture"):
            loaders.load_state_dict(state)
        loaders.load_state_dict(state, allow=("mixture",))
        rest = [batch for round_ in loaders.rounds() for batch in round_.values()]
    assert min(batch.step for batch in rest) == 3
    early, late = segments_of(batches), segments_of(rest)
    assert not set(early) & set(late)
    found = positions_by_source([*batches, *rest])
    assert {source: len(taken) for source, taken in found.items()} == {0: 80, 1: 160}
    assert is_gapless(found[0], 80) and is_gapless(found[1], 160)


def test_a_mixture_that_gains_and_loses_sources(corpus: Corpus, tmp_path: Path) -> None:
    """What stays goes on, what comes begins at its start, what goes is gone."""
    before = {**config_of(corpus), "at_end": "drop", "steps": None}
    (tmp_path / "new.jsonl").write_bytes(token_lines(made_up_documents(50, seed=9)))
    new = {"files": [str(tmp_path / "new.jsonl")], "tokens": "tokens"}
    after = {**before, "sources": {**before["sources"], "new": new}}
    after["mixture"] = {"weights": {"web": 1, "new": 1}}
    with ol.job(before).train() as loader:
        early = positions_by_source(next(loader) for _ in range(3 * 8))
        state = loader.state_dict()
    with ol.job(after).train() as loader:
        with pytest.raises(
            ol.StateMismatchError, match=r"source code: lost(.|\n)*source new: gained"
        ):
            loader.load_state_dict(state, allow=("mixture",))
        loader.load_state_dict(state, allow=("sources",))
        late = positions_by_source(loader)
    assert ol.job(after).open_stream().source_names == ["new", "web"]
    assert is_gapless(late[0], 50) and len(late[0]) == 50
    assert not early[1] & late[1] and is_gapless(early[1] | late[1], 160)
    assert len(early[1] | late[1]) == 160
