"""Workloads: what a step holds, as metadata columns; made up, out of a Parquet, or of a job.

A workload reads no mesh: what is in step k follows from its data, seed and sizes alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from overlord._src.config.refusals import did_you_mean
from overlord._src.corpus import parameters as corpora
from overlord._src.errors import refused
from overlord._src.simulate import own_strategy, shapes
from overlord._src.simulate.chance import Chance
from overlord._src.simulate.clients import Clients
from overlord._src.simulate.columns import (
    NAMES,
    Columns,
    Integers,
    cut_to_context,
    join,
    make_columns,
    pack_in_order,
)
from overlord._src.simulate.own_strategy import OwnStep
from overlord._src.simulate.placing import Placement, Work

if TYPE_CHECKING:
    from overlord._src.job.job import Job

Atoms = Literal["samples", "sequences"]
ATOMS: tuple[Atoms, ...] = ("samples", "sequences")
_PACK_SPARE = 1.05  # drawn beyond the expected tokens, so that a step of sequences is full


@dataclass(frozen=True)
class Kind:
    """One kind of sample in a workload: its shape, its share, over how many sources it lies."""

    name: str
    shape: shapes.Shape
    share: float
    sources: int


@dataclass(frozen=True)
class Synthetic:
    """A made-up workload. Sources of a kind are drawn from with Zipf weights."""

    name: str
    description: str
    kinds: tuple[Kind, ...]
    default_context: int = 8192
    default_model: str = "llama-12b"
    zipf: float = 0.0  # exponent of the weights of a kind's sources; 0: equal
    seed: int = 0

    @property
    def source_names(self) -> list[str]:
        return [f"{kind.name}_{index}" for kind in self.kinds for index in range(kind.sources)]

    def with_seed(self, seed: int) -> Synthetic:
        """The same workload, drawn anew."""
        return replace(self, seed=seed)

    def samples(self, step: int, count: int) -> Columns:
        """Whole samples as stored, in order of arrival."""
        chance = Chance("overlord-simulate/1", self.seed, self.name, step)
        share = np.cumsum([kind.share for kind in self.kinds])
        drawn = np.searchsorted(share / share[-1], chance.uniform("kind", count), side="right")
        parts, rows, first = [], [], 0
        for number, kind in enumerate(self.kinds):
            row = np.flatnonzero(drawn == number)
            inner = chance.under(kind.name)
            part = kind.shape.draw(inner, len(row))
            part.source[:] = first + self._sources(inner, kind.sources, len(row))
            parts.append(part)
            rows.append(row)
            first += kind.sources
        return join(parts).take(np.argsort(np.concatenate(rows), kind="stable"))

    def _sources(self, chance: Chance, sources: int, rows: int) -> Any:
        weights = np.cumsum(np.arange(1, sources + 1, dtype=np.float64) ** -self.zipf)
        place = chance.uniform("source", rows)
        return np.searchsorted(weights / weights[-1], place, side="right")

    def draw(self, step: int, count: int, context: int, atoms: Atoms) -> Columns:
        """Cut to the context; as sequences, packed in order of arrival."""
        if atoms == "samples":
            return cut_to_context(self.samples(step, count), context).take(slice(count))
        refuse_media(self.name, self.samples(step, 64))
        mean = max(float(self.samples(step, 4096).tokens.mean()), 1.0)
        rows = int(_PACK_SPARE * count * context / mean) + 64
        while True:
            packed = pack_in_order(self.samples(step, rows), context, count)
            if packed.atoms == count:
                return packed
            rows *= 2


@dataclass(frozen=True)
class Table:
    """A workload of given rows, read in order; at the end it begins again."""

    name: str
    description: str
    source_names: Sequence[str]
    rows: Columns
    default_context: int = 8192
    default_model: str = "llama-12b"

    def draw(self, step: int, count: int, context: int, atoms: Atoms) -> Columns:
        """`count` rows from row `step * count` on, or as many packed sequences."""
        if atoms == "samples":
            index = (step * count + np.arange(count)) % len(self.rows)
            return cut_to_context(self.rows.take(index), context).take(slice(count))
        refuse_media(self.name, self.rows)
        total = int(self.rows.tokens.sum())
        per_step = -(-count * context * len(self.rows) // total) + 1
        while True:
            index = (step * per_step + np.arange(per_step)) % len(self.rows)
            packed = pack_in_order(self.rows.take(index), context, count)
            if packed.atoms == count:
                return packed
            per_step *= 2


@dataclass(frozen=True)
class Planned:
    """A real job's own steps: its packed sequences, from its plans. Needs no payload."""

    name: str
    description: str
    source_names: Sequence[str]
    default_context: int
    bins: int
    steps: list[Columns] = field(repr=False)
    default_model: str = "llama-12b"
    own_steps: Sequence[OwnStep] = field(default=(), repr=False)  # where a strategy is declared
    own_atoms: Atoms | None = None  # what that strategy moves

    def draw(self, step: int, count: int, context: int, atoms: Atoms) -> Columns:
        """The step as it was planned; as samples, its documents are moved one by one."""
        columns = self.steps[step]
        return columns if atoms == "sequences" else columns.take(slice(None))

    @property
    def has_own_cost(self) -> bool:
        """Does a function of the job say what samples cost?"""
        return bool(self.own_steps) and self.own_steps[0].costs is not None

    def own_costs(self, step: int) -> Integers | None:
        """Nanoseconds of the pieces of a step, by the job's own function; None without one."""
        return self.own_steps[step].costs if self.own_steps else None

    def place_own(self, step: int, atoms: Atoms, work: Work, clients: Clients) -> Placement:
        """Where the job's own strategy puts the atoms of a step."""
        columns = self.steps[step]
        sequences = columns.atom if atoms == "samples" else np.arange(columns.atoms)
        return own_strategy.place(self.own_steps[step], sequences, work, clients)


