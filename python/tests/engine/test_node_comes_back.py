"""A node that dies or hangs is started again by its ranks, which read the same stream on."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reported import more_of_the_worst
from test_rebuild import FOUR, PAIRS, changing, check_seats
from test_reports import following
from trainers import (
    PATIENCE_SECONDS,
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

pytestmark = pytest.mark.deadline(240)
TWO = {"dp": 2}
PROGRAM = Path(ol._src.native.core.__file__).with_name("overlord-node")


def nodes_of(sockets: Path) -> list[int]:
    return [pid for pid, name in processes_of(sockets).items() if name.endswith("-node")]


def node_of(sockets: Path) -> int:
    found: list[int] = []

    def one() -> bool:
        found[:] = nodes_of(sockets)
        return len(found) == 1

    in_time(one, "there is one node")
    return found[0]


def kill_node(sockets: Path, number: int = signal.SIGKILL) -> int:
    """Signal the node; which one it was."""
    while True:
        node = node_of(sockets)
        with contextlib.suppress(ProcessLookupError):  # killed before, and gone this moment
            os.kill(node, number)
            return node


def status_of(sockets: Path) -> dict[str, Any] | None:
    with contextlib.suppress(ol.OverlordError, OSError, ValueError):
        [folder] = sockets.iterdir()
        status: dict[str, Any] = ol._src.native.core.ask_node(str(folder))
        return status
    return None


def until_served_again(sockets: Path, recoveries: int) -> dict[str, Any]:
    """The status of the node that came back so often, once it serves."""
    told: list[dict[str, Any]] = []

    def served() -> bool:
        status = status_of(sockets)
        if status is None or status["recoveries"] != recoveries or not status["term"]:
            return False
        told.append(status)
        return True

    in_time(served, f"a node serves, the {recoveries}. after the first")
    return told[-1]


def all_end_well(started: list[Trainer], expected: dict[int, str]) -> None:
    assert hashes_of(started) == expected
    for trainer in started:
        assert trainer.until("end")["end"] == "good"


def test_a_killed_node_is_started_again_and_nobody_notices(
    config: dict[str, Any], sockets: Path
) -> None:
    config["steps"] = 60
    with trainers(config, TWO, pause_after=10) as started:
        until_paused(started)
        roles = {pid for pid, name in processes_of(sockets).items() if "overlord: " in name}
        dead = kill_node(sockets)
        status = until_served_again(sockets, 1)
        assert status["term"] == 2
        assert node_of(sockets) != dead
        assert roles <= set(processes_of(sockets)), "role processes go on as they are"
        for trainer in started:
            trainer.go()
        all_end_well(started, embedded_hashes(config, TWO))
    until_nothing_left(sockets)


@pytest.mark.parametrize("ranks", [1, 2])
def test_kills_at_many_moments(config: dict[str, Any], sockets: Path, ranks: int) -> None:
    config["steps"] = 300
    mesh = {"dp": ranks}
    with trainers(config, mesh, engine="processes", pause_after=110) as started:
        for step in (1, 2, 7, 30, 55):
            started[0].until("step")
            for _ in range(step):
                started[0].until("step")
            kill_node(sockets)
        go_on(started)
        all_end_well(started, embedded_hashes(config, mesh))
    until_nothing_left(sockets)


def test_what_was_read_to_be_posted_is_not_read_again(
    config: dict[str, Any], sockets: Path
) -> None:
    """Loaders that live have the metadata that the next planner asks for."""
    config["steps"] = 60
    rows: list[dict[str, int]] = []

    def planned(steps: int) -> bool:
        status = status_of(sockets)
        if status is None or status["planner"]["plans"] < steps:
            return False
        rows.append({loader["source"]: loader["rows_posted"] for loader in status["loaders"]})
        return len(rows[-1]) == 3 and min(rows[-1].values()) > 0

    with trainers(config, TWO, pause_after=10) as started:
        until_paused(started)
        in_time(lambda: planned(10 + 4), "all is planned that may be")
        before = rows[-1]
        kill_node(sockets)
        until_served_again(sockets, 1)
        in_time(lambda: planned(4), "and again")
        for trainer in started:
            trainer.go()
            trainer.until("step")  # which was not planned before
        in_time(lambda: planned(4), "they tell what they have posted")
        for name, posted in rows[-1].items():
            assert posted < 1.5 * before[name], "all was posted anew"
        all_end_well(started, embedded_hashes(config, TWO))
    until_nothing_left(sockets)


@pytest.mark.parametrize("victims", [["loaders"], ["constructors"], ["loaders", "constructors"]])
def test_role_processes_may_die_with_it(
    config: dict[str, Any], sockets: Path, victims: list[str]
) -> None:
    config["steps"] = 60
    with trainers(config, TWO, pause_after=10) as started:
        until_paused(started)
        node = node_of(sockets)
        os.kill(node, signal.SIGSTOP)  # it restarts nobody
        for victim in victims:
            assert kill_all(sockets, victim)
        os.kill(node, signal.SIGKILL)
        for trainer in started:
            trainer.go()
        all_end_well(started, embedded_hashes(config, TWO))
    until_nothing_left(sockets)


def test_a_hung_node_is_replaced(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 60
    with trainers(config, TWO, pause_after=10) as started:
        until_paused(started)
        hung = kill_node(sockets, signal.SIGSTOP)
        for trainer in started:
            trainer.go()
        all_end_well(started, embedded_hashes(config, TWO))
        assert hung not in nodes_of(sockets)
    until_nothing_left(sockets)


def test_a_node_that_was_stopped_takes_nobody_for_hung(
    config: dict[str, Any], sockets: Path
) -> None:
    """What others said meanwhile is read before anybody is judged by it."""
    config["steps"] = 60
    with trainers(config, TWO, pause_after=10) as started:
        until_paused(started)
        kill_node(sockets, signal.SIGSTOP)
        wakes = time.monotonic() + 4  # longer than silence lasts, shorter than ranks wait
        in_time(lambda: time.monotonic() > wakes, "it has slept")
        kill_node(sockets, signal.SIGCONT)
        for trainer in started:
            trainer.go()
        for _ in range(30):
            started[0].until("step")
        status = status_of(sockets)
        assert status is not None and (status["restarts"], status["recoveries"]) == (0, 0)
        all_end_well(started, embedded_hashes(config, TWO))
    until_nothing_left(sockets)


@pytest.mark.parametrize("kind", ["odm", "rule"])
def test_reports_count_once(config: dict[str, Any], sockets: Path, kind: str) -> None:
    config["steps"] = 60
    config = following(config, kind, [0, 1])
    rule = ol.mix.rule(more_of_the_worst, version=1) if kind == "rule" else None
    named = "more_of_the_worst" if kind == "rule" else None
    expected = embedded_hashes(config, TWO, [0, 1], rule)
    with trainers(config, TWO, reports=[0, 1], rule=named, pause_after=30) as started:
        for _ in range(4):
            for _ in range(5):
                started[1].until("step")
            kill_node(sockets)
        go_on(started)
        all_end_well(started, expected)
    until_nothing_left(sockets)


def test_the_mesh_changes_over_deaths(config: dict[str, Any], sockets: Path) -> None:
    config["align"] = 8
    config["steps"] = 60
    config["runtime"]["runway"] = 3
    # Behind all that the planner which dies may have planned: the next one keeps that as it is.
    changes: list[dict[str, Any]] = [{"after": 6, "ranks": [1], "mesh": PAIRS, "step": 48}]
    with changing(config, changes, pauses=[5, 10, 52]) as started:
        for pause in (5, 10, 52):
            for trainer in started:
                assert trainer.until("paused")["paused"] == pause
            kill_node(sockets)
            for trainer in started:
                trainer.go()
        check_seats(started, config, [(0, FOUR), (48, PAIRS)])
    until_nothing_left(sockets)


def started_from(program: Path) -> dict[str, str]:
    """What ranks do first so that their node is this program."""
    first = f"""
