"""Loader: the iterator a trainer holds for one rank. RankLoaders: several ranks of one process."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlord._src.batch.microbatch import Microbatch
from overlord._src.loader.device_feed import DeviceFeed
from overlord._src.loader.loss_sums import known_source, quantised, shares_asked
from overlord._src.loader.shared_engine import WAIT_SECONDS, SharedEngine
from overlord._src.loader.standing import Fetched, Standing
from overlord._src.loader.time_reports import TimeReports, Times, write_reports
from overlord._src.mesh import Mesh, as_mesh, peers_of
from overlord._src.native import core
from overlord._src.state.kept_states import KeptStates

if TYPE_CHECKING:
    from typing_extensions import Self

_TIMES_KEPT = 4096  # steps whose reported times a loader keeps
_LOG = logging.getLogger("overlord")


class _Reader:
    """What a loader of one rank and loaders of several do alike with the engine behind them."""

    def __init__(self, shared: SharedEngine) -> None:
        self._shared = shared

    def rebuild(
        self,
        mesh: Mesh | str | Mapping[str, int],
        step: int | None = None,
        ranks: Sequence[int] | None = None,
    ) -> int:
        """Change the mesh of the running job at a step boundary; gives the first step on it.

        `mesh` is given as `ol.mesh(dp=2, tp=2)`, `"dp=2,tp=2"` or a dict. Steps from `step` on are
        planned for it, or from the first that is not planned yet. One rank's call is enough, and
        ranks that all ask for the same mesh get the same answer. What the steps hold does not
        change. `mesh` of a loader is the new one when `next()` has returned its first batch of that
        step.

        `ranks` are those of the mesh, in its order, where some of the job are lost or come back;
        without it all are there. Then planned steps are placed again: from `step`, at most 4 before
        the first that not all ranks have got, which is what is taken without it. Ranks that have
        read further get that step anew, whatever they were at.
        """
        return self._shared.rebuild(as_mesh(mesh), step, () if ranks is None else ranks)

    def resize(self, source: str, loaders: int) -> None:
        """Have `loaders` slots read a source from now on, at most its `most_loaders`.

        One rank's call is enough. It counts from the first window of the source that nobody was
        asked for yet, is written to the journal, and changes nothing of the stream.
        """
        self._shared.resize(source, loaders)

    def reports(self) -> list[dict[str, Any]]:
        """Times reported so far, each with what its microbatch held."""
        raise NotImplementedError

    def save_reports(self, path: str | Path) -> int:
        """Write `reports()` as JSON lines for `overlord calibrate --from`; gives their number."""
        return write_reports(path, self.reports())

    def status(self) -> dict[str, Any]:
        """What roles, queues, memory and sources do right now; starts the engine."""
        return self._shared.running().status()

    def quarantine(self) -> list[dict[str, Any]]:
        """Rows found bad so far: source, shard, row, reason, when."""
        return self._shared.quarantine()

    def stream_hash(self) -> str:
        """Chain of plans and of the bytes of every rank hosted here (needs hash=True)."""
        return self._shared.running().stream_hash()

    def content_hash(self) -> str:
        """Chain of what the steps held; the same on every mesh."""
        return self._shared.running().content_hash()

    def close(self) -> None:
        """Stop the engine. Batches that are held stay valid."""
        self._shared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Loader(_Reader, Iterator[Microbatch]):
    """Microbatches of one rank, in order. Stop it with `close()`, a `with` block, or `del`.

    The engine starts with the first `next()` or `load_state_dict()`. `len()` is the number of
    microbatches from the stream's start to its end, where that can be known: planned ahead from
    lengths, where sources end it. Read again after its end, it starts anew, unless it is `train`.
    """

    def __init__(
        self, shared: SharedEngine, rank: int, *, owner: bool = True, device: Any = None
    ) -> None:
        super().__init__(shared)
        self._rank = rank
        self._owner = owner
        self._client: core.Client | None = None
        self._ended = 0  # the reading that has ended
        self._newest = self._standing = self._stood(1, shared.mesh, ())
        self._feed = None if device is None else DeviceFeed(device)
        self._ahead: Fetched | None = None  # under way to the device
        self._over = False  # the engine has no more
        self.reported_times: deque[tuple[int, dict[str, float]]] = deque(maxlen=_TIMES_KEPT)
        self._times = TimeReports(rank)
        self._kept = KeptStates()
        if owner:
            shared.close_with(self)

    @property
    def rank(self) -> int:
        """The rank whose batches these are."""
        return self._rank

    @property
    def mesh(self) -> Mesh:
        """The mesh of the step that `next()` returned a batch of last; see `rebuild`."""
        return self._standing.mesh

    @property
    def place(self) -> int:
        """This rank's place in `mesh`: its rank there, while others are lost (see `rebuild`)."""
        return self._place_among(self._standing.ranks)

    def _place_among(self, ranks: tuple[int, ...]) -> int:
        return ranks.index(self._rank) if ranks else self._rank

    def _stood(self, tree: int, mesh: Mesh, ranks: tuple[int, ...]) -> Standing:
        states = self._shared.state_maker(self._place_among(ranks), mesh)
        peers = partial(peers_of, mesh, self._rank, ranks)  # must not hold the loader
        return Standing(tree, mesh, ranks, states, peers)

    def __len__(self) -> int:
        return self._shared.microbatches(self.mesh)

    def __bool__(self) -> bool:
        return True  # also where it has no length

    def _connected(self) -> core.Client:
        if self._client is None:
            self._client = self._shared.running().client(self._rank)
            self._stand_at(self._client.place(), self._standing)
        return self._client

    def _stand_at(self, place: core.Place, standing: Standing) -> None:
        self._standing = standing
        self._stands = (place, standing.states)
        self._kept.note(place, standing.states)

    def __iter__(self) -> Loader:
        if self._ended and self._shared.read_again(self._ended):
            self._forget_client()
        return self

    def __next__(self) -> Microbatch:
        if self._ended:
            raise StopIteration
        fetched, self._ahead = self._ahead or self._awaited(), None
        if fetched is None:
            self._ended = self._shared.readings.end(self._rank)
            raise StopIteration
        batch = fetched.batch
        self._stand_at(fetched.place, fetched.standing)
        if self._feed is not None:
            batch = self._feed.arrived(batch)
            self._look_ahead()
        self._times.note(batch)
        return batch

    def _awaited(self) -> Fetched | None:
        """The next batch, however long it takes; None at the end."""
        waited = 0.0
        while not self._over:
            try:
                return self._fetched(self._connected().next(WAIT_SECONDS))
            except core.DeadlineError as late:
                if self._shared.closed:
                    raise RuntimeError("the loader was closed while a batch was awaited") from None
                before, waited = waited, waited + WAIT_SECONDS
                if before // self._shared.alarm_seconds < waited // self._shared.alarm_seconds:
                    _LOG.warning("no batch for %.0f s: %s", waited, late)
        return None

    def _look_ahead(self) -> None:
        """Send the next batch on its way, if it is there; what is wrong the next call says."""
        try:
            native = self._connected().next(0.0)
        except core.OverlordError:
            return
        self._ahead = self._fetched(native)

    def _fetched(self, native: Any) -> Fetched | None:
        """A batch of the engine, sent to the device where there is one; None at the end."""
        if native is None:
            self._over = True
            return None
        place = self._connected().place()
        if place.tree != self._newest.tree:
            self._newest = self._stood(place.tree, *self._shared.tree_of(place.tree))
        at = self._newest
        batch = Microbatch(native, at.peers, self._shared.form, place, at.states)
        if self._feed is not None:
            batch = self._feed.send(batch)
        return Fetched(batch, place, at)

    def steps(self) -> Iterator[list[Microbatch]]:
        """Whole steps: the microbatches of each. Resumed inside a step, the first has the rest.

        A step that was interrupted, as others were lost, begins anew.
        """
        batches: list[Microbatch] = []
        for batch in self:
            if batch.microbatch == 0:
                batches = []
            batches.append(batch)
            if batch.last_in_step:
                yield batches
                batches = []

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Where the stream stands after what `next()` returned: small, plain data, fit for JSON.

        At a step boundary it is the same on every rank, and loads on any mesh. Where the mixture
        follows losses it waits until every reporter has reported the steps before. A trainer that
        fetches ahead saves `state_dict(step=N)`, the state after step N, one of the last 16 that
        were finished here, or `batch.state` of the batch that it trained last.
        """
        if step is not None:
            return self._kept.state_dict(step)
        self._connected()
        place, maker = self._stands  # no call of the engine: another thread may wait in next()
        return maker.state_dict(place)

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
        verdict = self._connected().report(step, part)
        if (answers := self._shared.rule_answers) is not None and answers.failure is not None:
            raise answers.failure
        return verdict

    def reports(self) -> list[dict[str, Any]]:
        """Times reported so far, each with what its microbatch held."""
        return self._times.rows()

    def load_state_dict(self, state: Mapping[str, Any], allow: Sequence[str] = ()) -> None:
        """Go on from a state. Refuses one of another job, config or data, and says what differs.

        Mesh, engine, threads and prefetch may always differ. `allow=("mixture",)` accepts other
        weights or steps, `allow=("sources",)` sources gained or lost, `allow=("batch",)` other
        `bins`, from a step boundary on. Another `microbatch_size` needs no leave at a boundary.
        """
        if not self._owner:
            raise ValueError(
                "this loader shares its engine: call load_state_dict of the group it is in"
            )
        self._shared.load(state, allow, [self._forget_client])

    def _forget_client(self) -> None:
        self._client = None
        self._ended = 0
        self._ahead, self._over = None, False
        self._newest = self._standing = self._stood(1, self._shared.mesh, ())
        self._kept.forget()
        self._times.forget()

    def wait_seconds(self) -> float:
        """How long `next()` has waited for data so far: what its production does not hide."""
        return self._connected().wait_ns / 1e9

    def rank_hash(self) -> str:
        """Chain of the bytes of this rank's batches (needs hash=True)."""
        return self._shared.running().rank_hash(self._rank)

    def close(self) -> None:
        """Stop the engine. Batches that are held stay valid."""
        self._client = self._ahead = None
        if self._owner:
            self._shared.close()


