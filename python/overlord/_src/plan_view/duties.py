"""What the roles do with a plan, for programs: one source's queues, one constructor's rows.

A plan names segments; who reads and who assembles follows from it. These are the same indexes that
the engine's loaders and constructors work from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from overlord._src.native import core

if TYPE_CHECKING:
    from overlord._src.job.open_stream import OpenStream

Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class LoaderQueue:
    """What one source has to give one constructor, in the order in which it is read.

    One value per segment: tokens `first` to `first + count` of the sample (`passes`, `position`).
    `ordinal` is its place among all segments of the constructor, see `ConstructorRows`.
    """

    bucket: int
    ordinal: Int64Array
    passes: Int64Array
    position: Int64Array
    first: Int64Array
    count: Int64Array

    def __len__(self) -> int:
        return len(self.ordinal)


@dataclass(frozen=True)
class ConstructorRows:
    """The microbatches of one constructor: its segments as they lie in its rows.

    One value per segment, in the order of `ordinal`. Row `slot` of microbatch m is of
    `capacities[m * microbatch_size + slot]` tokens; `tokens_before` counts those of the segments
    that lie before this one in its row (documents begin at multiples of `align`, so bytes may lie
    further on).
    """

    bucket: int
    microbatches: int
    microbatch_size: int
    ordinal: Int64Array
    microbatch: Int64Array
    slot: Int64Array
    tokens_before: Int64Array
    source: Int64Array
    passes: Int64Array
    position: Int64Array
    first: Int64Array
    count: Int64Array
    capacities: Int64Array

    def __len__(self) -> int:
        return len(self.ordinal)


def loader_do_plan(plan: Any, source: int) -> list[LoaderQueue]:
    """The queues of one source (an index into the job's sorted names), one per constructor."""
    _check_plan(plan, source, "source")
    return [
        LoaderQueue(
            bucket, row["ordinal"], row["pass"], row["position"], row["first"], row["count"]
        )
        for bucket, row in enumerate(core.loader_do_plan(plan, source))
    ]


def constructor_do_plan(plan: Any, bucket: int) -> ConstructorRows:
    """The rows of one constructor: one per data-parallel group."""
    _check_plan(plan, bucket, "bucket")
    rows = core.constructor_do_plan(plan, bucket)
    return ConstructorRows(bucket=bucket, passes=rows.pop("pass"), **rows)


def _check_plan(plan: Any, number: Any, what: str) -> None:
    if not isinstance(plan, core.Plan):
        raise TypeError(f"not a plan: {type(plan).__name__}; `job.plan(step)` gives one")
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise core.OutOfRangeError(f"{what}: {number!r} is not a number of 0 or more")


def summarise(opened: OpenStream, step: int, fields: Sequence[str] | None, rows: int | None) -> Any:
    """The metadata columns of a step's samples: see `Job.summary_buffer`."""
    import pyarrow as pa

    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 0):
        raise ValueError(f"rows: {rows!r} is not a number of 0 or more")
    cursor = opened.cursor(place=False)
    cursor.seek(step)
    plan = cursor.next()
    if plan is None:
        raise core.OutOfRangeError(f"step {step} is past the end of the stream")
    planned = plan.columns()
    table: dict[str, Any] = {}
    for name in ("pass", "position", "first", "count", "targets", "bin"):
        table["tokens" if name == "count" else name] = planned[name]
    graph: Any = cursor.graph()
    for name, values in graph["columns"].items():
        table.setdefault(name, values)
    wanted = ["source", *table] if fields is None else list(fields)
    unknown = [name for name in wanted if name != "source" and name not in table]
    if unknown:
        raise ValueError(
            f"fields: no column {unknown[0]!r}; columns: {', '.join(['source', *table])}"
        )
    names = pa.array(opened.source_names)
    source = pa.DictionaryArray.from_arrays(pa.array(planned["source"].astype(np.int32)), names)
    made = pa.table(
        {name: source if name == "source" else pa.array(table[name]) for name in wanted}
    )
    return made if rows is None else made.slice(0, rows)
