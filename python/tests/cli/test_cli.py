"""The command line without an engine: parsing, messages, exit codes, schema and reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from overlord.cli import COMMANDS, _module, main

ROOT = Path(__file__).resolve().parents[3]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        assert callable(_module(name).run)


@pytest.mark.parametrize("words", [[], ["bogus"], ["run"], ["run", "x.yaml", "--bogus"]])
def test_bad_words(words: list[str]) -> None:
    assert main(words) == 2


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert "sources" in json.loads(capsys.readouterr().out)["properties"]


def test_reference_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    main(["schema", "--markdown"])
    tables = capsys.readouterr().out
    page = (ROOT / "docs/reference/config.md").read_text()
    assert page.endswith(tables), "overlord schema --markdown gives other tables than the page has"


def test_config_errors_have_one_message_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mix.yaml"
    path.write_text("job: demo\nseed: 7\ncontxt: 64\n")
    assert main(["run", str(path)]) == 2
    error = capsys.readouterr().err
    assert "config error" in error and "did you mean context?" in error
    assert "Traceback" not in error and f"{path}:3" in error


def test_overrides_and_mesh_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mix.yaml"
    path.write_text(
        "job: demo\nseed: 7\ncontext: 64\nbins: 8\nvocabulary: 9\nat_end: stop\n"
        "mixture: {weights: {web: 1}}\nsources: {web: {files: x.bin}}\n"
    )
    assert main(["run", str(path), "--steps", "3", "runtime.thraeds=4"]) == 2
    assert "did you mean threads?" in capsys.readouterr().err
    assert main(["run", str(path), "--steps", "3", "--mesh", "dq=4"]) == 2
    assert "unknown axis" in capsys.readouterr().err
    assert main(["run", str(path), "stray"]) == 2
    assert "no '='" in capsys.readouterr().err


def test_traceback_on_demand(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        main(["run", str(tmp_path / "none.yaml"), "--traceback"])


def test_bench_dispatches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from overlord.cli import bench_command

    seen: list[list[str]] = []

    class Bench:
        """Measures nothing."""

        @staticmethod
        def run(arguments: list[str]) -> dict[str, Any]:
            seen.append(arguments)
            return {"bench": "fake", "figures": {"speed": 1.5}}

    monkeypatch.setattr(bench_command, "bench_names", lambda: ["fake"])
    monkeypatch.setattr(bench_command, "_load", lambda name: Bench)
    report = tmp_path / "report.json"
    assert main(["bench", "fake", "--quick", "--json", str(report)]) == 0
    assert json.loads(report.read_text())["figures"] == {"speed": 1.5} and seen == [["--quick"]]
    assert main(["bench", "--list"]) == 0
    assert "Measures nothing." in capsys.readouterr().out
    assert main(["bench", "fakes"]) == 2
    assert "did you mean fake?" in capsys.readouterr().err


def test_bench_of_a_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list"]) == 0
    told = capsys.readouterr().out
    assert "delivery" in told and "transport" in told


def test_bench_without_a_checkout_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from overlord.cli import bench_command

    installed = tmp_path / "site-packages" / "overlord" / "cli" / "bench_command.py"
    monkeypatch.setattr(bench_command, "__file__", str(installed))
    for words in (["bench"], ["bench", "--list"], ["bench", "delivery", "--json", "x"]):
        assert main(words) == 2
        assert "in the repository, folder benchmarks/" in capsys.readouterr().err


def test_starting_is_cheap() -> None:
    """Time is spent on importing: on large packages, or on very many small modules."""
    code = (
        "import sys; before = set(sys.modules); import overlord, overlord.cli; "
        "more = set(sys.modules) - before; "
        "heavy = more & {'pyarrow', 'pydantic', 'numpy', 'rich', 'torch', 'yaml'}; "
        "assert len(more) < 100 and not heavy, (len(more), heavy)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_closed_pipe_ends_quietly() -> None:
    code = "from overlord.cli import main; import sys; sys.exit(main(['schema']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    os.close(process.stdout.fileno())
    error = process.stderr.read()
    process.wait()
    assert b"Traceback" not in error
