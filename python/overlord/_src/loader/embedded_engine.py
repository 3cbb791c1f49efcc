"""EmbeddedEngine: an engine whose roles live in the process that reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from overlord._src.functions.transform_threads import TransformThreads
from overlord._src.job.open_stream import OpenStream
from overlord._src.loader.shared_engine import EngineSettings, SharedEngine
from overlord._src.native import core
from overlord._src.state import saved_state as states
from overlord._workers.tokenizer_worker import worker_command


class EmbeddedEngine(SharedEngine):
    """All roles of a stream in this process."""

    def __init__(
        self,
        settings: EngineSettings,
        stream: OpenStream,
        journal_path: str,
        told: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        # Ranks of one engine see the same arrays.
        super().__init__(settings, private_memory=len(settings.ranks) == 1)
        self._stream = stream
        self._journal_path = journal_path
        self._told = told  # of the sources, when it starts
        self._threads: TransformThreads | None = None

    def _open(self, blob: bytes | None, allow: tuple[str, ...]) -> core.Engine:
        if self._stream.transforms:
            self._threads = TransformThreads(self._stream.transforms)
        return self._stream.native.open(
            self.ranks,
            self._options,
            blob,
            worker_command(),
            allow_mixture="mixture" in allow,
            allow_sources="sources" in allow,
            allow_batch="batch" in allow,
            journal_path=self._journal_path,
            pinning=self._settings.pinning,
            transforms=self._threads.native if self._threads is not None else None,
            told=self._told(),
        )

    def _stop(self) -> None:
        super()._stop()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.close()

    @property
    def source_names(self) -> list[str]:
        """Sources of the stream, in the engine's order."""
        return self._stream.source_names

    def _differences(
        self, blob: bytes, described: dict[str, Any], allow: tuple[str, ...]
    ) -> list[str]:
        job = self._stream.native
        digests = self._stream.source_digests
        return states.differences(
            described, job.section_digests(), digests, job.changed_data(blob), allow
        )
