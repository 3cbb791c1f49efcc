"""What tests look at jobs with: it must bear that everything ends while it looks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from trainers import in_time, kill_all, left_of, processes_of


def test_a_folder_may_be_removed_while_it_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "sockets" / "node"
    (node / "deeper").mkdir(parents=True)
    (node / "lock").touch()
    scan = os.scandir

    def removed_first(path: str | os.PathLike[str] = ".") -> Iterator[os.DirEntry[str]]:
        if path == str(node) or path == node:
            shutil.rmtree(node)
        return scan(path)

    monkeypatch.setattr(os, "scandir", removed_first)
    assert left_of(tmp_path / "sockets") == [str(node)]
    assert left_of(tmp_path / "sockets") == []
    assert left_of(tmp_path / "nowhere") == []


def test_a_process_may_end_before_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(
        ["overlord: loaders-0", "-c", "input()", str(tmp_path)],
        executable=sys.executable,
        stdin=subprocess.PIPE,
    ) as process:
        named = {process.pid: "overlord: loaders-0"}  # a moment after the program was replaced
        in_time(lambda: processes_of(tmp_path) == named, "the process has its name")

        def too_late(pid: int, number: int) -> None:
            raise ProcessLookupError(pid)

        with monkeypatch.context() as patched:
            patched.setattr(os, "kill", too_late)
            assert not kill_all(tmp_path, "loaders")
        assert kill_all(tmp_path, "loaders")
        process.wait()
    assert not kill_all(tmp_path, "loaders")
