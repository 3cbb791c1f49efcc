"""Where the keeper of a job under Ray serves the ranks of its own host, found without Ray."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

_RANKS = "ranks"  # the file in it


@dataclass(frozen=True)
class KeeperPlace:
    """Its directory, the same for all that agree on the job, and which ranks attach there."""

    path: str

    @classmethod
    def of(cls, key: str, base: Path) -> KeeperPlace:
        """`key` is what the ranks agree on."""
        digest = hashlib.blake2b(f"{key} under ray".encode(), digest_size=8).hexdigest()
        return cls(str(base / f"overlord-{os.geteuid()}-{digest}"))

    def ranks(self) -> list[int]:
        """Those that share the keeper's host, if it is this one."""
        try:
            ranks: list[int] = json.loads((Path(self.path) / _RANKS).read_text())
        except FileNotFoundError:
            return []
        return ranks

    def tell(self, ranks: list[int]) -> None:
        """Say it, whole or not at all, in the directory that the keeper has made."""
        file = Path(self.path) / _RANKS
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(ranks))
        draft.replace(file)