import pathlib
import overlord._src.node.process as nodes
nodes.executable = lambda: pathlib.Path({str(program)!r})
"""
    return {"0": first, "1": first}


def copied_node(folder: Path) -> Path:
    """A program of the node that a test may take away."""
    copy = folder / "overlord-node"
    shutil.copy2(PROGRAM, copy)
    return copy


def write_waiting_node(path: Path) -> Path:
    """A node whose first process waits for its job for ever; a file tells that it was started."""
    path.unlink(missing_ok=True)
    told = path.with_name("told")
    os.mkfifo(path.with_name("nothing"))
    nothing = str(path.with_name("nothing"))
    # Opened for both, so that it waits for nobody and comes to no end.
    path.write_text(
        f'#!/bin/sh\n[ -e {told} ] && exec {PROGRAM} "$@"\n'
        f': > {told}\nexec {PROGRAM} "$@" 0<>{nothing}\n'
    )
    path.chmod(0o700)
    return told


def until_it_runs(sockets: Path, killed: int | None = None) -> int:
    """The next node, once it has said that it lives; it has answered nobody."""
    found: list[int] = []

    def lives() -> bool:
        found[:] = [pid for pid in nodes_of(sockets) if pid != killed]
        with contextlib.suppress(OSError, ValueError):
            [pulse] = sockets.glob("*/pulse")
            return len(found) == 1 and names(pulse, found[0])
        return False

    in_time(lives, "there is a node that has said so")
    return found[0]


def names(pulse: Path, pid: int) -> bool:
    """Whether the file is of this process: its number is behind a checksum, as the codec has it."""
    number, coded = 2 * pid, b""
    while number:
        coded += bytes([number & 127 | (128 if number > 127 else 0)])
        number >>= 7
    return pulse.read_bytes()[16:].startswith(coded)


def test_a_node_stopped_before_its_first_word_is_replaced(
    config: dict[str, Any], sockets: Path, tmp_path: Path
) -> None:
    config["steps"] = 60
    program = copied_node(tmp_path)
    with trainers(config, TWO, first=started_from(program), pause_after=10) as started:
        until_paused(started)
        write_waiting_node(program)
        killed = kill_node(sockets)
        os.kill(until_it_runs(sockets, killed), signal.SIGSTOP)
        for trainer in started:
            trainer.go()
        all_end_well(started, embedded_hashes(config, TWO))
    until_nothing_left(sockets)


def test_the_first_node_may_be_stopped_as_well(
    config: dict[str, Any], sockets: Path, tmp_path: Path
) -> None:
    program = tmp_path / "overlord-node"
    write_waiting_node(program)
    with trainers(config, TWO, first=started_from(program)) as started:
        os.kill(until_it_runs(sockets), signal.SIGSTOP)
        all_end_well(started, embedded_hashes(config, TWO))
    until_nothing_left(sockets)


def test_one_that_cannot_come_back_is_an_error_of_that_name(
    config: dict[str, Any], sockets: Path, tmp_path: Path
) -> None:
    """Its program is a copy that is gone by the time it is needed."""
    copy = copied_node(tmp_path)
    config["steps"] = 100_000
    config["runtime"]["processes"]["recovery_seconds"] = 3
    with trainers(config, TWO, first=started_from(copy)) as started:
        for trainer in started:
            trainer.until("step")
        copy.unlink()
        kill_node(sockets)
        for trainer in started:
            word = trainer.until("end")
            assert (word["end"], word["error"]) == ("bad", "UnavailableError")
            assert "runtime.processes.recovery_seconds (3 s)" in word["text"]
            assert "overlord-node" in word["text"]
            trainer.process.wait(PATIENCE_SECONDS)  # it clears up behind the node
    until_nothing_left(sockets)


SLOW = """
import threading
say_at_once = say
def say(**words):
    say_at_once(**words)
    if "step" in words:
        threading.Event().wait(0.7)