# Each draws the `count` atoms of a step, none longer than `context` tokens; its column `source`
# counts `source_names`.
Workload = Synthetic | Table | Planned


def refuse_media(name: str, rows: Columns) -> None:
    """Packed sequences are cut anywhere, which media does not survive."""
    if int((rows.tokens - rows.text_tokens).sum()):
        raise refused(
            ("atoms",),
            f"the workload {name} has media, which cannot be cut at sequence borders",
            "sequences",
            "samples",
        )


def from_parquet(path: str | Path) -> Table:
    """Rows of metadata out of a Parquet file.

    Columns: `tokens` or `text_tokens` is required; `source` (names or numbers), `images`,
    `image_patches`, `audio_frames`, `video_frames`, `video_patches` and `bytes` are optional.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowInvalid as error:
        raise refused(("workload",), f"not a Parquet file: {error}", str(path)) from None
    known = [name for name in NAMES if name != "atom"]
    found = [name for name in known if name in table.column_names]
    if "tokens" not in found and "text_tokens" not in found:
        raise refused(
            ("workload",),
            f"{path} has neither a column tokens nor text_tokens",
            table.column_names,
            ", ".join(known),
        )
    if not table.num_rows:
        raise refused(("workload",), f"{path} has no rows")
    given = {name: table[name].to_numpy() for name in found if name != "source"}
    names = ["source"]
    if "source" in found:
        encoded = table["source"].combine_chunks().dictionary_encode()
        names = [str(value) for value in encoded.dictionary.to_pylist()]
        given["source"] = encoded.indices.to_numpy()
    _check_values(path, given)
    if "text_tokens" not in given:
        given["text_tokens"] = given["tokens"]
    if "image_patches" in given and "images" not in given:
        given["images"] = (given["image_patches"] > 0).astype(np.int64)
    if "video_patches" in given and "video_frames" not in given:
        given["video_frames"] = (given["video_patches"] > 0).astype(np.int64)
    return Table(Path(path).stem, f"rows of {path}", names, make_columns(table.num_rows, given))


def _check_values(path: str | Path, given: dict[str, Any]) -> None:
    """Whole numbers of at least 0, and no row where text is more than all tokens."""
    for name, values in given.items():
        fine = values.dtype.kind in "iu" and (not len(values) or int(values.min()) >= 0)
        if not fine:
            raise refused(
                ("workload", name),
                f"{path} has values that are no whole numbers of 0 or more",
                str(values.dtype),
                "integers, not null, at least 0",
            )
    if "tokens" in given and "text_tokens" in given:
        wrong = np.flatnonzero(given["text_tokens"] > given["tokens"])
        if wrong.size:
            raise refused(
                ("workload", "tokens"),
                f"{path} row {int(wrong[0])} has more text_tokens than tokens",
                int(given["tokens"][wrong[0]]),
                "text tokens plus what media becomes",
            )


# Metadata columns of a job that workloads know by the same name.
_MEDIA = frozenset({"images", "image_patches", "audio_frames", "video_frames", "video_patches"})


def from_index(job: Job, steps: int, stream: str = "train") -> Planned:
    """The first steps of a job as it would train: its real plans, made from indexed lengths."""
    opened = job.open_stream(stream)
    cursor = opened.cursor()
    strategy = job.config.strategy
    own_cost = own_strategy.has_own_cost(strategy)
    planned: list[Columns] = []
    own: list[OwnStep] = []
    while len(planned) < steps and (plan := cursor.next()) is not None:
        graph: Any = cursor.graph()
        planned.append(_planned_columns(plan.bins(), graph["columns"]))
        if own_strategy.moved_atoms(strategy) is not None:
            own.append(own_strategy.read_step(plan, graph, planned[-1], own_cost=own_cost))
    if not planned:
        raise refused(("steps",), f"the stream {stream} has no step to simulate")
    return Planned(
        job.config.job,
        f"the stream {stream} of the job {job.config.job}, as it would be planned",
        opened.source_names,
        opened.resolved.context,
        opened.resolved.bins,
        planned,
        own_steps=own,
        own_atoms=own_strategy.moved_atoms(strategy),
    )


def _planned_columns(
    bins: Sequence[Sequence[Sequence[int]]], metadata: Mapping[str, npt.NDArray[np.int64]]
) -> Columns:
    """Segments as pieces, bins as atoms. A bin that is empty still is an atom of no work."""
    rows = [
        (segment[0], segment[4], number)
        for number, segments in enumerate(bins)
        for segment in (segments or [(0, 0, 0, 0, 0, 0, 0)])
    ]
    source, tokens, atom = (np.array(values, dtype=np.int64) for values in zip(*rows, strict=True))
    given = {"source": source, "text_tokens": tokens, "atom": atom}
    for name in sorted(_MEDIA & metadata.keys()):
        given[name] = np.zeros(len(rows), dtype=np.int64)
        given[name][tokens > 0] = metadata[name]  # what is no segment has no tokens
    return make_columns(len(rows), {**given, "bytes": tokens * corpora.BYTES_PER_TOKEN})


def _navit(sources: int) -> tuple[Kind, ...]:
    """Sources of three kinds, by thirds: captions, interleaved pages, scanned pages with OCR."""
    third = sources // 3
    captions = shapes.TextAndImages(corpora.CAPTIONS, shapes.LAION_SIDES, patch=14)
    pages = shapes.TextAndImages(
        shapes.INTERLEAVED_TEXT, shapes.LAION_SIDES, patch=14, more_images=0.6
    )
    scans = shapes.TextAndImages(shapes.PAGE_TEXT, shapes.PAGE_SIDES, patch=14)
    return (
        Kind("captions", captions, 0.5, sources - 2 * third),
        Kind("interleaved", pages, 0.4, third),
        Kind("scans", scans, 0.1, third),
    )


_PAIRS = shapes.TextAndImages(corpora.CAPTIONS, shapes.COYO_SIDES, patch=16)
_WORKLOADS = (
    Synthetic(
        "coyo",
        "captioned pictures in 5 sources, 16 x 16 patches (COYO-700M's sizes and captions)",
        (Kind("coyo", _PAIRS, 1.0, 5),),
        default_model="llama-12b+vit-2b",
    ),
    Synthetic(
        "navit",
        "306 sources of pictures with longer text, 14 x 14 patches",
        _navit(306),
        default_model="llama-12b+vit-2b",
        zipf=1.1,
    ),
    Synthetic(
        "navit_100",
        "navit with 100 of its sources",
        _navit(100),
        default_model="llama-12b+vit-2b",
        zipf=1.1,
    ),
    Synthetic(
        "web",
        "web pages, 700 tokens on average (FineWeb's mean)",
        (Kind("web", shapes.Text(corpora.WEB), 1.0, 32),),
    ),
    Synthetic(
        "code",
        "files of source code (the mean of the Pile's GitHub part)",
        (Kind("code", shapes.Text(corpora.CODE), 1.0, 30),),
        zipf=1.1,
        default_context=32768,
    ),
    Synthetic(
        "books",
        "whole books, cut at the context, between web pages (1 book for 20 pages)",
        (
            Kind("web", shapes.Text(corpora.WEB), 20.0, 32),
            Kind("books", shapes.Text(corpora.BOOKS), 1.0, 4),
        ),
        default_context=65536,
    ),
    Synthetic(
        "pretrain",
        "60 % web, 15 % code, 10 % questions, 10 % papers, 5 % books, by number of documents",
        (
            Kind("web", shapes.Text(corpora.WEB), 0.60, 32),
            Kind("code", shapes.Text(corpora.CODE), 0.15, 30),
            Kind("forum", shapes.Text(corpora.FORUM), 0.10, 8),
            Kind("papers", shapes.Text(corpora.PAPERS), 0.10, 8),
            Kind("books", shapes.Text(corpora.BOOKS), 0.05, 4),
        ),
        default_context=32768,
    ),
    Synthetic(
        "audio",
        "speech in the wild with transcripts (Libri-Light's durations)",
        (Kind("speech", shapes.Speech(), 1.0, 16),),
        default_model="llama-12b+vit-1b",
    ),
    Synthetic(
        "video",
        "captioned clips of 8.5 seconds on average (Panda-70M's mean), two frames a second",
        (Kind("clips", shapes.VideoClips(), 1.0, 8),),
        default_context=16384,
        default_model="llama-12b+vit-1b",
    ),
)
WORKLOADS = {workload.name: workload for workload in _WORKLOADS}


def synthetic(name: str, seed: int) -> Synthetic:
    """The named workload with a seed; refused with the known names."""
    if name not in WORKLOADS:
        raise refused(
            ("workload",),
            "unknown workload",
            name,
            ", ".join(WORKLOADS) + ", or a file that ends in .parquet",
            did_you_mean(name, WORKLOADS),
        )
    return WORKLOADS[name].with_seed(seed)
