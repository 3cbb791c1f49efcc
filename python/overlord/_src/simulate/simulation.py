"""A simulation: steps of a workload, placed by every strategy, measured, added up into a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlord._src.mesh import Mesh
from overlord._src.simulate import memory, own_strategy, placing, planner_seam, traffic
from overlord._src.simulate.clients import Clients, clients_of
from overlord._src.simulate.columns import Columns
from overlord._src.simulate.costs import BACKBONE, Model, cost_of
from overlord._src.simulate.measures import LIMITS, Bound, EncoderTime, StepTime, bound_of, measure
from overlord._src.simulate.placing import STRATEGIES, Placement, Work
from overlord._src.simulate.workloads import Atoms, Planned, Workload

FORMAT = "overlord-simulate/1"
NS_PER_MS = 1e6
ATOMS_PER_MICROBATCH = {"samples": 8, "sequences": 1}


@dataclass(frozen=True)
class Settings:
    """What to simulate."""

    workload: Workload
    mesh: Mesh
    model: Model
    steps: int
    global_batch: int
    microbatches: int
    context: int
    atoms: Atoms = "samples"
    strategies: tuple[str, ...] = tuple(STRATEGIES)
    encoder_time: EncoderTime = "before"
    seed: int = 0
    own_cost: bool = False  # the job's own function says what samples cost, not the model


def default_microbatches(mesh: Mesh) -> int:
    """Enough for the pipeline to be busy most of the time."""
    return max(4, 2 * mesh.size("pp"))


def default_global_batch(mesh: Mesh, microbatches: int, atoms: Atoms) -> int:
    """Some atoms in every microbatch."""
    return mesh.data_size * microbatches * ATOMS_PER_MICROBATCH[atoms]


@dataclass
class _Course:
    """One strategy over all steps."""

    times: list[StepTime]
    placing_s: float = 0.0


def simulate(settings: Settings, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Run it; the report as plain data. Only `measured` depends on the machine."""
    clients = clients_of(settings.mesh)
    courses = {name: _Course([]) for name in settings.strategies}
    bounds: list[Bound] = []
    tally = traffic.Tally()
    for step in range(settings.steps):
        columns = settings.workload.draw(
            step, settings.global_batch, settings.context, settings.atoms
        )
        tally.add(columns, len(settings.workload.source_names))
        work = Work(_costs(settings, step, columns), columns.per_atom(columns.tokens))
        bounds.append(bound_of(work, clients, settings.microbatches, settings.encoder_time))
        moved = _embedding_bytes(settings.model, columns)
        for name, course in courses.items():
            started = time.perf_counter()
            placed = _place(settings, name, step, work, clients)
            course.placing_s += time.perf_counter() - started
            course.times.append(
                measure(placed, work, clients, settings.microbatches, settings.encoder_time, moved)
            )
        if progress is not None:
            progress(step + 1)
    return _report(settings, clients, courses, bounds, tally)


def _costs(settings: Settings, step: int, columns: Columns) -> dict[str, Any]:
    costs = cost_of(settings.model, columns)
    if settings.own_cost and isinstance(settings.workload, Planned):
        own = settings.workload.own_costs(step)
        if own is not None:
            costs[BACKBONE] = columns.per_atom(own)
    return costs


def _place(settings: Settings, name: str, step: int, work: Work, clients: Clients) -> Placement:
    if name == own_strategy.NAME and isinstance(settings.workload, Planned):
        return settings.workload.place_own(step, settings.atoms, work, clients)
    return STRATEGIES[name].place(work, clients, settings.microbatches)


def _words_for(name: str) -> tuple[str, str]:
    """Title and description of a strategy."""
    if name == own_strategy.NAME:
        return own_strategy.TITLE, own_strategy.DESCRIPTION
    return STRATEGIES[name].title, STRATEGIES[name].description


def _embedding_bytes(model: Model, columns: Columns) -> Any:
    """What a sample's media becomes, as the backbone takes it."""
    media = columns.tokens - columns.text_tokens
    return columns.per_atom(media * model.backbone.hidden * traffic.EMBEDDING_BYTES)


