"""OpenStream: one stream of a job with its data found, indexed and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overlord._src.config.columns import base_name
from overlord._src.config.reading import LoadedConfig
from overlord._src.config.streams import ResolvedStream
from overlord._src.functions.callouts import AnyFunction, answer_request
from overlord._src.functions.transforms import ThreadTransform, thread_transforms
from overlord._src.index import indexing
from overlord._src.lowering import job_spec as lowering
from overlord._src.mesh import Mesh
from overlord._src.native import core
from overlord._workers.tokenizer_worker import worker_command


def _files_elsewhere(loaded: LoadedConfig, resolved: ResolvedStream, name: str) -> list[str]:
    """What the index of a source names, whose files this host does not have."""
    return indexing.indexed_files(loaded, lowering.lower_source(loaded, resolved, name, []))


@dataclass(frozen=True)
class OpenStream:
    """One stream with its sources found, indexed and checked."""

    resolved: ResolvedStream
    sources: list[core.Source]
    infos: list[dict[str, Any]]
    native: core.Job
    functions: Mapping[str, AnyFunction]
    transforms: Mapping[str, ThreadTransform]  # of lane thread

    @staticmethod
    def open(
        loaded: LoadedConfig,
        mesh: Mesh,
        resolved: ResolvedStream,
        functions: Mapping[str, AnyFunction],
        *,
        may_lack: bool = False,
    ) -> OpenStream:
        """Find, index where missing, and check everything that a stream reads.

        `may_lack`: a source whose files are all missing is taken from its index, for loaders that
        live elsewhere.
        """
        names = resolved.mixture.source_names()
        whole = list(dict.fromkeys(base_name(item) for item in names))
        lacking = {
            source: _files_elsewhere(loaded, resolved, source)
            for source in whole
            if may_lack and lowering.lacks_files(loaded, source)
        }
        files = {
            source: lacking.get(source) or lowering.list_source_files(loaded, source)
            for source in whole
        }
        lowering.check_shared_files(loaded, files)
        indexed, sources = (
            [
                lowering.lower_source(
                    loaded,
                    resolved,
                    item,
                    files[base_name(item)],
                    files_here=not lacking.get(base_name(item)),
                )
                for item in items
            ]
            for items in (whole, names)
        )
        config = loaded.config
        indexing.ensure_indexes(loaded, indexed, config.runtime.threads)
        infos = [indexing.check_indexed_files(loaded, source) for source in sources]
        spec = lowering.lower_stream(loaded, resolved, sources)
        native = core.Job(
            spec,
            lowering.lower_delivery(config.delivery, resolved, config.strategy),
            lowering.lower_mesh(mesh),
            [str(indexing.index_path(loaded, source)) for source in sources],
        )
        threads = thread_transforms(loaded, sources)
        return OpenStream(resolved, sources, infos, native, functions, threads)

    def cursor(self, state: bytes | None = None, *, place: bool = True) -> core.PlanCursor:
        """Plans one after another, from a state on; without `place` in arrival order."""
        names = self.source_names

        def call(request: Any) -> Any:
            return answer_request(request, self.functions, names)

        return self.native.planner(
            state, worker_command(), call if self.functions else None, place=place
        )

    @property
    def source_names(self) -> list[str]:
        """Names of its sources, in the engine's order."""
        return [source.name for source in self.sources]

    @property
    def source_digests(self) -> dict[str, str]:
        """What stands for the data of each source."""
        return {
            name: info["digest"][-16:]  # as a state keeps them
            for name, info in zip(self.source_names, self.infos, strict=True)
        }
