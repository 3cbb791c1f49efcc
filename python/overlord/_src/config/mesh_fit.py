"""Does this job fit this mesh? Divisibility and least budgets, with the values that would do."""

from __future__ import annotations

from collections.abc import Iterator

from overlord._src.config.bins import path_of_bins
from overlord._src.config.checks import nearest_multiples
from overlord._src.config.field_types import show_bytes
from overlord._src.config.hybrid_fit import consumers_of, hybrid_of, hybrid_problems
from overlord._src.config.job_models import DeliveryConfig, JobFields
from overlord._src.config.readers import reader_problems
from overlord._src.config.streams import ResolvedStream
from overlord._src.errors import Problem
from overlord._src.mesh import Mesh, is_data_axis

_TOKEN_BYTES = {"uint16": 2, "int32": 4, "int64": 8}
_LOSS_BYTES = {"float32": 4, "uint8": 1}
_POSITION_BYTES = 4


def fit_problems(config: JobFields, stream: ResolvedStream, mesh: Mesh) -> list[Problem]:
    """Why a stream cannot be delivered to a mesh; empty where it can."""
    return [
        *([] if hybrid_of(config) else _bins_problems(stream, mesh)),
        *_slicing_problems(config, stream, mesh),
        *_broadcast_problems(config.delivery, mesh),
        *reader_problems(config, stream, mesh),
        *_budget_problems(config, stream, mesh),
        *hybrid_problems(config, mesh),
    ]


def _bins_problems(stream: ResolvedStream, mesh: Mesh) -> Iterator[Problem]:
    unit = mesh.data_size * stream.microbatch_size * stream.substeps
    if stream.fill_empty:
        return
    factors = f"dp {mesh.data_size} x microbatch_size {stream.microbatch_size}"
    if stream.substeps > 1:
        factors += f" x substeps {stream.substeps}"
    yield from (
        Problem(
            path_of_bins(stream.path_of("bins"), stream.declared_bins, step),
            f"{factors} = {unit} does not divide it",
            bins,
            f"multiples of {unit}, nearest {nearest_multiples(bins, unit)}",
            "or set delivery.fill_empty: true to add empty microbatches",
        )
        for step, bins in stream.bins_by_step.items()
        if bins % unit
    )


def _slicing_problems(config: JobFields, stream: ResolvedStream, mesh: Mesh) -> Iterator[Problem]:
    delivery = config.delivery
    cp, tp = mesh.size("cp"), mesh.size("tp")
    times_tp = tp if delivery.sequence_parallel else 1
    tp_text = f" x tp {tp}" if times_tp > 1 else ""
    if hybrid_of(config) is not None:
        yield from _chunk_problems(stream, times_tp)
        return
    slicing = delivery.cp_slicing
    if cp > 1 and slicing == "document_zigzag":
        unit = 2 * cp * times_tp
        if stream.align % unit:
            yield Problem(
                stream.path_of("align"),
                f"document_zigzag over cp {cp} cuts each document in "
                f"2 x cp{tp_text} = {unit} parts",
                stream.align,
                f"multiples of {unit}, nearest {nearest_multiples(stream.align, unit)}",
                "or another delivery.cp_slicing",
            )
    unit = times_tp
    if cp > 1 and slicing != "trainer":
        unit *= cp if slicing == "contiguous" else 2 * cp
    if stream.context % unit:
        yield Problem(
            stream.path_of("context"),
            f"{slicing} over cp {cp}{tp_text} cuts each sequence in {unit} parts",
            stream.context,
            f"multiples of {unit}, nearest {nearest_multiples(stream.context, unit)}",
        )


def _chunk_problems(stream: ResolvedStream, tp: int) -> Iterator[Problem]:
    """Rows of slices are multiples of `align`, and so must be what tp splits."""
    if stream.align % tp == 0:
        return
    yield Problem(
        stream.path_of("align"),
        f"with strategy.hybrid rows are multiples of it, and sequence_parallel over tp {tp} "
        "splits them",
        stream.align,
        f"multiples of {tp}, nearest {nearest_multiples(stream.align, tp)}",
    )


def _broadcast_problems(delivery: DeliveryConfig, mesh: Mesh) -> Iterator[Problem]:
    known = [name for name, _ in mesh.axes if not is_data_axis(name)]
    for index, axis in enumerate(delivery.broadcast):
        if is_data_axis(axis):
            yield Problem(
                ("delivery", "broadcast", index),
                "a data axis cannot be broadcast: its ranks see different samples",
                axis,
                ", ".join(known),
            )
        elif axis not in known and axis not in ("pp", "cp", "tp"):
            yield Problem(
                ("delivery", "broadcast", index), "no such axis in the mesh", axis, ", ".join(known)
            )


def microbatch_bytes(config: JobFields, stream: ResolvedStream) -> int:
    """Bytes of the arrays of one whole microbatch."""
    per_token = 2 * _TOKEN_BYTES[config.delivery.token_dtype]
    per_token += _LOSS_BYTES[config.delivery.loss_dtype] + _POSITION_BYTES
    return stream.microbatch_size * stream.context * per_token


def _budget_problems(config: JobFields, stream: ResolvedStream, mesh: Mesh) -> Iterator[Problem]:
    """A trainer holds one whole step of its group, so that much must fit."""
    rounds = -(-stream.bins // (consumers_of(config, mesh) * stream.microbatch_size))
    least = microbatch_bytes(config, stream) * rounds
    if config.runtime.constructor_budget >= least:
        return
    yield Problem(
        ("runtime", "constructor_budget"),
        f"less than one step of one data-parallel group: "
        f"{rounds} microbatches of {show_bytes(microbatch_bytes(config, stream))}",
        config.runtime.constructor_budget,
        f"at least {least} ({show_bytes(least)})",
        "raise it, or use more data-parallel groups",
    )