def _report(
    settings: Settings,
    clients: Clients,
    courses: dict[str, _Course],
    bounds: Sequence[Bound],
    tally: traffic.Tally,
) -> dict[str, Any]:
    mesh, workload = settings.mesh, settings.workload
    best = _best_of(courses)
    step_ns = float(np.mean([item.step_ns for item in courses[best].times]))
    hops = traffic.hop_bytes(tally, clients)
    loaders = traffic.loaders_needed(tally, step_ns / 1e9)
    loaders["heaviest_source"] = list(workload.source_names)[loaders["heaviest_source"]]
    size = memory.JobSize(
        groups=clients.groups,
        cp=mesh.size("cp"),
        pp=mesh.size("pp"),
        sources=len(workload.source_names),
        global_batch=settings.global_batch,
        sample_bytes=tally.stored_bytes / max(tally.steps * settings.global_batch, 1),
        loader_workers=loaders["workers"],
        fetching_ranks=traffic.fetching_ranks(clients),
        client_step_bytes=hops["constructor_to_client"],
    )
    return {
        "format": FORMAT,
        "workload": {
            "name": workload.name,
            "description": workload.description,
            "sources": len(workload.source_names),
            "seed": settings.seed,
            "context": settings.context,
            "atoms": settings.atoms,
            "mean_tokens": tally.tokens / max(tally.steps * settings.global_batch, 1),
        },
        "model": {
            "name": "its own cost" if settings.own_cost else settings.model.name,
            "modules": settings.model.modules,
        },
        "mesh": {
            "axes": dict(mesh.axes),
            "ranks": clients.world,
            "groups": clients.groups,
            "stages": clients.stages,
        },
        "steps": settings.steps,
        "global_batch": settings.global_batch,
        "microbatches": settings.microbatches,
        "encoder_time": settings.encoder_time,
        "bound": _bound_data(bounds),
        "strategies": {
            name: _strategy_data(name, course, courses, bounds) for name, course in courses.items()
        },
        "bytes_per_step": hops,
        "loaders": loaders,
        "memory": {**memory.job_memory(size), "appendix_a": memory.appendix_a()},
        "measured": {
            "balancer": planner_seam.BALANCER,
            "placing_ms_per_step": {
                name: course.placing_s * 1e3 / settings.steps for name, course in courses.items()
            },
        },
    }


def _best_of(courses: dict[str, _Course]) -> str:
    if placing.DEFAULT in courses:
        return placing.DEFAULT
    return min(courses, key=lambda name: sum(item.step_ns for item in courses[name].times))


def _bound_data(bounds: Sequence[Bound]) -> dict[str, Any]:
    return {
        "bound_ms": float(np.mean([bound.bound_ns for bound in bounds])) / NS_PER_MS,
        "even_ms": float(np.mean([bound.even_ns for bound in bounds])) / NS_PER_MS,
        "steps_limited_by": {
            cause: sum(bound.limited_by == cause for bound in bounds) for cause in LIMITS
        },
        "limiting_tokens": max(bound.largest_tokens for bound in bounds),
    }


def _strategy_data(
    name: str, course: _Course, courses: dict[str, _Course], bounds: Sequence[Bound]
) -> dict[str, Any]:
    steps = np.array([item.step_ns for item in course.times]) / NS_PER_MS
    base = courses.get(placing.BASELINE, course)
    base_ms = np.array([item.step_ns for item in base.times]) / NS_PER_MS
    axes = sorted({axis for item in course.times for axis in item.imbalance})
    even = np.array([bound.even_ns for bound in bounds]) / NS_PER_MS
    title, description = _words_for(name)
    return {
        "title": title,
        "description": description,
        "step_ms": {
            "mean": float(steps.mean()),
            "p50": float(np.percentile(steps, 50)),
            "p99": float(np.percentile(steps, 99)),
            "max": float(steps.max()),
        },
        "backbone_ms": float(np.mean([item.backbone_ns for item in course.times])) / NS_PER_MS,
        "encoder_ms": float(np.mean([item.encoder_ns for item in course.times])) / NS_PER_MS,
        "speedup_vs_arrival": float(base_ms.mean() / steps.mean()),
        "over_even": float(steps.mean() / even.mean()) if even.mean() > 0 else 1.0,
        "imbalance": {
            axis: float(np.mean([item.imbalance.get(axis, 1.0) for item in course.times]))
            for axis in axes
        },
        "largest_microbatch_tokens": max(item.largest_microbatch_tokens for item in course.times),
        "exchange_bytes": float(np.mean([item.exchange_bytes for item in course.times])),
        "per_step": {
            "step_ms": steps.tolist(),
            **{axis: [item.imbalance.get(axis, 1.0) for item in course.times] for axis in axes},
        },
        "first_step_loads_ms": _thinned(course.times[0].loads / NS_PER_MS),
    }


_HEAT_ROWS, _HEAT_COLUMNS = 64, 64


def _thinned(loads: Any) -> list[list[float]]:
    """Loads for a picture: neighbours are joined by their largest where there are too many."""
    for axis, limit in ((0, _HEAT_ROWS), (1, _HEAT_COLUMNS)):
        if loads.shape[axis] > limit:
            cuts = np.linspace(0, loads.shape[axis], limit, endpoint=False).astype(int)
            loads = np.maximum.reduceat(loads, cuts, axis=axis)
    rows: list[list[float]] = np.round(loads, 4).tolist()
    return rows
