"""Every feature on every engine gives what one process of the embedded engine gives: bytes, states,
totals and bad rows, by the jobs of many_features.py. The table is docs/engines.md."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from many_features import JOBS, TRIED, Features, on_host, written
from read_acts import Act, read_here
from trainers import TESTS, Trainer, ended_at_last

pytestmark = pytest.mark.deadline(240)
HOSTS = {"alone": 1, "processes": 1, "hosts": 2, "ray": 2}
Told = dict[str, Any]


class Acting(Trainer):
    """A rank that reads the acts of a job, each when it is told to."""

    program = f"import sys; sys.path.insert(0, {TESTS!r}); import read_acts; read_acts.main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, and all configs."""
    return written(tmp_path_factory.mktemp("every"))


@pytest.fixture(scope="module")
def expected(folder: Path) -> Callable[[str], tuple[Features, list[Told]]]:
    """A job, and what one process that hosts all ranks tells of its acts."""
    known: dict[str, tuple[Features, list[Told]]] = {}

    def of(name: str) -> tuple[Features, list[Told]]:
        if name not in known:
            features = JOBS[name](folder)
            acts = list(on_host(features, folder, 9, {}))
            known[name] = features, list(read_here(acts, features.message))
        return known[name]

    return of


def runtime_of(engine: str, host: int, sockets: Path, port: int) -> dict[str, Any]:
    """What lets the ranks of an engine find each other."""
    place = sockets / f"host-{host}"
    place.mkdir(mode=0o700, exist_ok=True)
    runtime: dict[str, Any] = {"processes": {"directory": str(place), "attach_seconds": 100}}
    if engine in ("hosts", "ray"):
        runtime["wire"] = {"planner": f"127.0.0.1:{port}", "host": "127.0.0.1"}
    return runtime


def acts_on(
    engine: str, features: Features, folder: Path, sockets: Path, port: int
) -> list[list[Act]]:
    """The acts of a job, as each host reads them."""
    runtimes = [runtime_of(engine, host, sockets, port) for host in range(HOSTS[engine])]
    return [list(on_host(features, folder, *own)) for own in enumerate(runtimes)]


@contextlib.contextmanager
def ranks_of(features: Features, engine: str, acts: Sequence[list[Act]]) -> Iterator[list[Trainer]]:
    """One process for each rank that reads, on as many hosts as there are acts."""
    world = math.prod(features.mesh.values())
    per_host = world // len(acts)
    engines = {"alone": "embedded", "hosts": "auto"}
    started: list[Trainer] = []
    for rank in features.readers or range(world):
        told = {**features.message, "engine": engines.get(engine, engine)}
        told["acts"] = acts[rank // per_host]
        if engine != "processes" and {"rule", "sizes"} & told.keys():
            told["rebuilds"] = "tp=2"  # where it is refused
        started.append(Acting(told, rank, world, f"every {engine}", 0, per_host))
    with ended_at_last(started):
        yield started


def told_by(started: Sequence[Trainer], readings: int) -> list[Told]:
    """One act: they begin each reading together, and what all of them have to say of it."""
    for _ in range(readings):
        waits = [trainer.until("waits")["waits"] for trainer in started]
        for trainer in started:
            trainer.go()
        if not all(waits):
            break
    words = [trainer.until("told") for trainer in started]
    assert not [word["error"] for word in words if "error" in word]
    return words


def check_act(words: Sequence[Told], whole: Told) -> None:
    """All ranks together are the one process: nothing is left out, and each says the same."""
    hashes: dict[str, Any] = {}
    bad: list[Any] = []
    for word in words:
        hashes |= word["hash"]
        for said in word.get("rebuilds", []):
            assert "restart from a state" in said
        bad += [one for one in word["bad"] if one not in bad]
        for key in ("content", "state"):
            assert word[key] == whole[key], key
    assert hashes == whole["hash"]
    assert sorted(bad) == whole["bad"], "each is known to whom it concerns"


@pytest.mark.parametrize(("name", "engine"), TRIED)
def test_as_in_one_process(
    name: str, engine: str, expected: Any, folder: Path, sockets: Path, free_port: int
) -> None:
    features, whole = expected(name)
    acts = acts_on(engine, features, folder, sockets, free_port)
    with ranks_of(features, engine, acts) as started:
        for act, told in zip(features.acts, whole, strict=True):
            check_act(told_by(started, act.get("readings", 1)), told)
