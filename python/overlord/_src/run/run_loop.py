"""A run of a stream on all ranks of a mesh in this process, counted as it goes."""

from __future__ import annotations

import platform
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlord._src.batch.microbatch import HOLE, Microbatch
from overlord._src.config.schedule import mean_progress, normalise, stage_shares
from overlord._src.config.streams import ResolvedStream
from overlord._src.errors import refused
from overlord._src.job.job import Job, ReadOptions
from overlord._src.loader.loader import RankLoaders
from overlord._src.lowering.job_spec import reporting_ranks
from overlord._src.mesh import Mesh, is_data_axis
from overlord._src.node.watch import NodeWatch, watch_of
from overlord._src.run.made_up_losses import parse_losses

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MOST_POINTS = 512  # of the weights' course


def bucket_readers(mesh: Mesh, hybrid: bool = False) -> list[int]:
    """One rank of every data-parallel group: together they see each sequence of a step once.

    `hybrid`: cp ranks are dealt to like data-parallel groups.
    """
    others = [
        name for name, _ in mesh.axes if not is_data_axis(name) and not (hybrid and name == "cp")
    ]
    return [
        rank
        for rank in range(mesh.world_size)
        if all(mesh.coordinate(rank, name) == 0 for name in others)
    ]


def asked_shares(stream: ResolvedStream, first_step: int, steps: int) -> dict[str, float]:
    """The share each source was asked for, on average over these steps."""
    shares = dict.fromkeys(stream.mixture.source_names(), 0.0)
    before: dict[str, float] = {}
    if stream.mixture.grain == "epoch" and stream.mixture.epoch is not None:
        return _epoch_shares(stream, first_step, steps, stream.mixture.epoch.steps or 1)
    for stage in stream.mixture.stage_list():
        own = {name: float(x) for name, x in stage_shares(stream.mixture, stage).items()}
        start = stage.start or {}
        start_shares = (
            {name: float(x) for name, x in normalise(start, stream.mixture.temperature).items()}
            if start
            else before
        )
        before = own
        begin = max(stage.steps[0], first_step)
        end = (
            first_step + steps
            if stage.steps[1] is None
            else min(stage.steps[1], first_step + steps)
        )
        if end <= begin and steps > 0:
            continue
        part = (end - begin) / steps if steps > 0 else float(stage.steps[0] == 0)
        there = mean_progress(stage, begin, max(end, begin + 1))
        for name in {**start_shares, **own}:
            ratio = own.get(name, 0.0) * there + start_shares.get(name, 0.0) * (1 - there)
            shares[name] += ratio * part
    return shares


