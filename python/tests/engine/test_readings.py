"""Streams that are read more than once: whole each time, on both engines; train is read once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from delivered import content
from trainers import Trainer, in_time, until_nothing_left

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
    """Reads `valid` twice; rank 1 waits in front of the last batch of its first reading."""

    program = r"""
import json, os, sys
import overlord as ol

told = json.loads(sys.argv[1])
rank = int(os.environ["RANK"])

def say(**words):
    print(json.dumps({"rank": rank, **words}), flush=True)

try:
    valid = ol.job(told["config"], mesh="dp=2").valid(rank, engine="processes", hash=True)
    for reading in range(2):
        for number, batch in enumerate(valid):
            if rank == 1 and reading == 0 and number == told["last"]:
                say(paused=True)
                sys.stdin.readline()
        say(hash=valid.rank_hash())
    valid.close()
    say(end="good")
except BaseException as error:
    say(end="bad", error=type(error).__name__, text=str(error))
"""


def test_processes_read_again_each_at_its_own_time(two_streams: Any, sockets: Path) -> None:
    told = {"config": two_streams, "last": 2 * STEPS - 1}
    ranks = [Reader(told, rank, 2, "again", 0) for rank in range(2)]
    try:
        ranks[1].until("paused")
        first = ranks[0].until("hash")["hash"]
        in_time(lambda: len([*sockets.iterdir()]) == 2, "rank 0 asks for a second reading", 30)
        ranks[1].go()
        hashes = [ranks[1].until("hash")["hash"] for _ in range(2)]
        assert ranks[0].until("hash")["hash"] == first and len(set(hashes)) == 1
        for rank in ranks:
            assert rank.until("end")["end"] == "good", rank.words
        until_nothing_left(sockets)
    finally:
        for rank in ranks:
            rank.process.kill()
            rank.process.wait()
