"""AttachedEngine: the engine of a process whose roles live in the node of its host."""

from __future__ import annotations

from typing import Any

from overlord._src.loader import SharedEngine
from overlord._src.mesh import Mesh
from overlord._src.mix_rule import Rule, RuleDesk
from overlord._src.node_process import Attachment

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
            None, attachment.ranks, options, job, stream, mesh, {}, dealing, None, hybrid
        )
        self._attachment = attachment
        self._restarts = restarts
        self._opened = 0
        self._rule = rule

    def _open(self, blob: bytes | None, allow: tuple[str, ...]) -> Any:
        # All ranks open the same streams in the same order, so they agree on this number.
        self._opened += 1
        attempt = self._restarts * _OPENS_PER_ATTEMPT + self._opened
        engine = self._attachment.attach(attempt, blob, allow, self.pinning)
        if self._rule is not None:
            self.rule_desk = RuleDesk(self._rule, engine.source_names, self._options.reporters)
        return engine

    @property
    def source_names(self) -> list[str]:
        """Sources of the stream, in the engine's order; starts the engine."""
        names: list[str] = self.running().source_names
        return names

    def _differences(
        self, blob: bytes, described: dict[str, Any], allow: tuple[str, ...]
    ) -> list[str]:
        return []  # the node compares: it has the data
