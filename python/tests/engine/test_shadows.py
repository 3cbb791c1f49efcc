"""Shadows: a loader process dies, and its slots go on in another that has followed the plans."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from overlord._src.corpus import STARTER, ensure_corpus
from overlord._src.corpus.config_text import starter_config
from overlord._src.index.source_profile import STAGES, SourceProfile, StageProfile
from overlord._src.node.shadow_rule import costliest
from test_node_comes_back import kill_node, status_of
from trainers import in_time, until_nothing_left

import overlord as ol

pytestmark = pytest.mark.deadline(240)
STEPS_A_KILL = 12  # more than are planned ahead: some are read by whoever took over
SLOTS = 3


def shadowed(config: dict[str, Any], **more: Any) -> dict[str, Any]:
    sources = {name: {**one, "shadows": 1, **more} for name, one in config["sources"].items()}
    return {**config, "sources": sources}


def expected_hash(config: dict[str, Any]) -> str:
    """Of the same job without shadows, in one process."""
    loader = ol.job(config, mesh="dp=1").train(engine="embedded", hash=True)
    for _ in loader:
        pass
    return str(loader.rank_hash())


def told(sockets: Path) -> dict[str, Any]:
    """The node's status, once it is served and every slot has a living shadow."""
    found: list[dict[str, Any]] = []

    def protected() -> bool:
        status = status_of(sockets)
        if status is None or status["unprotected"] or status["shadowed"] != SLOTS:
            return False
        found.append(status)
        return True

    in_time(protected, "every slot has a living shadow")
    return found[-1]


def active(status: dict[str, Any]) -> dict[str, Any]:
    """The loader process with the most slots that are active."""
    loaders = [item for item in status["processes"] if item["name"].startswith("loaders")]
    return max(loaders, key=lambda item: int(item["roles"]))


def take(batches: Iterator[Any], steps: int) -> None:
    for _ in range(steps):
        next(batches)


@pytest.mark.parametrize("placing", [{}, {"loaders": 2}], ids=["one", "crossed"])
@pytest.mark.parametrize("kind", ["warm", "lean"])
def test_slots_go_on_where_they_stand_by(
    config: dict[str, Any], sockets: Path, kind: str, placing: dict[str, int]
) -> None:
    config["steps"] = 11 * STEPS_A_KILL
    config["runtime"]["processes"] |= placing
    loader = ol.job(shadowed(config, shadow=kind), mesh="dp=1").train(hash=True)
    steps = iter(loader.steps())
    take(steps, STEPS_A_KILL)
    promotions = 0
    for killed in range(10):
        before = told(sockets)
        assert before["promotions"] == promotions
        victim = active(before)
        promotions += int(victim["roles"])
        os.kill(victim["pid"], signal.SIGKILL)
        take(steps, STEPS_A_KILL)
        after = told(sockets)
        # Nobody has waited for a process to start: no slot went on in the one that was killed.
        assert after["promotions"] == promotions
        assert after["restarts"] == killed + 1
        assert active(after)["name"] != victim["name"]
    assert next(steps, None) is None
    assert loader.rank_hash() == expected_hash(config)
    loader.close()
    until_nothing_left(sockets)


