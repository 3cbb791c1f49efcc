"""AttachedEngine: the engine of a process whose roles live in the node of its host."""

from __future__ import annotations

from typing import Any

from overlord._src.loader.shared_engine import EngineSettings, SharedEngine
from overlord._src.native import core
from overlord._src.node.process import Attachment


class AttachedEngine(SharedEngine):
    """The same over a node process of this host, which holds the sources for all its ranks.

    Nothing of the data is opened here, except by the first rank of the host, which starts the node.
    """

    def __init__(self, settings: EngineSettings, attachment: Attachment, restarts: int) -> None:
        # Every rank maps its own pages, but CUDA registers shared ones.
        super().__init__(settings, private_memory=settings.pinning is None)
        self._attachment = attachment
        self._restarts = restarts
        self._opened = 0

    def _open(self, blob: bytes | None, allow: tuple[str, ...]) -> core.AttachedEngine:
        # All ranks open the same streams in the same order, so they agree on this number.
        self._opened += 1
        attempt = self._restarts * core.OPENINGS_PER_START + self._opened
        return self._attachment.attach(attempt, blob, allow, self._settings.pinning)

    @property
    def source_names(self) -> list[str]:
        """Sources of the stream, in the engine's order; starts the engine."""
        engine = self._engine or self.running()
        assert isinstance(engine, core.AttachedEngine)
        return engine.source_names

    def _differences(
        self, blob: bytes, described: dict[str, Any], allow: tuple[str, ...]
    ) -> list[str]:
        return []  # the node compares: it has the data
