"""A trace of a running node: every role is in it, steps flow through them, and it costs little."""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from overlord._src.node.trace import TraceEvent, chrome_trace, read_events
from overlord._src.node.watch import ask
from overlord.cli import main
from small_job import WEIGHTS, small_job
from trainers import in_time, trainers, until_nothing_left

import overlord as ol


def names_in(rows: list[dict[str, Any]]) -> dict[int, str]:
    """The processes of a trace, by pid."""
    return {row["pid"]: row["args"]["name"].partition("@")[0] for row in rows if row["ph"] == "M"}


def whole_ways(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Steps that are followed from the plan through all five processes to a rank."""
    names, ways = names_in(rows), {}
    for row in rows:
        if row["ph"] in "stf":
            ways.setdefault(row["id"], []).append(row)
    return [
        way
        for way in ways.values()
        if len({names[row["pid"]] for row in way}) == 5 and names[way[0]["pid"]] == "node"
    ]


def test_a_window_of_a_running_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, sockets = small_job(tmp_path, steps=1_000_000)
    file = tmp_path / "trace.json"
    windows = (0.5 * 2**number for number in itertools.count())
    with trainers(config, {"dp": 2}) as started:
        for trainer in started:
            trainer.until("step")
        [directory] = sockets.iterdir()
        before = {path.name for path in directory.iterdir()}

        def traced() -> bool:
            """In a longer window where the machine was too busy for everybody to have a turn."""
            words = ["--seconds", str(next(windows)), "-o", str(file)]
            assert main(["trace", str(directory), *words]) == 0
            silent = "without a word" in capsys.readouterr().out
            rows = json.loads(file.read_text())["traceEvents"]
            return not silent and len(names_in(rows)) == 5 and bool(whole_ways(rows))

        in_time(traced, "steps are followed from plan to rank")
        assert {path.name for path in directory.iterdir()} <= before, "nothing is left there"
    until_nothing_left(sockets, "nothing is left")
    rows = json.loads(file.read_text())["traceEvents"]
    names = names_in(rows)
    assert set(names.values()) == {"node", "loaders-0", "constructors-0", "rank-0", "rank-1"}

    def whose(what: str) -> set[str]:
        found = [row for row in rows if row["ph"] == "X" and row["cat"] == what]
        return {f"{names[row['pid']]} {row['args'].get('whose', '')}".strip() for row in found}

    assert whose("plan") == {"node"}
    assert whose("answer") == {f"loaders-0 {name}" for name in WEIGHTS}
    assert whose("assemble") == {"constructors-0 group 0", "constructors-0 group 1"}
    assert whose("wait") == {"rank-0 rank 0", "rank-1 rank 1"}
    for way in whole_ways(rows):
        assert [row["ph"] for row in way] == ["s", *"t" * (len(way) - 2), "f"]
        assert [row["ts"] for row in way] == sorted(row["ts"] for row in way)


def test_who_else_traces_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, sockets = small_job(tmp_path, steps=100)
    with ol.job(config).train(engine="processes") as loader:
        next(loader)
        [directory] = sockets.iterdir()
        (directory / "trace-wanted").touch()
        assert main(["trace", str(directory), "--seconds", "0.1"]) == 1
        assert "somebody else traces" in capsys.readouterr().err
    assert main(["trace", str(tmp_path), "--seconds", "0.1"]) == 1
    assert main(["trace", str(tmp_path), "--seconds", "0"]) == 2


def test_a_forgotten_wish_ends(tmp_path: Path) -> None:
    config, sockets = small_job(tmp_path, steps=1_000_000)
    with ol.job(config).train(engine="processes") as loader:
        next(loader)
        [directory] = sockets.iterdir()
        wanted = directory / "trace-wanted"
        told: list[int] = []

        def noticed() -> bool:
            """Who tells of its work has looked for wishes just before; the first may be older."""
            wanted.touch()
            next(loader)
            documents = sum(item["documents"] for item in ask(str(directory))["loaders"])
            if documents not in told:
                told.append(documents)
            return len(told) > 3

        in_time(noticed, "the process has told of its work more than once")
        os.utime(wanted, (time.time() - 100,) * 2)  # as if nobody had touched it for long
        in_time((directory / "trace-of-loaders-0").exists, "the process stops tracing")


def test_events_as_chrome_reads_them() -> None:
    lines = '2000\t500\t7\t11\tplan\t\n1000\t9000\t-1\t12\tread\tweb "a"\n'
    [plan, read] = read_events(lines, "node", 5)
    assert plan == TraceEvent("node", 5, 2000, 500, 7, 11, "plan", "")
    wait = TraceEvent("rank-0", 6, 4000, 100, 7, 13, "wait", "rank 0")
    rows = json.loads(json.dumps(chrome_trace([plan, read, wait])))["traceEvents"]
    shown = [(row["ph"], row["pid"], row["name"], row.get("ts")) for row in rows]
    assert shown == [
        ("M", 5, "process_name", None),
        ("M", 6, "process_name", None),
        ("b", 5, 'read web "a"', 0),
        ("e", 5, 'read web "a"', 9),
        ("X", 5, "plan", 1),
        ("X", 6, "wait rank 0", 3),
        ("s", 5, "step", 1),
        ("f", 6, "step", 3),
    ]
    assert chrome_trace([])["traceEvents"] == []
