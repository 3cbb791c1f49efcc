"""Commands over the real engine: from an empty folder to a stream hash, and Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from overlord.cli import main
from trainers import until_nothing_left

SMALL_STEP = ["context=256", "bins=8"]


def run_json(config: Path, file: Path, *words: str) -> dict[str, Any]:
    assert main(["run", str(config), "--no-live", "--json", str(file), *words, *SMALL_STEP]) == 0
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def test_from_an_empty_folder_to_a_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mine"
    config = folder / "mix.yaml"
    assert main(["init", str(folder)]) == 0
    assert "overlord run" in capsys.readouterr().out
    assert main(["init", str(folder)]) == 2
    assert main(["index", str(config), "--lengths"]) == 0
    text = capsys.readouterr().out
    assert "forum" in text and "indexed in" in text
    report = run_json(config, tmp_path / "report.json", "--steps", "6", "--mesh", "dp=2,tp=2")
    expected = {
        "steps",
        "tokens",
        "stream_hash",
        "content_hash",
        "fill",
        "mixture",
        "wall_s",
        "peak_rss_bytes",
    }
    assert expected <= set(report)
    assert report["steps"] == 6 and 0.9 < report["fill"] <= 1 and not report["interrupted"]
    assert report["tokens"] == sum(item["tokens"] for item in report["mixture"].values())
    assert report["mixture"]["web"]["asked"] == pytest.approx(0.6)
    assert sum(item["served"] for item in report["mixture"].values()) == pytest.approx(1)
    assert len(report["stream_hash"]) == 32
    text = capsys.readouterr().out
    assert report["stream_hash"] in text and "web 60.00%" in text


def test_runs_repeat(starter: Path, tmp_path: Path) -> None:
    words = [
        ["--mesh", "dp=2,cp=2"],
        ["--mesh", "dp=2,cp=2", "--threads", "1", "--prefetch", "4"],
        ["--mesh", "dp=4"],
    ]
    reports = [run_json(starter, tmp_path / "r.json", "--steps", "4", *word) for word in words]
    assert reports[0]["stream_hash"] == reports[1]["stream_hash"] != reports[2]["stream_hash"]
    assert len({report["content_hash"] for report in reports}) == 1
    unhashed = run_json(starter, tmp_path / "r.json", "--steps", "4", "--no-hash", *words[0])
    assert unhashed["stream_hash"] is None
    assert unhashed["content_hash"] == reports[0]["content_hash"]


def test_engines_give_the_same_stream(starter: Path, tmp_path: Path) -> None:
    sockets = tmp_path / "sockets"
    sockets.mkdir(mode=0o700)
    words = ["--steps", "4", "--mesh", "dp=2,tp=2", f"runtime.processes.directory={sockets}"]
    embedded, processes = (
        run_json(starter, tmp_path / f"{engine}.json", "--engine", engine, *words)
        for engine in ("embedded", "processes")
    )
    for key in ("stream_hash", "content_hash", "tokens", "mixture", "debts"):
        assert embedded[key] == processes[key], key
    assert embedded["node"] is None
    names = [item["name"].partition("@")[0] for item in processes["node"]["processes"]]
    assert names == ["node", "loaders-0", "constructors-0", "rank-0"]
    assert [item["rank"] for item in processes["node"]["ranks"]] == [0, 1, 2, 3]
    until_nothing_left(sockets, "the node and its directory are gone")


def test_the_live_view_shows_processes(starter: Path) -> None:
    from overlord._src.run.run_loop import RunLoop
    from overlord.cli.live_view import RunView
    from rich.console import Console

    import overlord as ol

    job = ol.job(str(starter), mesh="dp=2", overrides=SMALL_STEP)
    console = Console(width=140, record=True, file=io.StringIO())
    for engine, shown in (("embedded", False), ("processes", True)):
        with RunLoop(job, "train", 2, engine=engine) as loop:
            for _ in loop:
                pass
            console.print(RunView(console, loop, live=False).render(1.0, 1.0))
        assert ("constructors-0" in console.export_text()) == shown


def test_a_stream_with_an_end(starter: Path, tmp_path: Path) -> None:
    report = run_json(starter, tmp_path / "r.json", "--stream", "valid", "--steps", "99")
    assert report["steps"] == 4


def test_inspecting(starter: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*words: str) -> str:
        options = [word for item in SMALL_STEP for word in ("--set", item)]
        assert main(["inspect", str(starter), *options, "--mesh", "dp=2,cp=2", *words]) == 0
        return capsys.readouterr().out

    text = shown()
    assert "megatron" in text and "forum 20.00%" in text
    assert shown("sources") == text
    text = shown("sample", "web", "3")
    assert "row 3 of" in text and "text: " in text and "decoded: " in text
    assert "tokens: " in shown("sample", "code", "0")
    text = shown("step", "2")
    assert "step 2:" in text and "file:row" in text and ".parquet:" in text
    text = shown("rank", "1", "--step", "2")
    assert "rank 1 (pp=0, dp=0, cp=1, tp=0), step 2: 4 microbatches" in text
    assert "int32[1, 128]" in text


INSPECT_REFUSALS = [
    (["sample", "wbe", "3"], 2, "did you mean web?"),
    (["sample", "web", "999999"], 1, "999999"),
    (["rank", "9"], 2, "0 to 3"),
]


@pytest.mark.parametrize(("words", "code", "part"), INSPECT_REFUSALS)
def test_what_cannot_be_inspected(
    words: list[str], code: int, part: str, starter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(starter), "--mesh", "dp=4", *words]) == code
    assert part in capsys.readouterr().err


def test_planning(starter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mesh = ["--mesh", "dp=2,cp=2"]
    assert main(["plan", str(starter), "--step", "3", *mesh, *SMALL_STEP]) == 0
    text = capsys.readouterr().out
    assert "step 3:" in text and "content hash" in text and "slice 1 of 2" in text
    assert main(["plan", str(starter), "--step", "3", *mesh, "--json", *SMALL_STEP]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["bins"]) == 8 and plan["capacity"] == 8 * 256
    counted = sum(segment["count"] for item in plan["bins"] for segment in item["segments"])
    assert counted == plan["tokens"]
    words = ["plan", str(starter), "--step", "3", "--rank", "2", "--json", *mesh, *SMALL_STEP]
    assert main(words) == 0
    mine = json.loads(capsys.readouterr().out)
    assert {item["bucket"] for item in mine["bins"]} == {1} and mine["view"]["share"] == "slice"
    assert main(["plan", str(starter), "--step", "-1"]) == 2


def test_past_the_end(starter: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(starter), "--stream", "valid", "--step", "9", *SMALL_STEP]) == 1
    assert "past the end" in capsys.readouterr().err


def test_describing_a_state(
    starter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import overlord as ol

    with ol.job(starter, overrides=SMALL_STEP).train() as loader:
        for _ in range(11):
            next(loader)
        state = loader.state_dict()
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"data": state, "model": 3}))
    assert main(["state", str(file)]) == 0
    text = capsys.readouterr().out
    assert "next is step 1, microbatch 3 on pp=1,dp=1,cp=1,tp=1" in text and "forum" in text
    assert main(["state", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 1
    file.write_text(json.dumps({**state, "step": 5}))
    assert main(["state", str(file)]) == 1
    assert "edited" in capsys.readouterr().err


def test_doctor(starter: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(starter)]) == 0
    text = capsys.readouterr().out
    assert "built with Arrow 25.0" in text and "tokenizer bpe" in text and "all fine" in text
    for codec in ("jpeg", "png", "webp", "audio", "video"):
        assert f"codec {codec}" in text
    assert main(["doctor", str(starter), "--set", "vocabulary=300"]) == 1
    assert "more than vocabulary: 300" in capsys.readouterr().out
    assert main(["doctor", str(starter), "--set", "runtime.open_files=4000000000"]) == 1
    assert "ulimit -n 4000000" in capsys.readouterr().out


def test_doctor_looks_at_what_a_node_needs(
    starter: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from overlord._src.checkup import node as node_checkup

    def shown(*words: str) -> str:
        capsys.readouterr()
        main(["doctor", str(starter), *words])
        return " ".join(capsys.readouterr().out.split())

    text = shown("--mesh", "dp=4,tp=2", "--set", "runtime.processes.isolate=[web]")
    for word in ("ok overlord-node", "ok sealed memory", "/dev/shm", "locked memory"):
        assert word in text
    assert "loaders-1 (1 roles), constructors-0 (4 roles)" in text
    assert "source web: a process of its own, as declared" in text
    assert "isolate names 'wbe'" in shown("--set", "runtime.processes.isolate=[wbe]")
    assert "lower runtime.processes.loaders" in shown(
        "--mesh", "dp=512", "--set", "runtime.processes.constructors=256"
    )
    missing = "runtime.processes.directory=/nowhere"
    assert "FAIL socket directory" in shown("--set", missing)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65536, 65536))
    assert "warn locked memory" in shown() and "ulimit -l unlimited" in shown()
    monkeypatch.setattr(node_checkup, "_ADD_SEALS", 999_999)
    assert "FAIL sealed memory" in shown() and 'engine="embedded" works without' in shown()


def test_files_that_changed_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mine"
    config = folder / "mix.yaml"
    main(["init", str(folder)])
    assert main(["index", str(config)]) == 0
    shard = next((folder / "data/web").iterdir())
    shard.rename(shard.with_name("web-zzz.parquet"))
    assert main(["run", str(config), "--steps", "1"]) == 1
    error = capsys.readouterr().err
    assert "web-zzz.parquet appeared" in error and f"{shard.name} vanished" in error
    assert main(["index", str(config)]) == 0
    for path in (folder / "data/web").iterdir():
        path.unlink()
    assert main(["run", str(config), "--steps", "1"]) == 2
    assert "sources.web.files.0" in capsys.readouterr().err


def test_a_file_in_two_sources_is_refused(
    starter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", str(starter), "--steps", "1", "sources.forum.files=data/web/*.parquet"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "already belongs to source forum" in error and "allow_duplicates" in error


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "overlord", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.parametrize("moment", ["job 'starter'", "mixture by", "step "])
def test_ctrl_c_ends_cleanly(moment: str, starter: Path) -> None:
    """Before the engine starts, while it starts, and while it runs."""
    process = start("run", str(starter), "--no-live", "--mesh", "dp=2,tp=2", *SMALL_STEP)
    assert process.stdout is not None
    while not process.stdout.readline().startswith(moment):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert process.returncode == 130, error
    assert "Traceback" not in error and error.splitlines()[-1] == "interrupted"


def test_a_warning_is_a_line_and_told_once(starter: Path, tmp_path: Path) -> None:
    own_index = f"index_dir={tmp_path}"  # made by this run
    process = start("run", str(starter), "--no-live", "--steps", "1", own_index, *SMALL_STEP)
    told, error = process.communicate()
    warned = [line for line in (told + error).splitlines() if "source code: 34 of" in line]
    assert [line.partition(": ")[0] for line in warned] == ["warning"]
    assert "UserWarning" not in error and "run_job" not in error


def test_the_live_view_draws(starter: Path) -> None:
    from io import StringIO

    from overlord._src.config.reading import read_config
    from overlord._src.job.job import Job
    from overlord._src.mesh import Mesh
    from overlord._src.run.run_loop import RunLoop
    from overlord.cli.live_view import RunView
    from rich.console import Console

    console = Console(file=StringIO(), force_terminal=True, width=120, height=50)
    job = Job(read_config(starter, overrides=SMALL_STEP), Mesh.parse("pp=2,dp=2,cp=2,tp=2"))
    with RunLoop(job, "train", 5) as loop, RunView(console, loop, live=True) as view:
        for _ in loop:
            console.print(view.render(2.0, 1e6))
            view.update()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("16 ranks", "asked now", "planner", "constructors", "clients", "memory "):
        assert part in text
