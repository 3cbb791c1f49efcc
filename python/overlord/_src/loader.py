"""Loader: the iterator a trainer holds for one rank. RankLoaders: several ranks of one process."""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from overlord._src import state as states
from overlord._src.callouts import AnyFunction
from overlord._src.errors import ConfigError, Problem
from overlord._src.function_desk import FunctionDesk
from overlord._src.loss_sums import known_source, quantised
from overlord._src.mesh import Mesh, as_mesh
from overlord._src.microbatch import Microbatch
from overlord._src.mix_rule import Rule, RuleDesk
from overlord._src.native import core
from overlord._src.time_reports import TimeReports, Times, write_reports
from overlord._src.transform_threads import TransformThreads
from overlord._src.transforms import ThreadTransform
from overlord._tokenizer_worker import worker_command

_WAIT_SECONDS = 1.0  # the engine looks for signals more often than that
_TIMES_KEPT = 4096  # steps whose reported times a loader keeps
_LOG = logging.getLogger("overlord")


def _essential(mesh_text: str) -> list[str]:
    """The axes of a mesh that have more than one rank."""
    return [axis for axis in mesh_text.split(",") if not axis.endswith("=1")]


@lru_cache(maxsize=64)
def _peers_of(mesh: Mesh, rank: int) -> tuple[int, ...]:
    return tuple(mesh.peers(rank))


