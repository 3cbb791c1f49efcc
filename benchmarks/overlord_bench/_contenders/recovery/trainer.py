"""Ours: a trainer of all ranks whose node or role processes die, for `overlord bench recovery`."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlord_bench import _mixed_sources
from overlord_bench._fleet import wait_until_served_by_none
from overlord_bench._recovering.deaths import Death, ManyDeaths, last_plan
from overlord_bench._stream_record import StreamRecorder

WARMUP = 10  # steps before the first kill
COMPACTED_EVERY = 256  # plans of a journal
SYNCS = 50
UNTIMED = 12  # steps of a window before its clock starts: what had been made ahead is used up


def sources_of(work: dict[str, Any]) -> dict[str, Any]:
    """Two sources of web documents, or many of one Parquet file each, if the work has none."""
    if "named_sources" in work:
        return dict(work["named_sources"])
    folder, count = work["folder"], work["sources"]
    if count == 2:
        return {
            f"web{half}": {"files": [f"{folder}/web-{shard:02}.bin" for shard in range(half, 8, 2)]}
            for half in range(2)
        }
    return {
        f"source{number:04}": {
            "files": [str(_mixed_sources.path_of(folder, number))],
            "tokens": _mixed_sources.COLUMN,
        }
        for number in range(count)
    }


def job_config(work: dict[str, Any], name: str = "recovery") -> dict[str, Any]:
    """The job of all measurements."""
    shadows = {"shadows": 1, "shadow": work["shadow"]} if work.get("shadow") else {}
    sources = {key: {**one, **shadows} for key, one in sources_of(work).items()}
    return {
        "job": name,
        "seed": 7,
        "context": work["context"],
        "bins": work["bins"],
        "vocabulary": 50_000,
        "at_end": "repeat",
        "steps": work.get("steps"),
        "sources": sources,
        "mixture": {"weights": dict.fromkeys(sources, 1.0)},
        "delivery": {"microbatch_size": work["bins"] // work["mesh"]["dp"]},
        "index_dir": f"{work['folder']}/index-recovery",
        "runtime": {"prefetch": work["prefetch"], "runway": work["prefetch"] + 2},
        **work.get("config", {}),
    }


@dataclass
class Run:
    """A job that is read, with where its sockets and its journal are."""

    loaders: Any
    sockets: Path
    journals: Path

    @property
    def journal(self) -> Path:
        """There once the first plan is."""
        [folder] = self.journals.iterdir()
        return folder


@contextlib.contextmanager
def started(
    work: dict[str, Any], *, comes_back: bool = True, name: str = "recovery"
) -> Iterator[Run]:
    """Sockets lie in /tmp, as their paths must be short; the journal on the disk of the data."""
    import overlord as ol

    with (
        tempfile.TemporaryDirectory(prefix="ol-rec-", dir="/tmp") as sockets,
        tempfile.TemporaryDirectory(prefix="journal-", dir=work["folder"]) as journals,
    ):
        config = job_config(work, name)
        processes = {"directory": sockets, "loaders": work.get("loader_processes", 1)}
        config["runtime"]["processes"] = processes
        if comes_back:
            config["runtime"]["journal"] = journals
        else:
            config["runtime"]["processes"]["recovery_seconds"] = 0
        job = ol.job(config, mesh=ol.mesh(**work["mesh"]))
        try:
            with job.train(ranks="all", engine="processes") as loaders:
                yield Run(loaders, Path(sockets), Path(journals))
        finally:
            wait_until_served_by_none(sockets)


class PacedTrainer:
    """Takes a step, trains for so long, and notes how long each `next()` took."""

    def __init__(self, run: Run, pace_s: float) -> None:
        self._rounds, self._pace_s = run.loaders.rounds(), pace_s
        self.waits_s: list[float] = []

    def step(self) -> None:
        """A step of all ranks and half of its training: a death follows, or `train` again."""
        began = time.perf_counter()
        next(self._rounds)
        self.waits_s.append(time.perf_counter() - began)
        self.train()

    def train(self) -> None:
        """Half a step."""
        time.sleep(self._pace_s / 2)

    def steps(self, count: int) -> None:
        """So many, whole."""
        for _ in range(count):
            self.step()
            self.train()


def stream(work: dict[str, Any]) -> dict[str, Any]:
    """The whole stream while one kind of process dies, if any; its record goes to a file."""
    recorder, victim = StreamRecorder(), work.get("victim")
    with started(work) as run, contextlib.ExitStack() as stack:
        deaths = None
        for number, batches in enumerate(run.loaders.rounds()):
            for rank, batch in batches.items():
                recorder.add(rank, batch)
            if victim and number == WARMUP:
                every_s = work["kill_every_s"]
                deaths = stack.enter_context(ManyDeaths(run.sockets, victim, every_s))
            if victim:
                time.sleep(work["pace_s"])
    kills = deaths.kills if deaths else 0
    if victim and kills == 0:
        return {"failed": f"nobody of {victim} died before the stream ended: take more --ids"}
    recorder.record().save(Path(work["record"]))
    return {"kills": kills}


def _restarts(run: Run, trainer: PacedTrainer, deaths: dict[str, Any]) -> list[float]:
    """Seconds from each of many deaths to the first new plan."""
    seconds = []
    for _ in range(deaths["kills"]):
        trainer.step()
        death = Death(run.sockets, run.journal, tuple(deaths["kinds"]))
        trainer.train()
        trainer.steps(deaths["steps_between"])
        while death.is_awaited():  # plans that were made ahead leave no room for a new one
            trainer.steps(1)
        seconds.append(death.seconds_to_a_plan())
    return seconds


def restart(work: dict[str, Any]) -> dict[str, Any]:
    """How long the planner is away."""
    with started(work) as run:
        trainer = PacedTrainer(run, work["pace_s"])
        trainer.steps(WARMUP)
        seconds = _restarts(run, trainer, work)
    return {"median_s": statistics.median(seconds), "max_s": max(seconds), "seconds": seconds}


def restart_flat(work: dict[str, Any]) -> dict[str, Any]:
    """The same after more and more plans of one run, and how large its journal is by then.

    Nobody trains, so the trainer soon waits for the new plan, and nothing else is in the time.
    """
    told: dict[str, Any] = {"plans_per_s": {}, "journal_bytes": {}}
    with started(work) as run:
        trainer = PacedTrainer(run, 0.0)
        for plans in work["plans"]:
            began, missing = time.perf_counter(), plans - len(trainer.waits_s)
            trainer.steps(missing - COMPACTED_EVERY)
            told["plans_per_s"][plans] = missing / (time.perf_counter() - began)
            told["journal_bytes"][plans] = _largest(run.journal, trainer)
            for name, deaths in work["deaths"].items():
                told.setdefault(name, {})[plans] = _restarts(run, trainer, deaths)
    return told


def _largest(journal: Path, trainer: PacedTrainer) -> int:
    """Most bytes of a journal between two compactions."""
    sizes = []
    for _ in range(COMPACTED_EVERY):
        trainer.steps(1)
        with contextlib.suppress(FileNotFoundError):  # compacted in this moment
            sizes.append(_size_of(journal)[1])
    return max(sizes)


def waits(work: dict[str, Any]) -> dict[str, Any]:
    """How long `next()` took in every step; after some of them those of these kinds die."""
    with started(work) as run:
        trainer = PacedTrainer(run, work["pace_s"])
        deaths = []
        for step in range(work["taken"]):
            trainer.step()
            if step in work["kill_after"]:
                deaths.append(Death(run.sockets, run.journal, tuple(work["kinds"])))
            trainer.train()
        seconds = [death.seconds_to_a_plan() for death in deaths]
    return {"waits_ms": [round(wait * 1e3, 2) for wait in trainer.waits_s], "seconds": seconds}


def _size_of(journal: Path) -> tuple[frozenset[str], int]:
    sizes = {path.name: path.stat().st_size for path in journal.iterdir() if path.is_file()}
    return frozenset(sizes), sum(sizes.values())


def journal(work: dict[str, Any]) -> dict[str, Any]:
    """How much the journal grows with a plan, between two compactions."""
    with started(work) as run:
        trainer = PacedTrainer(run, 0.0)
        trainer.steps(WARMUP)
        before, first = _size_of(run.journal), last_plan(run.journal)
        trainer.steps(work["plans"])
        # The runway fills in a moment and then nothing moves: size and plan are of one state.
        time.sleep(0.5)
        after, last = _size_of(run.journal), last_plan(run.journal)
    if before[0] != after[0]:
        return {"failed": "the journal was compacted meanwhile: take fewer plans"}
    return {"bytes_per_plan": (after[1] - before[1]) / (last - first), "plans": last - first}


def _window(rounds: Iterator[Any], seconds: float) -> float:
    """Tokens a second."""
    for _ in range(UNTIMED):
        next(rounds)
    tokens, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        tokens += sum(batch.num_tokens for batch in next(rounds).values())
    return tokens / took


def _sync_ms(folder: Path) -> float:
    """What the disk takes to make a record durable while little else goes on."""
    took = []
    with tempfile.TemporaryFile(dir=folder.parent) as file:
        for _ in range(SYNCS):
            file.write(bytes(3000))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e3


def throughput(work: dict[str, Any]) -> dict[str, Any]:
    """Tokens a second with the journal, and shadows if the work has them, and with neither.

    In turn: one rests while the other runs.
    """
    pairs, bare = [], {**work, "shadow": None}
    with (
        started(work, name="with") as written,
        started(bare, name="without", comes_back=False) as unwritten,
    ):
        sync_ms = _sync_ms(written.journals)
        ways = {"with": written.loaders.rounds(), "without": unwritten.loaders.rounds()}
        for turn in range(work["pairs"] + 1):
            names = list(ways) if turn % 2 == 0 else list(reversed(ways))
            pairs.append({name: _window(ways[name], work["seconds"]) for name in names})
    pairs = pairs[1:]  # the first has cold files and growing pools
    ratios = [pair["with"] / pair["without"] for pair in pairs]
    middle = statistics.median(ratios)
    return {
        "ratio": middle,
        "ratio_spread": statistics.median(abs(ratio - middle) for ratio in ratios),
        "with_tokens_per_s": statistics.median(pair["with"] for pair in pairs),
        "without_tokens_per_s": statistics.median(pair["without"] for pair in pairs),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "sync_ms": sync_ms,
    }


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """What the work names."""
    import overlord as ol
    from overlord_bench._contenders.recovery import shadows

    known = (stream, restart, restart_flat, waits, journal, throughput, *shadows.MEASURES)
    ways = {one.__name__: one for one in known}
    return {"version": ol.__version__, **ways[work["measure"]](work)}
