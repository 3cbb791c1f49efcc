"""Random jobs over random corpora: whatever is configured, the promises hold.

`make soak` runs thousands of seeds; a seed that fails here fails again.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import (
    BOS,
    EOD,
    Corpus,
    Tokens,
    cut,
    gzip_members,
    made_up_documents,
    token_lines,
    with_specials,
    zstd_frames,
)
from delivered import Piece, check_piece, content, pieces_of, segments_of

import overlord as ol

SEEDS = 25
SOAK_SEEDS = int(os.environ.get("OVERLORD_WORLDS", "1500"))
FORMATS = ["jsonl", "jsonl.gz", "jsonl.zst", "bin", "parquet"]
MESHES = [
    "dp=1",
    "dp=2",
    "cp=2",
    "dp=2,cp=2",
    "pp=2,dp=2",
    "dp=4,tp=2",
    "dp_replicate=2,dp_shard=2",
]


class World:
    """One random job with everything that must come out of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.corpus = Corpus(folder)
        for name in ("a", "b", "c")[: self.rng.integers(1, 4)]:
            self.add_source(name)
        self.config = self.random_config(seed)

    def choose(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def add_source(self, name: str) -> None:
        rows = int(self.choose(1, 3, 20, 90))
        documents = made_up_documents(
            rows, int(self.rng.integers(1000)), int(self.choose(5, 40, 300))
        )
        source: dict[str, Any] = {
            "shuffle": self.choose("none", "window", "full"),
            "window_rows": int(self.choose(1, 7, 16, 2048)),
            "window_bytes": int(self.choose(1, 500, 1 << 22)),
            "loaders": int(self.choose(1, 2, 3)),
            "workers": int(self.choose(1, 2)),
        }
        source |= self.choose({}, {"eod": EOD}, {"bos": BOS}, {"bos": BOS, "eod": EOD})
        kind = self.choose(*FORMATS)
        if kind == "bin":
            self.corpus.add_megatron(
                name, documents, int(self.choose(1, 2)) if rows > 1 else 1, **source
            )
            return
        self.write(name, kind, documents)
        self.corpus.sources[name] = {"files": f"{name}.{kind}", "tokens": "tokens", **source}
        self.corpus.documents[name] = documents

    def write(self, name: str, kind: str, documents: list[Tokens]) -> None:
        path = self.corpus.folder / f"{name}.{kind}"
        lines = token_lines(documents)
        if kind == "parquet":
            lists = pa.array([d.tolist() for d in documents], pa.list_(pa.int32()))
            table = pa.table({"tokens": lists})
            pq.write_table(table, path, row_group_size=int(self.choose(1, 10, 50)))
        elif kind == "jsonl.gz":
            path.write_bytes(gzip_members(cut(lines, int(self.choose(1, 3)))))
        elif kind == "jsonl.zst":
            path.write_bytes(zstd_frames(cut(lines, int(self.choose(1, 3)))))
        else:
            path.write_bytes(lines)

    def random_config(self, seed: int) -> dict[str, Any]:
        method = self.choose("best_fit", "best_fit", "concat", "pad")
        packing = {
            "method": method,
            "slack": float(self.choose(0.0, 0.05, 0.3)),
            "max_delay": int(self.choose(1, 2, 5)),
        }
        weights = {name: float(self.rng.uniform(0.1, 1)) for name in self.corpus.sources}
        mixture = {
            "weights": weights,
            "unit": self.choose("tokens", "samples"),
            "quota": self.choose("exact", "exact", "multinomial"),
        }
        bins = int(self.choose(4, 8, 12))
        return self.corpus.config(
            seed=seed,
            context=int(self.choose(32, 64, 128)),
            bins=bins,
            substeps=int(self.choose(1, 1, 2)),
            align=int(self.choose(1, 1, 4, 8)),
            packing=packing,
            mixture=mixture,
            at_end="drop",
            delivery={"fill_empty": True, "microbatch_size": int(self.choose(1, 2))},
        )

    def random_runtime(self) -> dict[str, Any]:
        return {
            "threads": int(self.choose(1, 2, 4)),
            "prefetch": int(self.choose(1, 2, 5)),
            "runway": int(self.choose(1, 4, 9)),
            "payload_budget": int(self.choose(1, 4096, 1 << 28)),
        }


def read(config: dict[str, Any], mesh: str, state: Any = None) -> tuple[list[Any], list[Any], str]:
    """What each step holds, a digest of each round, and the stream's hash."""
    held, digests = [], []
    with ol.job(config, mesh=mesh).train(ranks="all", hash=True) as loaders:
        if state is not None:
            loaders.load_state_dict(state)
        for step in loaders.steps():
            batches = list(itertools.chain.from_iterable(step.values()))
            held.append(sorted(set(segments_of(batches))))
            digests += [content(batch) for batch in batches]
        return held, digests, loaders.stream_hash()


def check_documents(world: World) -> int:
    """Every document of every source once, whole, with the right targets; gives the steps."""
    job = ol.job(world.config)
    opened = job.open_stream()
    parts: dict[tuple[int, int, int], list[Piece]] = {}
    steps = 0
    with job.train() as loader:
        for batch in loader:
            steps = batch.step + 1
            for piece in pieces_of(batch):
                check_piece(piece)
                parts.setdefault(piece.id, []).append(piece)
    expected = {}
    for number, name in enumerate(opened.source_names):
        for position in range(len(world.corpus.documents[name])):
            row = opened.native.locate(number, 0, position)["row"]
            raw = world.corpus.documents[name][row]
            expected[number, 0, position] = with_specials(raw, world.corpus.sources[name]).tolist()
    delivered = {}
    for sample, pieces in parts.items():
        pieces.sort(key=lambda piece: piece.first)
        delivered[sample] = [token for piece in pieces for token in piece.tokens.tolist()]
    assert delivered == expected
    return steps


def check_world(folder: Path, seed: int) -> None:
    world = World(folder, seed)
    steps = check_documents(world)
    mesh = world.choose(*MESHES)
    held, digests, stream_hash = read(world.config, mesh)
    assert len(held) == steps
    other = {**world.config, "runtime": world.random_runtime()}
    assert read(other, mesh) == (held, digests, stream_hash)
    stop = int(world.rng.integers(0, steps + 1))
    with ol.job(world.config, mesh=world.choose(*MESHES)).train(ranks="all") as loaders:
        for _ in itertools.islice(loaders.steps(), stop):
            pass
        state = loaders.state_dict()
    resumed, tail, _ = read(world.config, mesh, state)
    assert resumed == held[stop:] and tail == digests[len(digests) - len(tail) :]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_world(seed: int, tmp_path: Path) -> None:
    check_world(tmp_path, seed)


@pytest.mark.soak
def test_many_random_worlds(tmp_path: Path) -> None:
    for seed in range(SEEDS, SEEDS + SOAK_SEEDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            check_world(folder, seed)
        except BaseException as error:
            raise AssertionError(f"world {seed}") from error
