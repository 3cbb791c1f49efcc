"""Streams that are read more than once: whole each time, on both engines; train is read once."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from delivered import content
from overlord._src.native import core
from trainers import Trainer, ended_at_last, in_time, until_nothing_left

import overlord as ol

STEPS = 3


@pytest.fixture
def two_streams(config: dict[str, Any]) -> dict[str, Any]:
    """The config with a short stream beside `train`."""
    return {**config, "streams": {"valid": {"steps": STEPS, "bins": 4}}}


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_valid_can_be_read_again(two_streams: Any, sockets: Path, engine: str) -> None:
    with ol.job(two_streams).valid(engine=engine, hash=True) as valid:
        first = [content(batch) for batch in valid]
        with pytest.raises(StopIteration):
            next(valid)
        ended = valid.state_dict()
        hashes = [valid.stream_hash()]
        for _ in range(2):
            assert [content(batch) for batch in valid] == first and len(first) == 4 * STEPS
            hashes.append(valid.stream_hash())
        assert len(set(hashes)) == 1
        # A state is where a reading starts that goes to the end; the next one is whole.
        valid.load_state_dict(ended)
        assert list(valid) == []
        assert [content(batch) for batch in valid] == first
        # What stopped before the end goes on where it was.
        assert [content(next(iter(valid))) for _ in range(3)] == first[:3]
        assert [content(batch) for batch in valid] == first[3:]
    until_nothing_left(sockets)


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_so_can_the_ranks_of_a_process(two_streams: Any, sockets: Path, engine: str) -> None:
    job = ol.job(two_streams, mesh="dp=2")
    with job.valid(ranks="all", engine=engine) as valid:

        def read() -> list[Any]:
            return [
                {rank: [content(batch) for batch in batches] for rank, batches in step.items()}
                for step in valid.steps()
            ]

        first = read()
        assert len(first) == STEPS and read() == first
        # One by one: the first that reads again starts for all.
        alone = {rank: [content(next(iter(valid[rank])))] for rank in valid}
        assert alone == {rank: batches[:1] for rank, batches in first[0].items()}
        list(valid.steps())
    with job.valid(ranks="all", engine=engine) as valid:
        for _ in valid.rounds():
            pass
        assert next(iter(valid[0])).step == 0
    until_nothing_left(sockets)


def test_a_rank_does_not_start_again_without_the_others(two_streams: Any) -> None:
    with ol.job(two_streams, mesh="dp=2").valid(ranks="all") as valid:
        for _ in valid[0]:
            pass
        with pytest.raises(ol.InvalidArgumentError, match=r"ranks \[1\] have not read it to its"):
            iter(valid[0])
        for _ in valid[1]:
            pass
        assert next(iter(valid[0])).step == 0 and next(iter(valid[1])).step == 0


def test_train_is_read_once_and_says_so(config: Any, caplog: pytest.LogCaptureFixture) -> None:
    with ol.job({**config, "steps": 2}).train() as loader:
        assert list(loader)
        state = loader.state_dict()
        with caplog.at_level(logging.WARNING, "overlord"):
            assert list(loader) == []
        assert "train has ended" in caplog.text and loader.state_dict() == state


class Reader(Trainer):
    """Reads `valid` twice, while `train` is open; rank 1 waits in front of the last batch of its
    first reading."""

    program = r"""
import json, os, sys
import overlord as ol

told = json.loads(sys.argv[1])
rank = int(os.environ["RANK"])

def say(**words):
    print(json.dumps({"rank": rank, **words}), flush=True)

try:
    job = ol.job(told["config"], mesh="dp=2")
    train = job.train(rank, engine=told["engine"], hash=True)
    valid = job.valid(rank, engine=told["engine"], hash=True)
    steps = train.steps()
    for reading in range(2):
        next(steps)
        for number, batch in enumerate(valid):
            if rank == 1 and reading == 0 and number == told["last"]:
                say(paused=True)
                sys.stdin.readline()
        say(hash=valid.rank_hash())
    say(train=train.rank_hash())
    train.close()
    valid.close()
    say(end="good")
except BaseException as error:
    say(end="bad", error=type(error).__name__, text=str(error))
