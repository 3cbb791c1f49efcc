"""What commands show fits 80 columns, and long indexing says how far it is where no terminal is."""

from __future__ import annotations

import logging
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from corpora import EOD, job_config, made_up_documents, token_lines
from overlord._src.index.indexing import SourceProgress
from overlord._src.index.progress import LineProgress, progress_line
from overlord.cli import live_view, top_view
from overlord.cli.index_command import IndexView
from overlord.cli.terminal import add_rows, make_table
from overlord.cli.top_view import loaders_text
from rich.console import Console

import overlord as ol

PANEL = 76  # columns inside of a frame on a terminal of 80


def lines_of(part: Any, width: int = PANEL) -> list[str]:
    console = Console(file=StringIO(), force_terminal=True, width=width, color_system=None)
    console.print(part)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text.splitlines()


def fits(part: Any, lines: int, *words: str) -> None:
    shown = lines_of(part)
    assert len(shown) == lines, "\n".join(shown)
    assert "…" not in "".join(shown)
    for word in words:
        assert any(word in line for line in shown), word


SIZES = dict.fromkeys(("rss_bytes", "pss_bytes", "private_bytes", "shared_bytes"), 123_456_789_012)


def test_a_node_on_80_columns() -> None:
    process = {"name": "constructors-0", "pid": 4_194_303, "roles": 128, "generation": 12}
    process |= {"restarts": 3, "memory": SIZES, "connected": True, "host": ""}
    fits(top_view.process_table([process, process]), 4, "constructors-0", "4194303", "pss")
    there = {**process, "name": "loaders-12", "host": "joined-cpu-17@123456", "memory": None}
    fits(top_view.process_table([process, there]), 4, "constructors-0", "cpu-17@123456", "pss")
    gives = {"cores": 192, "memory_bytes": 123_456_789_012, "memory_enforced": True}
    gives |= {"leads_at": "", "lacks": [], "holds": []}
    host = {"name": "joined-cpu-17@123456", "ranks": False, "gives": gives, "groups": 128}
    hosts = [{**host, "lost": False}, {**host, "name": "", "lost": True}]
    fits(top_view.host_table(hosts), 3, "cpu-17@123456", "lead (lost)", "control group")
    source = {
        "source": "web-2024-crawl",
        "loaders": 16,
        "reading": 12,
        "queue": 123,
        "in_work": 32,
        "busy": 0.97,
    }
    source |= {"rows": 123_456_789, "rows_per_s": 123_456.7, "read_bytes": 9e12, "bad_rows": 12}
    source |= {"bytes_per_s": 123e6, "stage": "tokenise", "stage_share": 0.87}
    other = {**source, "source": "code"}
    table = top_view.source_table([source, other], "web-2024-crawl")
    fits(table, 3, "web-2024-crawl (slowest)", "97%", "tokenise 87%", "bad rows")
    rank = {"rank": 1023, "steps_consumed": 1_234_567, "queue": 12, "wait_per_step_s": 12.3456}
    rank |= {"interval_wait_s": 4.0, "wait_s": 123_456.7}
    fits(top_view.rank_table([rank], 5.0, [1023]), 2, "1023 (gone)", "80.0%", "12345.6 ms")


def test_a_run_on_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "rss_bytes", lambda: 123_456_789_012)
    names = ["web-2024-crawl", "code", "books"]
    item = {"asked": 0.3333, "served": 0.3456, "tokens": 123_456_789_012}
    shares = dict.fromkeys(names, 1 / 3)
    loop: Any = SimpleNamespace(
        mixture=lambda: dict.fromkeys(names, item),
        asked_now=lambda: shares,
        losses=object(),
        mean_losses=dict.fromkeys(names, 2.345),
        weights=[{"shares": shares}],
        steps=1_234_567,
        steps_wanted=9_999_999,
        fill=0.9987,
    )
    fits(live_view.mixture_table(loop), 4, "web-2024-crawl", "34.56%", "2.345", "off by")
    console = Console(file=StringIO(), force_terminal=True, width=80)
    view = live_view.RunView(console, loop, live=False)
    fits(view._speed(123.4, 1.23e8), 2, "step 1234567 of 9999999", "123 M tokens/s", "left")
    assert len(view.line(123.4, 1.23e8)) <= 110  # of a log
    memory = dict.fromkeys(("payload_bytes", "payload_limit_bytes"), 123_456_789_012)
    memory |= dict.fromkeys(("pool_held_bytes", "pool_idle_bytes"), 123_456_789_012)
    fits(live_view.memory_line({"memory": memory}), 1, "memory 123 GB", "123 GB idle")


def test_a_table_leaves_out_what_it_can_spare() -> None:
    columns = ["name", *((f"n{i}", "right") for i in range(8))]
    table = make_table(*columns, spare=("n3", "n1"))
    add_rows(table, [["x", *([10**9] * 8)]])
    assert lines_of(table, 120)[0].split() == ["name", *(f"n{i}" for i in range(8))]
    assert lines_of(table, 90)[0].split() == ["name", "n0", "n1", "n2", "n4", "n5", "n6", "n7"]
    narrow = lines_of(table, 40)
    assert "n0" in narrow[0] and "n1" not in narrow[0] and "n3" not in narrow[0]
    assert "…" in narrow[1], "a number that is cut says so"


def progress(name: str, done: int, finished: bool = False) -> SourceProgress:
    return SourceProgress(name, bytes_total=10**9, bytes_done=done, rows=done, finished=finished)


def test_indexing_says_a_line_now_and_then() -> None:
    now, said = 100.0, list[str]()
    lines = LineProgress(said.append, lambda: now)
    for now in (100.0, 105.0, 109.9):  # noqa: B007
        lines.update([progress("web", 1)])
    assert said == []
    now = 110.0
    lines.update([progress("web", 250_000_000), progress("code", 0, finished=True)])
    lines.update([progress("web", 1)])
    assert said == [
        "indexing for 10 s, 1 of 2 sources done: web 25% of 1 GB (250,000,000 rows)",
    ]
    now = 121.0
    lines.update([progress(f"s{i}", 5 * 10**8) for i in range(7)])
    assert len(said) == 2 and said[1].endswith("and 4 more")
    assert progress_line([SourceProgress("new")], 3.2) == "indexing for 3 s, 0 of 1 sources done"


def test_the_command_says_it_where_there_is_no_terminal() -> None:
    now, out = 0.0, StringIO()
    with IndexView(Console(file=out, width=160), lambda: now) as view:
        now = 11.0
        view.update([progress("web", 5 * 10**8)])
    assert (
        out.getvalue()
        == "indexing for 11 s, 0 of 1 sources done: web 50% of 1 GB (500,000,000 rows)\n"
    )


def test_a_job_logs_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overlord._src.index.progress.LINE_SECONDS", 0.0)
    (tmp_path / "a.jsonl").write_bytes(token_lines(made_up_documents(20, seed=1)))
    source = {"files": "a.jsonl", "tokens": "tokens", "eod": EOD}
    with caplog.at_level(logging.INFO, "overlord"):
        ol.job(job_config(tmp_path, {"web": source})).open_stream()
    assert "indexing for 0 s" in caplog.text


def test_slots_that_do_not_read_are_told() -> None:
    assert loaders_text({"loaders": 12, "reading": 12}) == "12"
    assert loaders_text({"loaders": 12, "reading": 3}) == "3 of 12"