"""


def all_stop_before_the_same_step(started: list[Trainer]) -> None:
    texts = set()
    for trainer in started:
        word = trainer.until("end")
        assert (word["end"], word["error"]) == ("bad", "UnavailableError")
        texts.add(word["text"].partition("(3 s)")[0])
        trainer.process.wait(PATIENCE_SECONDS)
    assert len(texts) == 1
    last = [[word["step"] for word in trainer.words if "step" in word][-1] for trainer in started]
    assert last[0] == last[1]


@pytest.mark.parametrize("slow", ["0", "1"])
def test_without_a_node_all_ranks_stop_before_the_same_step(
    config: dict[str, Any], sockets: Path, tmp_path: Path, slow: str
) -> None:
    """One has read all that is planned long before the other, which gets there after the error."""
    copy = copied_node(tmp_path)
    config["steps"] = 100_000
    config["runtime"] |= {"prefetch": 2, "runway": 9}
    config["runtime"]["processes"] |= {"recovery_seconds": 3}
    first = started_from(copy)
    first[slow] += SLOW
    with trainers(config, TWO, first=first) as started:
        for _ in range(3):
            started[int(slow)].until("step")
        copy.unlink()
        kill_node(sockets)
        all_stop_before_the_same_step(started)
    until_nothing_left(sockets)


def threads_of(trainer: Trainer) -> int:
    return len(list(Path(f"/proc/{trainer.process.pid}/task").iterdir()))


@pytest.mark.parametrize("poor", [0, 1])
def test_nobody_begins_what_another_rank_never_gets(
    config: dict[str, Any], sockets: Path, tmp_path: Path, poor: int
) -> None:
    """The constructor of one rank dies with the node; that of the other has more to give."""
    copy = copied_node(tmp_path)
    config["steps"] = 100_000
    config["runtime"] |= {"prefetch": 2, "runway": 9}
    config["runtime"]["processes"] |= {"recovery_seconds": 3, "constructors": 2}
    with trainers(config, TWO, first=started_from(copy), pause_after=10) as started:
        until_paused(started)
        copy.unlink()
        os.kill(node_of(sockets), signal.SIGSTOP)  # it restarts nobody
        assert kill_all(sockets, f"constructors-{poor}")
        before = [threads_of(trainer) for trainer in started]
        kill_node(sockets)
        for trainer, threads in zip(started, before, strict=True):
            noticed = functools.partial(lambda one, had: threads_of(one) > had, trainer, threads)
            in_time(noticed, "it has a thread that starts nodes")
        for trainer in started:
            trainer.go()
        all_stop_before_the_same_step(started)
    until_nothing_left(sockets)


def test_without_recovery_the_job_ends_with_its_node(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 100_000
    config["runtime"]["processes"]["recovery_seconds"] = 0
    with trainers(config, TWO) as started:
        for trainer in started:
            trainer.until("step")
        kill_node(sockets)
        for trainer in started:
            word = trainer.until("end")
            assert (word["end"], word["error"]) == ("bad", "UnavailableError")
            assert "node process" in word["text"]
            trainer.process.wait(PATIENCE_SECONDS)  # it clears up behind the node
    until_nothing_left(sockets)


def test_ranks_that_die_with_their_node_leave_nothing(
    config: dict[str, Any], sockets: Path
) -> None:
    """Role processes end by themselves when no node comes for them."""
    config["steps"] = 100_000
    config["runtime"]["processes"]["orphan_seconds"] = 1
    with trainers(config, TWO) as started:
        for trainer in started:
            trainer.until("step")
        for trainer in started:
            os.kill(trainer.process.pid, signal.SIGSTOP)
        kill_node(sockets)
        for trainer in started:
            trainer.kill()
        in_time(lambda: not processes_of(sockets), "no process is left")


def test_a_rank_that_died_is_named_by_the_next_node(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 100_000
    with trainers(config, TWO) as started:
        for trainer in started:
            trainer.until("step")
        kill_node(sockets)
        started[1].kill()

        def named() -> bool:
            status = status_of(sockets)
            return status is not None and "rank 1 is gone" in status["waits"]

        in_time(named, "the status names the rank")
        started[0].kill()
        until_nothing_left(sockets, "the node ends with its last trainer")


def test_a_new_attempt_begins_from_its_own_state(config: dict[str, Any], sockets: Path) -> None:
    """What the journal has of another attempt is not read."""
    config["steps"] = 40
    config["runtime"]["journal"] = str(sockets.parent / "journal")
    with trainers(config, TWO, pause_after=20) as old:
        until_paused(old)
        kill_node(sockets)
        with trainers(config, TWO, restarts=1) as new:
            all_end_well(new, embedded_hashes(config, TWO))
    kept = (sockets.parent / "journal").glob("*/before-*/term-*")
    assert list(kept), "the journal of the attempt before is kept aside"


@contextlib.contextmanager
def served(config: dict[str, Any], folder: Path, node: Path) -> Iterator[tuple[Path, Any]]:
    file = folder / "mix.yaml"
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "overlord", "serve", str(file), "--hash", "--mesh", "dp=2"]
    serve = subprocess.Popen([*command, "--directory", str(node)], start_new_session=True)
    try:
        yield file, serve
    finally:
        serve.send_signal(signal.SIGTERM)
        serve.wait()


def test_serve_starts_its_node_again(config: dict[str, Any], sockets: Path, tmp_path: Path) -> None:
    config["steps"] = 60
    node = sockets / "node"
    expected = embedded_hashes(config, TWO)
    with served(config, tmp_path, node) as (file, serve):
        for run in range(2):
            told: dict[str, Any] = {"node": str(node), "run": f"run {run}", "pause_after": 10}
            with trainers(str(file), TWO, **told) as started:
                until_paused(started)
                killed = kill_node(sockets)
                in_time(lambda: nodes_of(sockets) not in ([], [killed]), "there is another")  # noqa: B023
                for trainer in started:
                    trainer.go()
                all_end_well(started, expected)
        assert serve.poll() is None
    until_nothing_left(sockets)
