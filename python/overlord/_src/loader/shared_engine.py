"""SharedEngine: the engine behind the loaders of one process, and what may be resumed on it."""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from overlord._src.batch.microbatch import BatchForm
from overlord._src.config.columns import base_name
from overlord._src.errors import refused
from overlord._src.functions.callouts import AnyFunction, answer_request
from overlord._src.functions.function_desk import FunctionDesk
from overlord._src.functions.mix_rule import Rule, RuleAnswers
from overlord._src.loader.readings import Readings
from overlord._src.mesh import Mesh
from overlord._src.native import core
from overlord._src.state import saved_state as states
from overlord._src.state.kept_states import StateMaker
from overlord._src.state.keys import StreamKeys, edited_keys, naming_keys

WAIT_SECONDS = 1.0  # the engine looks for signals more often than that


@dataclass(frozen=True)
class EngineSettings:
    """What an engine is told alike, whether its roles live in this process or in a node."""

    job: str
    stream: str
    mesh: Mesh
    ranks: Sequence[int]  # hosted in this process
    options: core.RuntimeOptions
    dealing: str  # how bins are dealt: a state saved inside a step is bound to it
    keys: StreamKeys  # of the config, for messages
    slicing: str  # of context-parallel ranks
    most_loaders: Mapping[str, int]  # by source: to how many slots it may grow
    hybrid: bool
    readers: str  # of the config: which ranks have a loader
    rule: Rule | None
    functions: Mapping[str, AnyFunction]  # that the strategy names
    writable: bool
    microbatches: Callable[[Mesh], int]  # of a rank in the whole stream, or a TypeError
    pinning: core.HostPinning | None  # who registers the memory of batches with CUDA


