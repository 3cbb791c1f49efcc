"""SharedEngine: the engine behind the loaders of one process, and what may be resumed on it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from overlord._src import state as states
from overlord._src.callouts import AnyFunction, answer_request
from overlord._src.errors import ConfigError, Problem
from overlord._src.function_desk import FunctionDesk
from overlord._src.kept_states import StateMaker
from overlord._src.mesh import Mesh
from overlord._src.microbatch import BatchForm
from overlord._src.mix_rule import Rule, RuleAnswers
from overlord._src.native import core
from overlord._src.readings import Readings
from overlord._src.state_keys import StreamKeys, edited_keys, naming_keys
from overlord._src.transform_threads import TransformThreads
from overlord._src.transforms import ThreadTransform
from overlord._tokenizer_worker import worker_command

WAIT_SECONDS = 1.0  # the engine looks for signals more often than that


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
        self._rule = rule
        self.rule_answers: RuleAnswers | None = None  # where the rule is asked in this process
        self.form = BatchForm()
        self.pinning: Any = None  # who registers the memory of batches with CUDA
        self.keys = StreamKeys()  # of the config, for messages
        self._functions = dict(functions or {})
        self._desks: list[FunctionDesk] = []
        self._transforms = dict(transforms or {})
        self._transform_desk: TransformThreads | None = None
        self._engine: Any = None
        self._closed = False
        self._starting = threading.Lock()
        self.readings = Readings(stream, self.ranks)

    def close_with(self, owner: object) -> None:
        """Close when the owner is gone, or when the interpreter begins to end.

        Not in its `__del__`, which may find modules taken apart. Threads that wait for a batch must
        come back before the interpreter ends.
        """
        weakref.finalize(owner, self.close)

    def form_batches(self, slicing: str, writable: bool, pinning: Any) -> None:
        """Say what batches are made like; before the start."""
        self.pinning = pinning
        self.form = BatchForm(slicing, writable, self._has_private_memory(), pinning is not None)

    def _has_private_memory(self) -> bool:
        return len(self.ranks) == 1  # ranks of one engine see the same arrays

    @property
    def alarm_seconds(self) -> float:
        """How long a batch may be late before the log names what is waited for."""
        return max(float(self._options.alarm_ms) / 1000, WAIT_SECONDS)

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

    def read_again(self, reading: int) -> bool:
        """Start from the stream's start after a reading that has ended; False: it is read once."""
        with self._starting:
            return self.readings.again(reading, lambda: self._start(None, ()))

    def _open(self, blob: bytes | None, allow: tuple[str, ...]) -> Any:
        if self._functions:
            asked = partial(answer_request, functions=self._functions, sources=self.source_names)
            self._desks.append(FunctionDesk(core.CalloutDesk(), asked))
        if self._transforms:
            self._transform_desk = TransformThreads(self._transforms)
        return self._native_job.open(
            self.ranks,
            self._options,
            blob,
            worker_command(),
            allow_mixture="mixture" in allow,
            allow_sources="sources" in allow,
            callouts=self._desks[0].native if self._desks else None,
            pinning=self.pinning,
            transforms=self._transform_desk.native if self._transform_desk is not None else None,
        )

    def _start(self, blob: bytes | None, allow: tuple[str, ...]) -> None:
        self._stop()
        self.readings.begin()
        try:
            engine = self._open(blob, allow)
        except BaseException:
            self._stop()
            raise
        self._engine = engine
        if self._rule is not None and min(self._options.reporters) in self.ranks:
            self.rule_answers = RuleAnswers(self._rule, self.source_names)
            self._desks.append(FunctionDesk(engine.rule, self.rule_answers))
        if self._closed:  # closed from another thread while it started
            self._stop()
            raise RuntimeError("the loader was closed while it started")

    def _stop(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        while self._desks:
            self._desks.pop().close()
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

    def state_maker(self, rank: int, mesh: Mesh) -> StateMaker:
        """Who makes the state dicts of a rank on a mesh."""
        return StateMaker(self.job, self.layout(rank, mesh), self.alarm_seconds, self.keys)

    def load(self, state: Any, allow: Sequence[str], forget: Iterable[Callable[[], None]]) -> None:
        """Go on from a state; `forget`: called once it fits, for what ran before."""
        with naming_keys(state, self.keys, allow):
            blob = self.check_state(state, allow)
            for each in forget:
                each()
            self.start(blob, tuple(allow))

    def check_state(self, state: Any, allow: Sequence[str]) -> bytes:
        """The blob of a state that fits this job; otherwise an error that says what differs."""
        unknown = [name for name in allow if name not in states.ALLOWABLE]
        if unknown:
            raise ValueError(
                f"allow: unknown change {unknown[0]!r}; allowed: {', '.join(states.ALLOWABLE)}"
            )
        try:
            blob = states.open_state(state)
        except states.StateVersionError as error:
            raise core.VersionMismatchError(str(error)) from None
        except states.StateError as error:
            raise core.StateMismatchError(str(error)) from None
        described = self.describe(blob)
        edited = [*states.edited_fields(state, described), *edited_keys(state)]
        if edited:
            raise core.StateMismatchError("the state was edited: " + "; ".join(edited))
        for what, saved, now in (
            ("job", state["job"], self.job),
            ("stream", described["stream"], self.stream),
        ):
            if saved != now:
                raise core.StateMismatchError(f"the state is of {what} {saved!r}, this is {now!r}")
        found = self._differences(blob, described, tuple(allow))
        layouts = sorted({self.layout(rank) for rank in self.ranks})
        found += states.layout_differences(described, layouts, self.hybrid)
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
