"""A control group of our own with a limit of memory, where the kernel lets us make one (cgroup v2).

What we start lives in it with us: at the limit the kernel drops what the group has read of files,
and where that is not enough it kills in the group, and nowhere else. No `memory.high`: it slows
processes to a crawl without an end, and who crawls is worse than who is started again elsewhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GroupTree:
    """Where control groups are found; others than the kernel's are for tests."""

    root: Path = Path("/sys/fs/cgroup")
    told: Path = Path("/proc/self/cgroup")

    def own(self) -> Path:
        """The group of this process; OSError says why there is none with a limit of memory."""
        if not (self.root / "cgroup.controllers").exists():
            raise OSError(f"{self.root} has no control groups of version 2")
        for line in self.told.read_text().splitlines():
            if line.startswith("0::"):
                return self.root / line[3:].strip("/")
        raise OSError(f"{self.told} names no control group of version 2")

    def obstacle(self) -> str:
        """Why no group with a limit can be made; empty: it can, as far as can be seen."""
        try:
            own = self.own()
            if "memory" not in (own / "cgroup.controllers").read_text().split():
                return f"{own} does not control memory"
            for path in (own, own / "cgroup.procs"):
                if not os.access(path, os.W_OK):
                    return f"{path} cannot be written to: have it delegated (systemd: Delegate=yes)"
            others = set((own / "cgroup.procs").read_text().split()) - {str(os.getpid())}
        except OSError as error:
            return str(error)
        if others and not _limits_below(own):
            return f"{own} has other processes beside this one: run it in a group of its own"
        return ""


def _limits_below(group: Path) -> bool:
    """Whether groups below this one have limits of memory already."""
    return "memory" in (group / "cgroup.subtree_control").read_text().split()


@contextlib.contextmanager
def limited_memory(size: int, tree: GroupTree | None = None) -> Iterator[str]:
    """This process and all that it starts meanwhile have so many bytes; or else says why not."""
    tree = tree or GroupTree()
    why = tree.obstacle()
    if why:
        yield why
        return
    own = tree.own()
    made, opened = own / f"overlord-{os.getpid()}", False
    with contextlib.ExitStack() as undo:
        try:
            made.mkdir()
            undo.callback(_quietly, made.rmdir)
            (made / "cgroup.procs").write_text(str(os.getpid()))
            undo.callback(_quietly, (own / "cgroup.procs").write_text, str(os.getpid()))
            if not _limits_below(own):  # which no group with processes may have
                (own / "cgroup.subtree_control").write_text("+memory")
                opened = True
            (made / "memory.max").write_text(str(size))
        except OSError as error:
            why = f"{made}: {error}"
        if opened:
            undo.callback(_quietly, (own / "cgroup.subtree_control").write_text, "-memory")
        if why:
            undo.close()
        yield why


def _quietly(call: object, *arguments: object) -> None:
    """Tidies up; what cannot be is left to whom the group above belongs."""
    assert callable(call)
    with contextlib.suppress(OSError):
        call(*arguments)
