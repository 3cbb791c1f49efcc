"""`overlord serve` ends when it is told to or dies, leaves nothing, and starts again at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from trainers import in_time, processes_of, trainers, until_nothing_left
from warm_python import WarmProcess, warm_command

pytestmark = pytest.mark.deadline(180)


@contextlib.contextmanager
def served(
    config_file: Path, node: Path, prefix: Sequence[str] = ()
) -> Iterator[WarmProcess | subprocess.Popen[bytes]]:
    """`overlord serve` for two ranks; killed at the end where it has not ended."""
    command = ["serve", str(config_file), "--hash", "--mesh", "dp=2", "--directory", str(node)]
    process: WarmProcess | subprocess.Popen[bytes]
    if prefix:  # such a host's first process is the command
        process = subprocess.Popen([*prefix, sys.executable, "-m", "overlord", *command])
    else:
        process = warm_command(*command)
    try:
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def config_file(config: dict[str, Any], tmp_path: Path) -> Path:
    """A job of two ranks that goes on for long."""
    config["steps"] = 100_000
    path = tmp_path / "mix.yaml"
    path.write_text(json.dumps(config))
    return path


def serves_again(config_file: Path, node: Path) -> None:
    """A node there gives two ranks what they want."""
    with (
        served(config_file, node),
        trainers(str(config_file), {"dp": 2}, node=str(node), run="again", stop_after=3) as again,
    ):
        for trainer in again:
            assert trainer.until("end")["end"] == "good"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_it_ends_and_starts_again(config_file: Path, sockets: Path, number: signal.Signals) -> None:
    node = sockets / "node"
    with (
        served(config_file, node) as process,
        trainers(str(config_file), {"dp": 2}, node=str(node)) as started,
    ):
        for trainer in started:
            trainer.until("step")
        process.send_signal(number)
        assert process.wait(60) == (-number if number == signal.SIGKILL else 0)
        if number != signal.SIGKILL:
            ours = [name for name in processes_of(sockets).values() if "python" not in name]
            assert not ours, "the node and its roles end before it does"
            # Their workers see the closed pipe and follow.
            in_time(lambda: not processes_of(sockets), "nothing that it started is left")
        serves_again(config_file, node)  # at once
        for trainer in started:
            word = trainer.until("end")
            assert (word["end"], word["error"]) == ("bad", "UnavailableError")
            assert "restart from the last checkpoint" in word["text"]
    until_nothing_left(sockets)


def test_it_ends_before_a_rank_has_come(config_file: Path, sockets: Path) -> None:
    node = sockets / "node"
    with served(config_file, node) as process:
        in_time((node / "node").exists, "it serves", 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    until_nothing_left(sockets)


def test_a_node_that_is_told_to_end_tells_its_ranks(config: dict[str, Any], sockets: Path) -> None:
    config["steps"] = 100_000
    with trainers(config, {"dp": 2}) as started:
        for trainer in started:
            trainer.until("step")
        [node] = [pid for pid, name in processes_of(sockets).items() if name.endswith("-node")]
        os.kill(node, signal.SIGTERM)
        for trainer in started:
            word = trainer.until("end")
            assert (word["end"], word["error"]) == ("bad", "UnavailableError")
            assert "was told to end (SIGTERM)" in word["text"]
        until_nothing_left(sockets)


def child_of(pid: int) -> int | None:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found[0]) if found else None


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_as_the_first_process_of_a_container(config_file: Path, sockets: Path) -> None:
    """Docker's stop is a SIGTERM to it, and it is the parent of all orphans."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("no pid namespaces here")
    node = sockets / "node"
    with served(config_file, node, unshare) as outer:
        in_time((node / "node").exists, "it serves", 60)
        inner = child_of(outer.pid)
        assert inner is not None
        fork = [sys.executable, "-c", "import os; os.fork()"]
        subprocess.run(["nsenter", "--target", str(inner), "--pid", *fork], check=True)

        def no_dead_children() -> bool:
            with contextlib.suppress(OSError):  # one that is gone by now
                path = Path(f"/proc/{inner}/task/{inner}/children")
                return all(state_of(int(pid)) != "Z" for pid in path.read_text().split())
            return False

        in_time(no_dead_children, "orphans are reaped")
        os.kill(inner, signal.SIGTERM)
        assert outer.wait(60) == 0
    until_nothing_left(sockets)