def _epoch_shares(
    stream: ResolvedStream, first_step: int, steps: int, length: int
) -> dict[str, float]:
    """The same where stages count epochs of so many steps: the mean over the epochs, weighted."""
    by_epoch = replace(
        stream, mixture=stream.mixture.model_copy(update={"grain": "step", "epoch": None})
    )
    end = first_step + max(steps, 1)
    shares = dict.fromkeys(stream.mixture.source_names(), 0.0)
    for epoch in range(first_step // length, -(-end // length)):
        part = min(end, (epoch + 1) * length) - max(first_step, epoch * length)
        for name, share in asked_shares(by_epoch, epoch, 1).items():
            shares[name] += share * part / (end - first_step)
    return shares


class RunLoop:
    """Reads all ranks round-robin on one thread and keeps count. Iterate over it, then ask."""

    def __init__(
        self,
        job: Job,
        stream: str,
        steps: int | None,
        *,
        losses: str | None = None,
        **options: Unpack[ReadOptions],
    ) -> None:
        self.job = job
        self.opened = job.open_stream(stream)
        mixture = self.opened.resolved.mixture
        self.losses = parse_losses(losses, self.opened.source_names) if losses else None
        if mixture.metric_driven and self.losses is None:
            raise refused(
                (*self.opened.resolved.path_of("mixture"), "schedule"),
                "follows reported losses, and a run without a trainer reports none",
                advice="make some up with --losses power, read it with job.train(...) and "
                "report(), or run it with mixture.schedule=null mixture.feedback=null",
            )
        if self.losses is not None and not mixture.metric_driven:
            raise refused(("--losses",), "nothing in this mixture follows losses", losses)
        self._reporters = reporting_ranks(mixture, job.mesh) if self.losses else []
        self.weights: list[dict[str, Any]] = []  # of a mixture that follows losses, thinned out
        self.hash_batches = options.setdefault("hash", True)
        self.loaders: RankLoaders = job.stream(stream, ranks="all", **options)
        own_steps = self.opened.resolved.steps
        known = [count for count in (steps, own_steps) if count is not None]
        self.steps_wanted = min(known) if known else None
        self.steps = self.tokens = self.capacity = self.target_tokens = self.microbatches = 0
        self.bytes = 0
        self.served_tokens = np.zeros(len(self.opened.sources), dtype=np.int64)
        self.served_samples = np.zeros(len(self.opened.sources), dtype=np.int64)
        self._reported_tokens = self.served_tokens.copy()
        self.mean_losses: dict[str, float] = {}
        self.holes = 0
        self._watch: NodeWatch | None = None
        self.started = time.monotonic()
        self.ended: float | None = None
        self._readers = set(bucket_readers(job.mesh, self.loaders.hybrid))

    def __iter__(self) -> Iterator[int]:
        """Numbers of the steps that are done, one after another."""
        context = self.opened.resolved.context * self.opened.resolved.microbatch_size
        going = len(self.loaders)
        for batches in self.loaders.rounds():
            for rank, batch in batches.items():
                self.microbatches += 1
                self.bytes += batch.nbytes
                going -= batch.last_in_step
                if rank in self._readers:
                    ends = batch.cu_seqlens_padded
                    self._count(batch, context if ends is None else int(ends[-1]))
            last = next(iter(batches.values()))
            if going == 0:
                going = len(self.loaders)
                self.steps += 1
                if self.losses is not None:
                    self._report(last.step)
                yield self.steps
                if self.steps_wanted is not None and self.steps >= self.steps_wanted:
                    break
        self.ended = time.monotonic()

    def _report(self, step: int) -> None:
        """Report made-up losses of a step; the first reporter has those of the whole job."""
        assert self.losses is not None
        read = self.served_tokens - self._reported_tokens
        self._reported_tokens = self.served_tokens.copy()
        resolved = self.opened.resolved
        step_tokens = resolved.bins * resolved.context
        found: dict[str, tuple[float, int]] = {}
        for index, name in enumerate(self.opened.source_names):
            tokens = int(read[index])
            steps_read = float(self.served_tokens[index]) / step_tokens
            if tokens:
                found[name] = (self.losses.mean_loss(name, step, steps_read) * tokens, tokens)
        for number, rank in enumerate(self._reporters):
            self.loaders[rank].report(step, found if number == 0 else {})
        self.mean_losses = {name: total / tokens for name, (total, tokens) in found.items()}
        self.weights.append({"step": step, "shares": self.loaders.weights()})
        if len(self.weights) > _MOST_POINTS:
            del self.weights[1:-1:2]

    def _count(self, batch: Microbatch, capacity: int) -> None:
        self.tokens += batch.num_tokens
        self.target_tokens += batch.target_tokens
        self.capacity += capacity
        rows = batch.lineage()
        sources = len(self.served_tokens)
        self.served_tokens += np.bincount(rows["source"], rows["count"], sources).astype(np.int64)
        self.served_samples += np.bincount(rows["source"][rows["first"] == 0], minlength=sources)
        self.holes += int(np.count_nonzero(rows["flags"] & HOLE))

    @property
    def seconds(self) -> float:
        """Time since the start, or of the whole run when it is over."""
        return (self.ended or time.monotonic()) - self.started

    @property
    def fill(self) -> float:
        """Share of all places that held real tokens."""
        return self.tokens / self.capacity if self.capacity else 0.0

    def mixture(self) -> dict[str, dict[str, float]]:
        """Share of each source, asked and served, in the unit of the mixture."""
        served = self.served_units()
        total = max(1, int(served.sum()))
        asked = self.asked()
        return {
            name: {
                "asked": asked[name],
                "served": int(served[index]) / total,
                "tokens": int(self.served_tokens[index]),
                "samples": int(self.served_samples[index]),
            }
            for index, name in enumerate(self.opened.source_names)
        }

    def served_units(self) -> npt.NDArray[np.int64]:
        """What each source gave, in the unit of the mixture; tokens where its bytes are not known.

        The bytes of a text are known to the planner only, unless its tokens are bytes.
        """
        unit = self.opened.resolved.mixture.unit
        if unit == "samples":
            return self.served_samples
        sources = self.opened.sources
        if unit == "tokens" or any(source.count_bytes for source in sources):
            return self.served_tokens
        widths = [4 if source.tokenizer["kind"] == "none" else 1 for source in sources]
        return self.served_tokens * np.array(widths, dtype=np.int64)

    def asked(self) -> dict[str, float]:
        """The share each source was asked for so far, on average over the steps."""
        mixture = self.opened.resolved.mixture
        if self.weights:
            shares = [point["shares"] for point in self.weights]
            return {name: sum(row[name] for row in shares) / len(shares) for name in shares[0]}
        if mixture.epoch is not None and mixture.epoch.source is not None:
            return dict(self.loaders.asked_shares(mixture.unit))
        return asked_shares(self.opened.resolved, 0, self.steps)

    def asked_now(self) -> dict[str, float]:
        """The share each source is asked for at the step the run is at."""
        if self.weights:
            return dict(self.weights[-1]["shares"])
        mixture = self.opened.resolved.mixture
        if mixture.epoch is not None and mixture.epoch.source is not None:
            return self.asked()
        return asked_shares(self.opened.resolved, self.steps, 1)

    def report(self, interrupted: bool = False) -> dict[str, Any]:
        """The run's figures, as `overlord run --json` writes them."""
        seconds = self.seconds
        return {
            "job": self.job.config.job,
            "stream": self.opened.resolved.name,
            "mesh": self.job.mesh.text(),
            "seed": self.opened.resolved.seed,
            "steps": self.steps,
            "tokens": self.tokens,
            "target_tokens": self.target_tokens,
            "microbatches": self.microbatches,
            "stream_hash": self.loaders.stream_hash() if self.hash_batches else None,
            "content_hash": self.loaders.content_hash(),
            "config_digest": self.opened.native.config_digest,
            "manifest_digest": self.opened.native.manifest_digest,
            "fill": self.fill,
            "mixture": self.mixture(),
            "weights": self.weights,
            "debts": self.loaders.debts(),
            "delay": delay_data(self.loaders.status()["planner"]),
            "holes": self.holes,
            "quarantine": self.loaders.quarantine(),
            "wall_s": seconds,
            "steps_per_s": self.steps / seconds if seconds else 0.0,
            "tokens_per_s": self.tokens / seconds if seconds else 0.0,
            "delivered_bytes": self.bytes,
            "peak_rss_bytes": peak_rss_bytes(),
            "status": self.loaders.status(),
            "node": self.node(),
            "machine": {"arch": platform.machine(), "python": platform.python_version()},
            "interrupted": interrupted,
        }

    def node(self) -> dict[str, Any] | None:
        """What the node and its processes do; None where all roles live in this process."""
        if self._watch is None:
            self._watch = watch_of(self.loaders)
        return None if self._watch is None else self._watch.look()

    def close(self) -> None:
        """Stop the engine."""
        self.loaders.close()

    def __enter__(self) -> RunLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def delay_data(planner: Mapping[str, Any]) -> dict[str, float]:
    """How long the segments of all plans so far waited between being drawn and placed."""
    segments = max(1, planner["segments"])
    return {
        "waited": planner["segments_waited"] / segments,
        "mean_steps": planner["steps_waited"] / segments,
        "max_steps": planner["longest_wait"],
    }


def peak_rss_bytes() -> int:
    """Most resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rss_bytes() -> int:
    """Resident memory of this process now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