class SharedEngine(ABC):
    """The engine behind the loaders of one process; it starts with the first batch."""

    def __init__(self, settings: EngineSettings, *, private_memory: bool) -> None:
        self.ranks = list(settings.ranks)
        self.job = settings.job
        self.mesh = settings.mesh
        self.hybrid = settings.hybrid
        self.form = BatchForm(
            settings.slicing, settings.writable, private_memory, settings.pinning is not None
        )
        self.rule_answers: RuleAnswers | None = None  # where the rule is asked in this process
        self.readings = Readings(settings.stream, self.ranks)
        self._settings = settings
        self._options = settings.options
        self._desks: list[FunctionDesk] = []
        self._engine: core.Engine | None = None
        self._closed = False
        self._starting = threading.Lock()

    def close_with(self, owner: object) -> None:
        """Close when the owner is gone, or when the interpreter begins to end.

        Not in its `__del__`, which may find modules taken apart. Threads that wait for a batch must
        come back before the interpreter ends.
        """
        weakref.finalize(owner, self.close)

    @property
    def alarm_seconds(self) -> float:
        """How long a batch may be late before the log names what is waited for."""
        return max(float(self._options.alarm_ms) / 1000, WAIT_SECONDS)

    def microbatches(self, mesh: Mesh) -> int:
        """How many a rank gets from the stream's start to its end, or a TypeError that says why."""
        return self._settings.microbatches(mesh)

    def layout(self, rank: int, mesh: Mesh | None = None) -> str:
        """What a state saved inside a step is bound to: the mesh, and how bins are dealt.

        With hybrid data parallelism also to the consumer: each has its own number of microbatches.
        """
        mesh = mesh or self.mesh
        own = f",consumer {mesh.peers(rank).index(rank)}" if self.hybrid else ""
        return f"{mesh.text()},{self._settings.dealing}{own}"

    def rebuild(self, mesh: Mesh, step: int | None, ranks: Sequence[int]) -> int:
        """Plan for another mesh, or other ranks, from a step on, and tell which."""
        if step is not None and (isinstance(step, bool) or not isinstance(step, int) or step < 0):
            raise refused(("step",), "not a step", step, "an integer >= 0, or None")
        if self._settings.readers != "all":
            raise refused(
                ("mesh",),
                f"delivery.readers is {self._settings.readers}, and ranks without a loader do not "
                "hear of another mesh",
                mesh.text(),
                advice="restart from a state, which resumes on any mesh",
            )
        chosen = [self.mesh.check_rank(rank) for rank in ranks]
        return int(self.running().rebuild(list(mesh.axes), step, chosen))

    def resize(self, source: str, loaders: int) -> None:
        """Have that many slots read a source."""
        names = self.source_names
        if source not in names:
            raise refused(("source",), "no source of this stream", source, ", ".join(names))
        most = self._settings.most_loaders[base_name(source)]
        if isinstance(loaders, bool) or not isinstance(loaders, int) or not 1 <= loaders <= most:
            raise refused(
                ("loaders",),
                "not a number of slots that the source may have",
                loaders,
                f"1 to {most}; sources.{base_name(source)}.most_loaders says to how many it grows",
            )
        self.running().resize(names.index(source), loaders)

    def tree_of(self, tree: int) -> tuple[Mesh, tuple[int, ...]]:
        """Of a version of the tree: its mesh, and its ranks where those are not all of the job."""
        if tree == 1:
            return self.mesh, ()
        axes, ranks = self.running().tree_of(tree)
        return Mesh.from_axes(axes), tuple(ranks)

    @property
    def closed(self) -> bool:
        """Whether it was closed for good."""
        return self._closed

    def running(self) -> core.Engine:
        """The engine, started where it was not."""
        with self._starting:  # ranks may be read from threads of their own: one engine for all
            if self._closed:
                raise RuntimeError("the loader is closed; make another one with job.train(...)")
            return self._engine or self._start(None, ())

    def start(self, blob: bytes | None, allow: tuple[str, ...]) -> None:
        """Start from a state, or from step 0; what ran before is stopped."""
        with self._starting:
            self._start(blob, allow)

    def read_again(self, reading: int) -> bool:
        """Start from the stream's start after a reading that has ended; False: it is read once."""
        with self._starting:
            return self.readings.again(reading, lambda: self._start(None, ()))

    @abstractmethod
    def _open(self, blob: bytes | None, allow: tuple[str, ...]) -> core.Engine:
        """Start it from a state, or from step 0."""

    def _start(self, blob: bytes | None, allow: tuple[str, ...]) -> core.Engine:
        self._stop()
        self.readings.begin()
        try:
            engine = self._open(blob, allow)
        except BaseException:
            self._stop()
            raise
        self._engine = engine
        rule = self._settings.rule
        if rule is not None and min(self._options.reporters) in self.ranks:
            self.rule_answers = RuleAnswers(rule, self.source_names)
            self._desks.append(FunctionDesk(engine.rule, self.rule_answers))
        functions = self._settings.functions
        if functions:  # in every process: ranks come and go, and the planner asks one that is there
            asked = partial(answer_request, functions=functions, sources=self.source_names)
            self._desks.append(FunctionDesk(engine.callouts, asked))
        if self._closed:  # closed from another thread while it started
            self._stop()
            raise RuntimeError("the loader was closed while it started")
        return engine

    def _stop(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        while self._desks:
            self._desks.pop().close()

    def close(self) -> None:
        """Stop all roles. Batches that are held stay valid."""
        self._closed = True
        self._stop()

    @property
    @abstractmethod
    def source_names(self) -> list[str]:
        """Sources of the stream, in the engine's order."""

    def quarantine(self) -> list[dict[str, Any]]:
        """Rows found bad so far, with the names of their sources."""
        names = self.source_names
        return [{**row, "source": names[row["source"]]} for row in self.running().quarantine()]

    def described(self, rank: int) -> dict[str, Any]:
        """What the engine says of the state of a rank, now."""
        return core.describe_state(self.running().client(rank).state())

    def weights(self, rank: int) -> dict[str, float]:
        """The newest share of each source of a mixture that follows losses, as a rank knows it."""
        found: dict[str, int] = self.described(rank)["weights"]
        total = sum(found.values()) or 1
        return {name: weight / total for name, weight in found.items()}

    def state_maker(self, rank: int, mesh: Mesh) -> StateMaker:
        """Who makes the state dicts of a rank on a mesh."""
        return StateMaker(
            self.job, self.layout(rank, mesh), self.alarm_seconds, self._settings.keys
        )

    def load(self, state: Any, allow: Sequence[str], forget: Iterable[Callable[[], None]]) -> None:
        """Go on from a state; `forget`: called once it fits, for what ran before."""
        with naming_keys(state, self._settings.keys, allow):
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
        described = core.describe_state(blob)
        edited = [*states.edited_fields(state, described), *edited_keys(state)]
        if edited:
            raise core.StateMismatchError("the state was edited: " + "; ".join(edited))
        for what, saved, now in (
            ("job", state["job"], self.job),
            ("stream", described["stream"], self._settings.stream),
        ):
            if saved != now:
                raise core.StateMismatchError(f"the state is of {what} {saved!r}, this is {now!r}")
        found = self._differences(blob, described, tuple(allow))
        layouts = sorted({self.layout(rank) for rank in self.ranks})
        found += states.layout_differences(described, layouts, self.hybrid)
        if found:
            raise core.StateMismatchError(states.refusal(found))
        return blob

    @abstractmethod
    def _differences(
        self, blob: bytes, described: dict[str, Any], allow: tuple[str, ...]
    ) -> list[str]:
        """What of the data and the config is not as the state has it, as far as is known here."""