def test_a_warm_shadow_holds_what_plans_name(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 1000
    loader = ol.job(shadowed(config), mesh="dp=1").train()
    steps = iter(loader.steps())
    take(steps, STEPS_A_KILL)
    in_time(
        lambda: (status_of(sockets) or {"shadow_bytes": 0})["shadow_bytes"] > 0, "it holds some"
    )
    loader.close()
    until_nothing_left(sockets)


def test_a_node_that_comes_back_finds_slots_that_have_moved(
    config: dict[str, Any], sockets: Path
) -> None:
    config["steps"] = 5 * STEPS_A_KILL
    loader = ol.job(shadowed(config), mesh="dp=1").train(hash=True)
    steps = iter(loader.steps())
    take(steps, STEPS_A_KILL)
    os.kill(active(told(sockets))["pid"], signal.SIGKILL)
    take(steps, STEPS_A_KILL)
    told(sockets)
    kill_node(sockets)
    take(steps, STEPS_A_KILL)
    os.kill(active(told(sockets))["pid"], signal.SIGKILL)
    take(steps, 2 * STEPS_A_KILL)
    assert next(steps, None) is None
    assert loader.rank_hash() == expected_hash(config)
    loader.close()
    until_nothing_left(sockets)


def children_of(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def with_text(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same job with a source whose rows other processes tokenise."""
    web, *others = STARTER.sources
    web = replace(web, documents=4000, row_group=16)
    ensure_corpus(folder / "data", replace(STARTER, sources=(web, *others)))
    starter = yaml.safe_load(starter_config())
    text = starter["sources"]["web"] | {"window_rows": 16}
    text["files"] = str(folder / text["files"])
    config["tokenizers"] = {"bpe": {"path": str(folder / starter["tokenizers"]["bpe"]["path"])}}
    config["sources"]["text"] = text
    config["mixture"]["weights"]["text"] = 0.3
    return config | {"vocabulary": starter["vocabulary"]}


def test_slots_that_come_no_further_go_on_elsewhere(
    config: dict[str, Any], sockets: Path, tmp_path: Path
) -> None:
    """Tokenizers stand still, and the process that waits for them says that it lives."""
    config = with_text(config, tmp_path)
    config["steps"] = 200
    told_config = shadowed(config)
    loader = ol.job(told_config, mesh="dp=1").train(hash=True)
    steps = iter(loader.steps())
    take(steps, 2)
    in_time(lambda: (status_of(sockets) or {"shadowed": 0})["shadowed"] == SLOTS + 1, "shadows")
    status = status_of(sockets)
    assert status is not None
    [home] = [one for one in status["processes"] if "loaders" in one["name"] and one["roles"]]
    stopped = children_of(home["pid"])
    assert stopped, "somebody tokenises"
    for child in stopped:
        os.kill(child, signal.SIGSTOP)
    take(steps, 198)
    assert next(steps, None) is None
    after = status_of(sockets)
    assert after is not None and after["promotions"] == SLOTS + 1
    assert loader.rank_hash() == expected_hash(config)
    loader.close()
    until_nothing_left(sockets)


def test_the_costliest_have_shadows_by_rule(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 40
    config["runtime"]["processes"]["shadow_costliest"] = 1
    job = ol.job(config, mesh="dp=1")
    with pytest.warns(UserWarning, match="shadow_costliest: no source has a profile"):
        first = job.train(engine="processes")
        for _ in first:
            pass
    first.close()
    until_nothing_left(sockets)
    loader = job.train(engine="processes")
    take(iter(loader), 1)
    in_time(lambda: (status_of(sockets) or {"shadowed": 0})["shadowed"] == 1, "one has a shadow")
    loader.close()
    until_nothing_left(sockets)


def profile(elapsed_ns: int, **stages: int) -> SourceProfile:
    measured = {name: StageProfile(stages.get(name, 0), 0, 0, 0) for name in STAGES}
    return SourceProfile("", "", elapsed_ns, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, measured)


def test_those_are_costliest_whose_loaders_worked_most() -> None:
    profiles = {
        "long": profile(1000, decode=50),
        "busy": profile(100, read=5, tokenise=20),
        "idle": profile(100),
        "sent": profile(100, send=100, unpack=100),  # that is not done again by a loader
    }
    assert costliest(profiles, 2) == ["busy", "long"]
    assert costliest(profiles, 9) == ["busy", "long", "idle", "sent"]


def test_one_process_has_nobody_to_take_over(config: dict[str, Any]) -> None:
    with pytest.raises(ol.ConfigError, match=r"sources\.books\.shadows.*one here"):
        ol.job(shadowed(config), mesh="dp=1").train(engine="embedded")


@pytest.mark.parametrize("count", [-1, 4])
def test_there_are_at_most_three(config: dict[str, Any], count: int) -> None:
    config["sources"]["books"]["shadows"] = count
    with pytest.raises(ol.ConfigError, match="shadows"):
        ol.job(config, mesh="dp=1")