class RankLoaders(_Reader, Mapping[int, Loader]):
    """Loaders of several ranks over one engine: `loaders[rank]`, or whole steps of all of them."""

    def __init__(self, shared: SharedEngine, device: Any = None) -> None:
        super().__init__(shared)
        self._loaders = {
            rank: Loader(shared, rank, owner=False, device=device) for rank in shared.ranks
        }
        shared.close_with(self)

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

    @property
    def hybrid(self) -> bool:
        """Whether every dp x cp rank is dealt to by itself (hybrid data parallelism)."""
        return self._shared.hybrid

    def rounds(self) -> Iterator[dict[int, Microbatch]]:
        """The next microbatch of every rank, until all ranks end; they end together.

        Where ranks have different numbers of microbatches, those that are done with the step are
        left out until all are.
        """
        waiting = [iter(loader).rank for loader in self._loaders.values()]  # again from the start
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

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """The state of the first rank; at a step boundary, as after `step`, all have the same."""
        if not self._shared.hybrid or step is not None:
            return next(iter(self._loaders.values())).state_dict(step)
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
        self._shared.load(
            state, allow, [loader._forget_client for loader in self._loaders.values()]
        )

    def weights(self) -> dict[str, float]:
        """The newest share of each source where the mixture follows losses; else empty."""
        return self._shared.weights(next(iter(self._loaders)))

    def debts(self) -> dict[str, float]:
        """What each source was asked for and has not given yet, in the unit of the mixture."""
        sources = self._shared.described(next(iter(self._loaders)))["sources"]
        return {name: float(source["debt"]) for name, source in sources.items()}

    def asked_shares(self, unit: str) -> dict[str, float]:
        """The share each source was asked for since step 0, from what it gave and what it owes."""
        return shares_asked(self._shared.described(next(iter(self._loaders)))["sources"], unit)
