"""Jobs that chaos comes over, each with another way to be disturbed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from corpora import write_megatron
from overlord._src.native import core
from survivors import Attempt, Reference, Ways, children_of
from trainers import nothing_left, processes_of

import overlord as ol

MESH = {"dp": 2}
ATTACH_SECONDS = 8
ROWS = 16  # few at a time, so that tokenizers are asked often
KINDS = ("node", "loaders", "constructors", "tokenizer")


def with_shadows(told: dict[str, Any], _: Path) -> None:
    for source in told["sources"].values():
        source["shadows"] = 1


def with_feedback(schedule: dict[str, Any]) -> Callable[[dict[str, Any], Path], None]:
    def follow(told: dict[str, Any], _: Path) -> None:
        told["mixture"] |= {"schedule": schedule, "feedback": {"delay": 3, "reporters": [0, 1]}}

    return follow


def with_late_rows(told: dict[str, Any], folder: Path) -> None:
    """Documents with ids that no vocabulary has: their lengths are known, their bytes are not."""
    dice = np.random.default_rng(2)
    documents = [dice.integers(1, 100, dice.integers(5, 60)) for _ in range(400)]
    for bad in range(7, 400, 40):
        documents[bad][2] = 1_000_000
    write_megatron(folder / "late", [[document] for document in documents], "int32")
    late = {"files": str(folder / "late.bin"), "bad_rows_allowed": 1_000_000}
    told["sources"]["late"] = late
    told["mixture"]["weights"]["late"] = 0.3


# What a job has beside text, tokenizers and ready tokens; and what its ranks do.
CHANGES: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "shadows": with_shadows,
    "losses": with_feedback({"kind": "odm"}),
    "rule": with_feedback({"kind": "rule", "version": 1}),
    "late_rows": with_late_rows,
}
WAYS = {
    "losses": Ways(reports=True),
    "rule": Ways(reports=True, rule="more_of_the_worst"),
    "rebuild": Ways(meshes=[{"cp": 2}, {"dp": 2}]),
}
JOBS = ("plain", "shadows", "losses", "rule", "late_rows", "rebuild")
# Of others more is in the journal before a rank reads on: reports, bad rows, changes of the mesh.
NEEDS_PLANS_ALONE = ("plain", "shadows")


class Job:
    """A config whose sockets lie in a folder of their own, and what its ranks have to see."""

    def __init__(
        self, starter: Path, folder: Path, kind: str = "plain", disk: Path | None = None
    ) -> None:
        self.kind = kind
        self.disk = disk  # of the journal, where it has one of its own
        self.sockets = folder / "sockets"
        self.sockets.mkdir(mode=0o700)
        told = yaml.safe_load(starter.read_text())
        told |= {"context": 256, "bins": 4, "index_dir": str(folder / "index")}
        told["sources"]["web"]["window_rows"] = ROWS
        told["runtime"] |= {
            "processes": {
                "directory": str(self.sockets),
                "loaders": 2,
                "attach_seconds": ATTACH_SECONDS,
            },
        }
        ways = WAYS.get(kind, Ways())
        CHANGES.get(kind, lambda *_: None)(told, folder)
        config = starter.with_name(f"{folder.name}.yaml")
        alone = starter.with_name(f"{folder.name}-alone.yaml")
        if disk is not None:
            told["runtime"]["journal"] = str(disk / "journal")
        config.write_text(yaml.safe_dump(told))
        self.config = str(config)
        told["runtime"].pop("journal", None)
        for source in told["sources"].values():  # one process has no shadows
            source.pop("shadows", None)
        alone.write_text(yaml.safe_dump(told))
        self.reference = Reference(str(alone), MESH, ways)
        self.reference.at(0, 0)  # builds the indexes

    @contextlib.contextmanager
    def explained(self, attempt: Attempt) -> Iterator[None]:
        """What the job waits for when something is late."""
        try:
            yield
        except AssertionError as error:
            for rank in attempt.ranks:
                error.add_note(f"rank {rank.rank} is at step {rank.step}, its end: {rank.end}")
            if status := self.status():
                kept = ("waits", "gone", "recoveries", "term", "planner", "clients")
                error.add_note(str({name: status[name] for name in kept}))
            error.add_note(str(processes_of(self.sockets)))
            raise

    def status(self) -> dict[str, Any]:
        """What the node says of itself; nothing while there is none."""
        for folder in self.sockets.iterdir():
            with contextlib.suppress(ol.OverlordError):
                return core.ask_node(str(folder))
        return {}

    def attempt(self, **told: object) -> Attempt:
        return Attempt(self.config, MESH, self.reference, **told)  # type: ignore[arg-type]

    def processes(self, victim: str) -> list[int]:
        """The processes of one kind, now."""
        found = processes_of(self.sockets)
        if victim == "node":
            return [pid for pid, name in found.items() if name.endswith("overlord-node")]
        if victim == "tokenizer":
            return sorted(children_of(set(self.processes("loaders"))))
        if victim == "several":
            return self.processes("loaders") + self.processes("constructors")
        if victim == "any":
            return [pid for name in KINDS for pid in self.processes(name)]
        return [pid for pid, name in found.items() if name.startswith(f"overlord: {victim}")]

    def gone(self) -> bool:
        strangers = set(processes_of(Path(self.config).parent)) - children_of({os.getpid()})
        return nothing_left(self.sockets) and not strangers  # the reference tokenises here
