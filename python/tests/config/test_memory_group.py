"""A control group with a limit of memory: where one can be made, and who is told why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from overlord._src.node.memory_group import GroupTree, limited_memory

OURS = str(os.getpid())


@pytest.fixture
def tree(tmp_path: Path) -> GroupTree:
    """As a container or a service with delegated groups has it."""
    own = tmp_path / "root" / "jobs" / "ours"
    own.mkdir(parents=True)
    (tmp_path / "root" / "cgroup.controllers").write_text("cpu memory\n")
    (own / "cgroup.controllers").write_text("cpu memory\n")
    (own / "cgroup.subtree_control").write_text("")
    (own / "cgroup.procs").write_text(f"{OURS}\n")
    (tmp_path / "told").write_text("3:cpuset:/\n0::/jobs/ours\n")
    return GroupTree(tmp_path / "root", tmp_path / "told")


def test_a_group_of_its_own_has_the_limit(tree: GroupTree) -> None:
    own = tree.own()
    with limited_memory(1000, tree) as why:
        assert why == ""
        made = own / f"overlord-{OURS}"
        assert (made / "cgroup.procs").read_text() == OURS
        assert (made / "memory.max").read_text() == "1000"
        assert (own / "cgroup.subtree_control").read_text() == "+memory"
    assert (own / "cgroup.procs").read_text() == OURS
    assert (own / "cgroup.subtree_control").read_text() == "-memory"


def test_groups_that_have_limits_already_are_left_so(tree: GroupTree) -> None:
    own = tree.own()
    (own / "cgroup.subtree_control").write_text("memory\n")
    (own / "cgroup.procs").write_text(f"1\n{OURS}\n")  # others need not leave then
    with limited_memory(1000, tree) as why:
        assert why == ""
    assert (own / "cgroup.subtree_control").read_text() == "memory\n"


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("root/cgroup.controllers", None, "version 2"),
        ("told", "4:memory:/jobs\n", "names no control group"),
        ("root/jobs/ours/cgroup.controllers", "cpu\n", "does not control memory"),
        ("root/jobs/ours/cgroup.procs", "1\nOURS\n", "other processes"),
        ("root/jobs/ours/cgroup.procs", None, "cgroup.procs"),
    ],
)
def test_who_may_not_is_told_why(
    tree: GroupTree, tmp_path: Path, path: str, text: str | None, why: str
) -> None:
    if text is None:
        (tmp_path / path).unlink()
    else:
        (tmp_path / path).write_text(text.replace("OURS", OURS))
    with limited_memory(1000, tree) as told:
        assert why in told
    assert not list(tmp_path.rglob("overlord-*"))


def test_a_limit_that_is_not_taken_is_undone(tree: GroupTree) -> None:
    own = tree.own()
    (own / f"overlord-{OURS}" / "memory.max").mkdir(parents=True)  # as if left by another
    with limited_memory(1000, tree) as why:
        assert "overlord-" in why
    assert (own / "cgroup.procs").read_text().strip() == OURS


@pytest.mark.skipif(bool(GroupTree().obstacle()), reason=GroupTree().obstacle())
def test_the_kernel_ends_who_takes_more() -> None:
    with limited_memory(2 << 30) as why:
        assert why == ""
        for mebibytes, ends in ((16, 0), (4096, -9)):
            code = f"x = bytes(range(256)) * ({mebibytes} << 12)"
            assert subprocess.run([sys.executable, "-c", code], check=False).returncode == ends
