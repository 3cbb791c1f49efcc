"""The engine with processes: the same stream for every rank, whoever dies, and nothing left."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from trainers import (
    Trainer,
    embedded_hashes,
    go_on,
    hashes_of,
    in_time,
    kill_all,
    processes_of,
    trainers,
    until_nothing_left,
    until_paused,
)

import overlord as ol


@pytest.mark.parametrize(
    ("mesh", "placing"),
    [
        ({"dp": 1}, {}),
        ({"dp": 2}, {"loaders": 3}),
        ({"dp": 4}, {"loaders": 2, "constructors": 0}),
        ({"pp": 2, "dp": 2, "cp": 2, "tp": 2}, {"constructors": 2, "isolate": ["web"]}),
    ],
    ids=["one", "two", "together", "sixteen"],
)
def test_the_stream_is_the_embedded_one(
    config: dict[str, Any], sockets: Path, mesh: dict[str, int], placing: dict[str, Any]
) -> None:
    config["align"] = 4
    config["runtime"]["processes"] |= placing
    with trainers(config, mesh, engine="processes") as started:
        assert hashes_of(started) == embedded_hashes(config, mesh)
        for trainer in started:
            trainer.until("end")
    until_nothing_left(sockets, "the node and its directory are gone")


def test_auto_attaches_where_ranks_share_a_host(config: dict[str, Any], sockets: Path) -> None:
    with trainers(config, {"dp": 2}, pause_after=2) as started:
        until_paused(started)
        names = sorted(processes_of(sockets).values())
        assert [name for name in names if name.startswith("overlord: ")] == [
            "overlord: constructors-0 of processes",
            "overlord: loaders-0 of processes",
        ]


def test_ranks_of_a_group_share_physical_pages(config: dict[str, Any]) -> None:
    def segments(trainer: Trainer) -> set[str]:
        maps = Path(f"/proc/{trainer.process.pid}/maps").read_text().splitlines()
        return {line.split()[4] for line in maps if "memfd:overlord-constructors" in line}

    with trainers(config, {"tp": 2}, pause_after=2) as started:
        until_paused(started)
        assert segments(started[0])
        assert segments(started[0]) == segments(started[1])
        maps = Path(f"/proc/{started[0].process.pid}/maps").read_text().splitlines()
        modes = {line.split()[1] for line in maps if "memfd:overlord" in line}
        assert modes == {"r--s", "rw-p"}, "what is written there is seen by nobody else"


@pytest.mark.parametrize("engines", [("embedded", "processes"), ("processes", "embedded")])
def test_a_state_goes_from_engine_to_engine(
    config: dict[str, Any], engines: tuple[str, str]
) -> None:
    first, second = engines
    with trainers(config, {"dp": 2}, engine=first, stop_after=5) as started:
        saved = [trainer.until("state") for trainer in started]
    assert saved[0]["state"] == saved[1]["state"]
    with trainers(config, {"dp": 4}, engine=second, state=saved[0]["state"]) as started:
        ended = [trainer.until("state") for trainer in started]
    whole = ol.job(config, mesh="dp=1").train(engine="embedded")
    for _ in whole:
        pass
    assert {word["content"] for word in ended} == {whole.content_hash()}
    assert all(word["state"] == ended[0]["state"] for word in ended)


@pytest.mark.parametrize(
    ("victim", "placing"),
    [
        ("loaders", {}),
        ("constructors", {}),
        ("loaders-0", {"loaders": 2, "constructors": 0}),
        ("loaders", {"loaders": 2, "constructors": 0}),
    ],
    ids=["loaders", "constructors", "one-of-both", "all-of-both"],
)
def test_a_dead_role_process_is_replaced(
    config: dict[str, Any], sockets: Path, victim: str, placing: dict[str, int]
) -> None:
    config["steps"] = 400
    config["runtime"]["processes"] |= placing
    dice = random.Random(victim)
    with trainers(config, {"dp": 2}, pause_after=160) as started:
        for killed in range(1, 6):
            started[0].until("step")
            for _ in range(dice.randrange(30)):
                started[0].until("step")
            in_time(lambda: kill_all(sockets, victim), f"there is one to kill the {killed}th time")
        go_on(started)
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})
        for trainer in started:
            trainer.until("end")
    until_nothing_left(sockets, "nothing is left")


def test_a_hung_role_process_is_replaced(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 60
    with trainers(config, {"dp": 2}, pause_after=20) as started:
        started[0].until("step")
        [pid] = [pid for pid, name in processes_of(sockets).items() if "loaders" in name]
        os.kill(pid, signal.SIGSTOP)
        go_on(started)
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})


def test_a_dead_rank_is_named_and_all_end(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 100_000
    config["runtime"]["alarm_seconds"] = 1.0
    with trainers(config, {"dp": 2}) as started:
        for trainer in started:
            trainer.until("step")
        started[1].kill()
        [folder] = sockets.iterdir()

        def named() -> bool:
            return "rank 1 is gone" in ol._src.native.core.ask_node(str(folder))["waits"]

        in_time(named, "the status names the rank")
        started[0].kill()
        until_nothing_left(sockets, "the node ends with its last trainer")


def test_a_new_attempt_fences_the_old(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 40
    with trainers(config, {"dp": 2}, pause_after=5) as old:
        until_paused(old)
        with trainers(config, {"dp": 2}, restarts=1) as new:
            hashes = hashes_of(new)
            for trainer in old:
                trainer.go()
                word = trainer.until("end")
                assert (word["end"], word["error"]) == ("bad", "CancelledError")
                assert "attempt" in word["text"]
            for trainer in new:
                assert trainer.until("end")["end"] == "good"
        assert hashes == embedded_hashes(config, {"dp": 2})
    until_nothing_left(sockets, "nothing is left")


def test_a_slow_rank_delays_nobody_for_the_runway(config: dict[str, Any]) -> None:
    config["steps"] = 200
    config["runtime"] |= {"prefetch": 2, "runway": 6}
    with trainers(config, {"dp": 2}, pause_after=1) as started:
        until_paused(started)
        started[0].go()
        steps = [started[0].until("step")["step"] for _ in range(6)]
        assert steps[-1] == 6
        started[1].go()
        assert hashes_of(started) == embedded_hashes(config, {"dp": 2})


def test_a_node_of_its_own_serves_attempt_after_attempt(
    config: dict[str, Any], tmp_path: Path, sockets: Path
) -> None:
    config_file = tmp_path / "mix.yaml"
    config_file.write_text(json.dumps(config))
    node = sockets / "node"
    command = [sys.executable, "-m", "overlord", "serve", str(config_file), "--hash"]
    served = subprocess.Popen(
        [*command, "--mesh", "dp=2", "--directory", str(node)], start_new_session=True
    )
    try:
        expected = embedded_hashes(config, {"dp": 2})
        for attempt in range(2):
            told = {"node": str(node), "run": f"run {attempt}"}
            with trainers(str(config_file), {"dp": 2}, **told) as started:
                assert hashes_of(started) == expected
                for trainer in started:
                    trainer.until("end")
        assert served.poll() is None
    finally:
        served.send_signal(signal.SIGINT)
        assert served.wait() == 130
    until_nothing_left(sockets, "nothing is left")


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_writable_batches_have_pages_of_their_own(config: dict[str, Any], engine: str) -> None:
    job = ol.job(config)
    with job.train(engine=engine) as shared, job.train(engine="embedded", writable=True) as own:
        theirs, ours = next(shared), next(own)
        assert theirs.tokens is not None and ours.tokens is not None
        with pytest.raises(ValueError, match="read-only"):
            theirs.tokens[0, 0] = 1
        ours.tokens[0, 0] += 1
        assert ours.arrays()["tokens"][0, 0] == theirs.tokens[0, 0] + 1


def test_a_rank_that_holds_too_much_gets_copies_then_an_error(config: dict[str, Any]) -> None:
    config["runtime"] |= {"constructor_budget": "256KiB", "private_copy_limit": "256KiB"}
    config["steps"] = 100
    with ol.job(config).train(engine="processes") as loader:
        held = []
        with pytest.raises(ol.ResourceError, match="private_copy_limit"):
            for batch in loader:
                held.append(batch.tokens)
        count = len(held)
        assert count * held[0].nbytes > 64 * 1024
        held.clear()
        assert next(loader) is not None, "what was let go of can be used again"


def test_a_forked_child_gets_an_error(config: dict[str, Any]) -> None:
    with ol.job(config).train(engine="processes") as loader:
        next(loader)
        child = os.fork()
        if child == 0:
            try:
                next(loader)
            except ol.CancelledError as error:
                os._exit(7 if "fork" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert next(loader) is not None


def test_groups_that_read_for_themselves_see_the_same_stream(
    config: dict[str, Any], sockets: Path
) -> None:
    mesh = {"dp": 2, "tp": 2}
    expected = embedded_hashes(config, mesh)
    config["runtime"]["ablation"] = {"disaggregation": False, "uniform_loaders": 3}
    with trainers(config, mesh, pause_after=2) as started:
        until_paused(started)
        assert len(list(sockets.iterdir())) == 2, "a node for each data-parallel group"
        every = {(source, slot) for source in config["sources"] for slot in range(3)}

        def open_in(folder: Path) -> set[tuple[str, int]]:
            told = ol._src.native.core.ask_node(str(folder))
            return {(loader["source"], loader["slot"]) for loader in told["loaders"]}

        for folder in sockets.iterdir():
            in_time(lambda at=folder: open_in(at) == every, "each has all loaders")
        for trainer in started:
            trainer.go()
        assert hashes_of(started) == expected
        for trainer in started:
            trainer.until("end")
    until_nothing_left(sockets, "nothing is left")


def test_groups_that_read_for_themselves_have_no_node_in_common(config: dict[str, Any]) -> None:
    config["runtime"]["ablation"] = {"disaggregation": False}
    job = ol.job(config, mesh="dp=2")
    with pytest.raises(ol.ConfigError, match="a node of its own"):
        job.train(ranks="all", engine="processes")
    with pytest.raises(ol.ConfigError, match="a node of its own"):
        job.train(0, node="somewhere")


def assembled(sockets: Path) -> tuple[int, int]:
    """Steps and bytes that the constructors of a node have assembled, as they have told."""
    [folder] = sockets.iterdir()
    told = ol._src.native.core.ask_node(str(folder))["constructors"]
    return sum(one["steps_ready"] for one in told), sum(one["bytes_assembled"] for one in told)


@pytest.mark.parametrize("mesh", [{"dp": 2, "tp": 2}, {"pp": 2, "cp": 2}], ids=["dp-tp", "pp-cp"])
def test_ranks_that_fetch_for_themselves_see_the_same_stream(
    config: dict[str, Any], sockets: Path, mesh: dict[str, int]
) -> None:
    config["align"] = 4
    expected, laid_out = embedded_hashes(config, mesh), {}
    for sharing, times in ((True, mesh.get("dp", 1)), (False, 4)):
        config["runtime"]["ablation"] = {"sharing": sharing}
        with trainers(config, mesh, pause_after=config["steps"]) as started:
            until_paused(started)
            steps = times * config["steps"]  # every constructor lays out every step
            in_time(lambda: assembled(sockets)[0] == steps, "all is told")  # noqa: B023
            laid_out[sharing] = assembled(sockets)[1]
            for trainer in started:
                trainer.go()
            assert hashes_of(started) == expected
            for trainer in started:
                trainer.until("end")
        until_nothing_left(sockets, "nothing is left")
    assert laid_out[False] >= 2 * laid_out[True], "peers have their own copies"


def test_a_dead_loader_is_asked_again_for_every_rank(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 300
    config["runtime"]["ablation"] = {"sharing": False}
    dice = random.Random(5)
    with trainers(config, {"dp": 1, "tp": 4}, pause_after=70) as started:
        for victim in ("loaders", "constructors", "loaders"):
            for _ in range(1 + dice.randrange(20)):
                started[0].until("step")
            in_time(lambda: kill_all(sockets, victim), "there is one to kill")  # noqa: B023
        go_on(started)
        assert hashes_of(started) == embedded_hashes(config, {"dp": 1, "tp": 4})
    until_nothing_left(sockets, "nothing is left")


def test_a_node_keeps_to_its_share_of_the_cores(config: dict[str, Any], sockets: Path) -> None:
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("one core cannot be shared")
    config["runtime"]["processes"]["cores_share"] = 0.5
    with ol.job(config).train(engine="processes") as loader:
        next(loader)
        allowed = {pid: os.sched_getaffinity(pid) for pid in processes_of(sockets)}
        assert len(allowed) >= 3  # the node, loaders, constructors
        expected = set(usable[-(len(usable) // 2) :])
        assert all(cores == expected for cores in allowed.values())
        assert sorted(os.sched_getaffinity(0)) == usable


def test_budgets_beyond_the_share_of_memory_are_refused(config: dict[str, Any]) -> None:
    config["runtime"]["processes"]["memory_share"] = 1e-6
    with pytest.raises(ol.ConfigError, match=r"memory_share.*lower runtime.payload_budget"):
        ol.job(config).train(engine="processes")