"""


def read_alone(config: dict[str, Any], rank: int) -> tuple[str, str]:
    """Of a rank that plans for itself: the hash of `valid`, and of two steps of `train`."""
    job = ol.job(config, mesh="dp=2")
    with (
        job.train(rank, engine="embedded", hash=True) as train,
        job.valid(rank, engine="embedded", hash=True) as valid,
    ):
        assert len(list(valid)) == 2 * STEPS
        steps = train.steps()
        for _ in range(2):
            next(steps)
        return valid.rank_hash(), train.rank_hash()


def test_every_stream_beside_another_in_one_process(two_streams: Any) -> None:
    job = ol.job(two_streams, mesh="dp=2")
    with (
        job.train(ranks="all", engine="embedded", hash=True) as train,
        job.valid(ranks="all", engine="embedded", hash=True) as valid,
    ):
        both = zip(train.steps(), itertools.chain(valid.steps(), range(2)), strict=False)
        assert len(list(itertools.islice(both, STEPS))) == STEPS
        for rank in (0, 1):
            assert valid[rank].rank_hash() == read_alone(two_streams, rank)[0]
        steps = job.train(ranks="all", engine="embedded", hash=True)
        with steps as alone:
            list(itertools.islice(alone.steps(), STEPS))
            assert [train[rank].rank_hash() for rank in (0, 1)] == [
                alone[rank].rank_hash() for rank in (0, 1)
            ]


def waiting_ranks(sockets: Path) -> list[str]:
    """Who waits in a node until the others have read what it has read."""
    found = []
    for folder in sockets.iterdir():
        with contextlib.suppress(ol.OverlordError, OSError):
            found += re.findall(r"(\S+) waits for all", core.ask_node(str(folder))["waits"])
    return found


def check_readers(config: Any, sockets: Path, engine: str, per_host: int = 2) -> None:
    """Each reads again at its own time, and nobody ends what another one still reads."""
    told = {"config": config, "last": 2 * STEPS - 1, "engine": engine}
    ranks = [Reader(told, rank, 2, "again", 0, per_host) for rank in range(2)]
    with ended_at_last(ranks):
        ranks[1].until("paused")
        first = ranks[0].until("hash")["hash"]
        in_time(lambda: len(waiting_ranks(sockets)) == 1, "rank 0 asks for a second reading")
        ranks[1].go()
        hashes = [[first, ranks[0].until("hash")["hash"]]]
        hashes.append([ranks[1].until("hash")["hash"] for _ in range(2)])
        for rank, of_valid in enumerate(hashes):
            expected, of_train = read_alone(config, rank)
            assert of_valid == [expected, expected]
            assert ranks[rank].until("train")["train"] == of_train
            assert ranks[rank].until("end")["end"] == "good", ranks[rank].words


@pytest.mark.parametrize("engine", ["processes", "hosts"])
def test_processes_read_again_each_at_its_own_time(
    two_streams: Any, sockets: Path, free_port: int, engine: str
) -> None:
    if engine == "hosts":
        wire = {"planner": f"127.0.0.1:{free_port}", "host": "127.0.0.1"}
        two_streams["runtime"]["wire"] = wire
    check_readers(two_streams, sockets, "processes", 1 if engine == "hosts" else 2)
    until_nothing_left(sockets)


@pytest.mark.parametrize(
    ("planner", "allowed"),
    [("a:65535", "a port up to 65534"), (["a:7400", "a:7401"], "2 or more apart")],
)
def test_every_stream_is_led_at_a_port_of_its_own(
    two_streams: Any, planner: Any, allowed: str
) -> None:
    two_streams["runtime"] |= {"wire": {"planner": planner}, "journal": "/shared"}
    with pytest.raises(ol.ConfigError, match=rf"wire\.planner.*2 streams.*{allowed}"):
        ol.job(two_streams)
    two_streams["runtime"]["wire"]["planner"] = ["a:7400", "b:7400", "[::1]:9"]
    job = ol.job(two_streams)
    assert job.lead_of("train") == "a:7400,b:7400,[::1]:9"
    assert job.lead_of("valid") == "a:7401,b:7401,[::1]:10"