# Threads that wait for a batch must come back before the interpreter ends.
_LIVE: weakref.WeakSet[SharedEngine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for engine in list(_LIVE):
        engine.close()


class SharedEngine:
    """The engine behind the loaders of one process; it starts with the first batch."""

    def __init__(
        self,
        native_job: Any,
        ranks: Sequence[int],
        options: Any,
        job: str,
        stream: str,
        mesh: Mesh,
        source_digests: Mapping[str, str],
        dealing: str,
        rule: Rule | None = None,
        hybrid: bool = False,
        functions: Mapping[str, AnyFunction] | None = None,
        transforms: Mapping[str, ThreadTransform] | None = None,
    ) -> None:
        self.ranks = list(ranks)
        self.job = job
        self.stream = stream
        self.mesh = mesh
        self._native_job = native_job
        self._options = options
        self._source_digests = dict(source_digests)
        self._dealing = dealing
        self.hybrid = hybrid
        self.rule_desk = RuleDesk(rule, self.source_names, options.reporters) if rule else None
        self.writable = False  # batches on private pages
        self.slicing = "sequence_zigzag"  # of context-parallel ranks
        self.pinning: Any = None  # who registers their memory with CUDA
        self._functions = dict(functions or {})
        self._desk: FunctionDesk | None = None
        self._transforms = dict(transforms or {})
        self._transform_desk: TransformThreads | None = None
        self._engine: Any = None
        self._closed = False
        self._starting = threading.Lock()
        _LIVE.add(self)

    @property
    def alarm_seconds(self) -> float:
        """How long a batch may be late before the log names what is waited for."""
        return max(float(self._options.alarm_ms) / 1000, _WAIT_SECONDS)

    def layout(self, rank: int, mesh: Mesh | None = None) -> str:
        """What a state saved inside a step is bound to: the mesh, and how bins are dealt.

        With hybrid data parallelism also to the consumer: each has its own number of microbatches.
        """
        mesh = mesh or self.mesh
        own = f",consumer {mesh.peers(rank).index(rank)}" if self.hybrid else ""
        return f"{mesh.text()},{self._dealing}{own}"

    def rebuild(self, mesh: Mesh, step: int | None) -> int:
        """Plan for another mesh from a step on, and tell which."""
        if step is not None and (isinstance(step, bool) or not isinstance(step, int) or step < 0):
            raise ConfigError(Problem(("step",), "not a step", step, "an integer >= 0, or None"))
        return int(self.running().rebuild(list(mesh.axes), step))

    def mesh_of(self, tree: int) -> Mesh:
        """The mesh of a version of the tree."""
        return self.mesh if tree == 1 else Mesh.from_axes(self.running().axes_of(tree))

    @property
    def started(self) -> bool:
        """Whether the engine runs."""
        return self._engine is not None

    @property
    def closed(self) -> bool:
        """Whether it was closed for good."""
        return self._closed

    def running(self) -> Any:
        """The engine, started where it was not."""
        with self._starting:  # ranks may be read from threads of their own: one engine for all
            if self._closed:
                raise RuntimeError("the loader is closed; make another one with job.train(...)")
            if self._engine is None:
                self._start(None, ())
            return self._engine

    def start(self, blob: bytes | None, allow: tuple[str, ...]) -> None:
        """Start from a state, or from step 0; what ran before is stopped."""
        with self._starting:
            self._start(blob, allow)

    def _open(self, blob: bytes | None, allow: tuple[str, ...]) -> Any:
        if self._functions:
            self._desk = FunctionDesk(self._functions, self.source_names)
        if self._transforms:
            self._transform_desk = TransformThreads(self._transforms)
        return self._native_job.open(
            self.ranks,
            self._options,
            blob,
            worker_command(),
            allow_mixture="mixture" in allow,
            allow_sources="sources" in allow,
            callouts=self._desk.native if self._desk is not None else None,
            pinning=self.pinning,
            transforms=self._transform_desk.native if self._transform_desk is not None else None,
        )

    def _start(self, blob: bytes | None, allow: tuple[str, ...]) -> None:
        self._stop()
        try:
            engine = self._open(blob, allow)
        except BaseException:
            self._stop()
            raise
        self._engine = engine
        if self.rule_desk is not None:
            described = self.describe(engine.client(self.ranks[0]).state())
            self.rule_desk.begin(described["step"], described["weights"])
        if self._closed:  # closed from another thread while it started
            self._stop()
            raise RuntimeError("the loader was closed while it started")

    def _stop(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        desk, self._desk = self._desk, None
        if desk is not None:
            desk.close()
        threads, self._transform_desk = self._transform_desk, None
        if threads is not None:
            threads.close()

    def close(self) -> None:
        """Stop all roles. Batches that are held stay valid."""
        self._closed = True
        self._stop()

    @property
    def source_names(self) -> list[str]:
        """Sources of the stream, in the engine's order."""
        return sorted(self._source_digests)

    def quarantine(self) -> list[dict[str, Any]]:
        """Rows found bad so far, with the names of their sources."""
        names = self.source_names
        rows: list[dict[str, Any]] = self.running().quarantine()
        return [{**row, "source": names[row["source"]]} for row in rows]

    def describe(self, blob: bytes) -> dict[str, Any]:
        """What the engine says of an encoded state."""
        described: dict[str, Any] = core.describe_state(blob)
        return described

    def described(self, rank: int) -> dict[str, Any]:
        """What the engine says of the state of a rank, now."""
        return self.describe(self.running().client(rank).state())

    def weights(self, rank: int) -> dict[str, float]:
        """The newest share of each source of a mixture that follows losses, as a rank knows it."""
        found: dict[str, int] = self.described(rank)["weights"]
        total = sum(found.values()) or 1
        return {name: weight / total for name, weight in found.items()}

    def state_dict(self, blob: bytes, rank: int, mesh: Mesh) -> dict[str, Any]:
        """The state dict around an encoded state of a rank."""
        return states.build_state(blob, self.describe(blob), self.job, self.layout(rank, mesh))

    def check_state(self, state: Any, allow: Sequence[str]) -> bytes:
        """The blob of a state that fits this job; otherwise an error that says what differs."""
        unknown = [name for name in allow if name not in states.ALLOWABLE]
        if unknown:
            raise ValueError(
                f"allow: unknown change {unknown[0]!r}; allowed: {', '.join(states.ALLOWABLE)}"
            )
        try:
            blob, bound_mesh = states.open_state(state)
        except states.StateVersionError as error:
            raise core.VersionMismatchError(str(error)) from None
        except states.StateError as error:
            raise core.StateMismatchError(str(error)) from None
        described = self.describe(blob)
        edited = states.edited_fields(state, described)
        if edited:
            raise core.StateMismatchError("the state was edited: " + "; ".join(edited))
        for what, saved, now in (
            ("job", state["job"], self.job),
            ("stream", described["stream"], self.stream),
        ):
            if saved != now:
                raise core.StateMismatchError(f"the state is of {what} {saved!r}, this is {now!r}")
        found = self._differences(blob, described, tuple(allow))
        layouts = sorted({self.layout(rank) for rank in self.ranks}) if bound_mesh else []
        if bound_mesh and [_essential(bound_mesh)] != [_essential(layout) for layout in layouts]:
            found.append(
                f"mesh: saved inside step {described['step']}, after {described['microbatch']} "
                f"microbatches on {bound_mesh}, now {' and '.join(layouts)}; another mesh can go "
                "on from a state saved at a step boundary"
                + (", and so can another rank" if self.hybrid else "")
            )
        if found:
            raise core.StateMismatchError(states.refusal(found))
        return blob

    def _differences(
        self, blob: bytes, described: dict[str, Any], allow: tuple[str, ...]
    ) -> list[str]:
        job = self._native_job
        return states.differences(
            described, job.section_digests(), self._source_digests, job.changed_data(blob), allow
        )


class Loader(Iterator[Microbatch]):
    """Microbatches of one rank, in order. Stop it with `close()`, a `with` block, or `del`.

    The engine starts with the first `next()` or `load_state_dict()`. A loader has no length:
    ask the config for `steps`.
    """

    def __init__(self, shared: SharedEngine, rank: int, *, owner: bool = True) -> None:
        self._shared = shared
        self._rank = rank
        self._owner = owner
        self._client: Any = None
        self._ended = False
        self._tree = 1
        self._set_mesh(shared.mesh)
        self.reported_times: deque[tuple[int, dict[str, float]]] = deque(maxlen=_TIMES_KEPT)
        self._times = TimeReports(rank)

    @property
    def rank(self) -> int:
        """The rank whose batches these are."""
        return self._rank

    @property
    def mesh(self) -> Mesh:
        """The mesh of the step that `next()` returned a batch of last; see `rebuild`."""
        return self._mesh

    def _set_mesh(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._peers = partial(_peers_of, mesh, self._rank)  # batches must not hold the loader

    def rebuild(self, mesh: Mesh | str | Mapping[str, int], step: int | None = None) -> int:
        """Change the mesh of the running job at a step boundary; gives the first step on it.

        `mesh` has the same ranks on other axes, as `ol.mesh(dp=2, tp=2)`, `"dp=2,tp=2"` or a dict.
        Steps from `step` on are planned for it, or from the first that is not planned yet. One
        rank's call is enough, and ranks that all ask for the same mesh get the same answer. What
        the steps hold does not change. `mesh` of a loader is the new one when `next()` has returned
        its first batch of that step.
        """
        wanted = as_mesh(mesh)
        return self._shared.rebuild(wanted, step)

    def _connected(self) -> Any:
        if self._client is None:
            self._client = self._shared.running().client(self._rank)
        return self._client

    def __iter__(self) -> Loader:
        return self

    def __next__(self) -> Microbatch:
        if self._ended:
            raise StopIteration
        client = self._connected()
        waited = 0.0
        while True:
            try:
                native = client.next(_WAIT_SECONDS)
            except core.DeadlineError as late:
                if self._shared.closed:
                    raise RuntimeError("the loader was closed while a batch was awaited") from None
                before, waited = waited, waited + _WAIT_SECONDS
                if before // self._shared.alarm_seconds < waited // self._shared.alarm_seconds:
                    _LOG.warning("no batch for %.0f s: %s", waited, late)
                continue
            if native is None:
                self._ended = True
                raise StopIteration
            tree = client.tree
            if tree != self._tree:
                self._tree = tree
                self._set_mesh(self._shared.mesh_of(tree))
            batch = Microbatch(native, self._peers, self._shared.writable, self._shared.slicing)
            self._times.note(batch)
            return batch

    def steps(self) -> Iterator[list[Microbatch]]:
        """Whole steps: the microbatches of each. Resumed inside a step, the first has the rest."""
        batches: list[Microbatch] = []
        for batch in self:
            batches.append(batch)
            if batch.last_in_step:
                yield batches
                batches = []

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands after what `next()` returned: small, plain data, fit for JSON.

        At a step boundary it is the same on every rank, and loads on any mesh. Where the mixture
        follows losses it waits until every reporter has reported the steps before.
        """
        blob = self._connected().state(self._shared.alarm_seconds)
        return self._shared.state_dict(blob, self._rank, self._mesh)

    def report(
        self,
        step: int,
        losses: Mapping[str, tuple[float, int]] | None = None,
        times: Times | None = None,
    ) -> str:
        """Report a step that this rank has consumed: losses move the mixture, times are kept.

        `losses` has, by source, the sum of the losses over its target tokens and their number: of
        this rank's part where several ranks report, of the whole step where one does. `times` are
        the seconds of each of its microbatches, in order, or named seconds of the step; they move
        nothing, `save_reports()` writes them for `overlord calibrate --from`. Gives `"accepted"`,
        `"duplicate"` and `"late"` for what does not count any more, or `"noted"` without losses.
        """
        if times is not None:
            self._times.add(step, times)
            if isinstance(times, Mapping):
                self.reported_times.append((step, {k: float(v) for k, v in times.items()}))
        if losses is None:
            return "noted"
        names = self._shared.source_names
        part = [
            (names.index(name), *quantised(name, *pair))
            for name, pair in sorted(losses.items())
            if known_source(name, names)
        ]
        client = self._connected()
        desk = self._shared.rule_desk
        weights = desk.weights_after(step, self._rank, part) if desk is not None else []
        return str(client.report(step, part, weights))

    def reports(self) -> list[dict[str, Any]]:
        """Times reported so far, each with what its microbatch held."""
        return self._times.rows()

    def save_reports(self, path: str | Path) -> int:
        """Write `reports()` as JSON lines for `overlord calibrate --from`; gives their number."""
        return write_reports(path, self.reports())

    def load_state_dict(self, state: Mapping[str, Any], allow: Sequence[str] = ()) -> None:
        """Go on from a state. Refuses one of another job, config or data, and says what differs.

        Mesh, engine, threads and prefetch may always differ. `allow=("mixture",)` accepts other
        weights or steps, `allow=("sources",)` sources gained or lost.
        """
        if not self._owner:
            raise ValueError(
                "this loader shares its engine: call load_state_dict of the group it is in"
            )
        blob = self._shared.check_state(state, allow)
        self._forget_client()
        self._shared.start(blob, tuple(allow))

    def _forget_client(self) -> None:
        self._client = None
        self._ended = False
        self._tree = 1
        self._set_mesh(self._shared.mesh)
        self._times.forget()

    def wait_seconds(self) -> float:
        """How long `next()` has waited for data so far: what its production does not hide."""
        return float(self._connected().wait_ns) / 1e9

    def status(self) -> dict[str, Any]:
        """What roles, queues, memory and sources do right now; starts the engine."""
        status: dict[str, Any] = self._shared.running().status()
        return status

    def quarantine(self) -> list[dict[str, Any]]:
        """Rows found bad so far: source, shard, row, reason, when."""
        return self._shared.quarantine()

    def rank_hash(self) -> str:
        """Chain of the bytes of this rank's batches (needs hash=True)."""
        return str(self._shared.running().rank_hash(self._rank))

    def stream_hash(self) -> str:
        """Chain of plans and of the bytes of every rank hosted here (needs hash=True)."""
        return str(self._shared.running().stream_hash())

    def content_hash(self) -> str:
        """Chain of what the steps held; the same on every mesh."""
        return str(self._shared.running().content_hash())

    def close(self) -> None:
        """Stop the engine. Batches that are held stay valid."""
        self._client = None
        if self._owner:
            self._shared.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class RankLoaders(Mapping[int, Loader]):
    """Loaders of several ranks over one engine: `loaders[rank]`, or whole steps of all of them."""

    def __init__(self, shared: SharedEngine) -> None:
        self._shared = shared
        self._loaders = {rank: Loader(shared, rank, owner=False) for rank in shared.ranks}

    def __getitem__(self, rank: int) -> Loader:
        return self._loaders[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    @property
    def mesh(self) -> Mesh:
        """The mesh of the step that the first rank is at; see `Loader.rebuild`."""
        return next(iter(self._loaders.values())).mesh

    def rebuild(self, mesh: Mesh | str | Mapping[str, int], step: int | None = None) -> int:
        """Change the mesh of the running job at a step boundary; see `Loader.rebuild`."""
        return next(iter(self._loaders.values())).rebuild(mesh, step)

    @property
    def hybrid(self) -> bool:
        """Whether every dp x cp rank is dealt to by itself (hybrid data parallelism)."""
        return self._shared.hybrid

    def rounds(self) -> Iterator[dict[int, Microbatch]]:
        """The next microbatch of every rank, until all ranks end; they end together.

        Where ranks have different numbers of microbatches, those that are done with the step are
        left out until all are.
        """
        waiting = list(self._loaders)
        while True:
            batches = {rank: next(self._loaders[rank], None) for rank in waiting}
            present = {rank: batch for rank, batch in batches.items() if batch is not None}
            if not present:
                return
            if len(present) != len(batches):
                ended = sorted(set(batches) - set(present))
                raise core.InternalError(f"ranks {ended} ended before the others")
            yield present
            waiting = [rank for rank in waiting if not present[rank].last_in_step]
            waiting = waiting or list(self._loaders)

    def steps(self) -> Iterator[dict[int, list[Microbatch]]]:
        """Whole steps: the microbatches of every rank."""
        step: dict[int, list[Microbatch]] = {rank: [] for rank in self._loaders}
        going = len(step)
        for batches in self.rounds():
            for rank, batch in batches.items():
                step[rank].append(batch)
                going -= batch.last_in_step
            if going == 0:
                going = len(step)
                yield step
                step = {rank: [] for rank in self._loaders}

    def reports(self) -> list[dict[str, Any]]:
        """Times reported so far by all ranks, each with what its microbatch held."""
        return [row for loader in self._loaders.values() for row in loader.reports()]

    def save_reports(self, path: str | Path) -> int:
        """Write `reports()` as JSON lines for `overlord calibrate --from`; gives their number."""
        return write_reports(path, self.reports())

    def state_dict(self) -> dict[str, Any]:
        """The state of the first rank; at a step boundary every rank has the same."""
        if not self._shared.hybrid:
            return next(iter(self._loaders.values())).state_dict()
        saved = [loader.state_dict() for loader in self._loaders.values()]
        if any(state != saved[0] for state in saved):
            raise core.InvalidArgumentError(
                f"ranks are inside step {min(state['step'] for state in saved)} and have different "
                "numbers of microbatches: finish the step with all of them (`steps()` does) before "
                "saving one state for all, or save the state of every rank"
            )
        return saved[0]

    def load_state_dict(self, state: Mapping[str, Any], allow: Sequence[str] = ()) -> None:
        """Go on from a state with all ranks; see `Loader.load_state_dict`."""
        blob = self._shared.check_state(state, allow)
        for loader in self._loaders.values():
            loader._forget_client()
        self._shared.start(blob, tuple(allow))

    def status(self) -> dict[str, Any]:
        """What roles, queues, memory and sources do right now."""
        status: dict[str, Any] = self._shared.running().status()
        return status

    def quarantine(self) -> list[dict[str, Any]]:
        """Rows found bad so far: source, shard, row, reason, when."""
        return self._shared.quarantine()

    def weights(self) -> dict[str, float]:
        """The newest share of each source where the mixture follows losses; else empty."""
        return self._shared.weights(next(iter(self._loaders)))

    def debts(self) -> dict[str, float]:
        """What each source was asked for and has not given yet, in the unit of the mixture."""
        sources = self._shared.described(next(iter(self._loaders)))["sources"]
        return {name: float(source["debt"]) for name, source in sources.items()}

    def asked_shares(self, unit: str) -> dict[str, float]:
        """The share each source was asked for since step 0, from what it gave and what it owes."""
        sources = self._shared.described(next(iter(self._loaders)))["sources"]
        key = "samples" if unit == "samples" else "tokens"
        asked = {name: float(source[key]) + source["debt"] for name, source in sources.items()}
        total = sum(asked.values()) or 1.0
        return {name: value / total for name, value in asked.items()}

    def stream_hash(self) -> str:
        """Chain of plans and of the bytes of every rank (needs hash=True)."""
        return str(self._shared.running().stream_hash())

    def content_hash(self) -> str:
        """Chain of what the steps held; the same on every mesh."""
        return str(self._shared.running().content_hash())

    def close(self) -> None:
        """Stop the engine. Batches that are held stay valid."""
        self._shared.close()

    def __enter__(self) -> RankLoaders:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()
