"""AttachedEngine: the engine of a process whose roles live in the node of its host."""

from __future__ import annotations

from typing import Any

from overlord._src.mesh import Mesh
from overlord._src.mix_rule import Rule
from overlord._src.node_process import Attachment
from overlord._src.shared_engine import SharedEngine

_OPENS_PER_ATTEMPT = 1 << 16  # of one stream by one process


class AttachedEngine(SharedEngine):
    """The same over a node process of this host, which holds the sources for all its ranks.

    Nothing of the data is opened here, except by the first rank of the host, which starts the node.
    """

    def __init__(
        self,
        attachment: Attachment,
        options: Any,
        job: str,
        stream: str,
        mesh: Mesh,
        dealing: str,
        restarts: int,
        rule: Rule | None = None,
        hybrid: bool = False,
    ) -> None:
        super().__init__(
            None, attachment.ranks, options, job, stream, mesh, {}, dealing, rule, hybrid
        )
        self._attachment = attachment
        self._restarts = restarts
        self._opened = 0

    def _open(self, blob: bytes | None, allow: tuple[str, ...]) -> Any:
        # All ranks open the same streams in the same order, so they agree on this number.
        self._opened += 1
        attempt = self._restarts * _OPENS_PER_ATTEMPT + self._opened
        attachment = self._attachment.of_reading(self.readings.repeated)
        return attachment.attach(attempt, blob, allow, self.pinning)

    def _has_private_memory(self) -> bool:
        return self.pinning is None  # every rank maps its own pages, but CUDA registers shared ones

    @property
    def source_names(self) -> list[str]:
        """Sources of the stream, in the engine's order; starts the engine."""
        engine = self._engine if self._engine is not None else self.running()
        names: list[str] = engine.source_names
        return names

    def _differences(
        self, blob: bytes, described: dict[str, Any], allow: tuple[str, ...]
    ) -> list[str]:
        return []  # the node compares: it has the data
