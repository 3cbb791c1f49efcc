"""Does hybrid data parallelism go with the rest of the config and with the mesh?"""

from __future__ import annotations

from collections.abc import Iterator

from overlord._src.config.job_models import JobFields
from overlord._src.config.strategy_models import HybridConfig
from overlord._src.errors import Problem
from overlord._src.mesh import Mesh, is_data_axis

_INSTEAD = {
    "cost": "its model says what sequences cost",
    "balance": "it balances itself",
    "order": "groups have one order on all ranks",
    "encoder": "it plans text alone",
}


def hybrid_of(config: JobFields) -> HybridConfig | None:
    """The declaration, where there is one."""
    return config.strategy.hybrid if config.strategy is not None else None


def consumers_of(config: JobFields, mesh: Mesh) -> int:
    """Ranks that see samples of their own: data-parallel groups, or all dp x cp ranks."""
    return mesh.data_size * (mesh.size("cp") if hybrid_of(config) is not None else 1)


def hybrid_problems(config: JobFields, mesh: Mesh) -> Iterator[Problem]:
    """What cannot be declared together with it; sizes are checked by the engine."""
    if config.strategy is None or config.strategy.hybrid is None:
        return
    strategy = config.strategy
    if strategy.distribute.axis != "cp":
        data = ", ".join(name for name, _ in mesh.axes if is_data_axis(name)) or "dp"
        yield Problem(
            ("strategy", "distribute", "axis"),
            f"strategy.hybrid deals to every rank of {data} x cp by itself",
            strategy.distribute.axis,
            "cp",
            "write distribute(tree.cp); a mesh without cp deals to its data axes",
        )
    yield from (
        Problem(
            ("strategy", key),
            f"does not go with strategy.hybrid: {why}",
            advice=f"leave strategy.{key} or strategy.hybrid out",
        )
        for key, why in _INSTEAD.items()
        if getattr(strategy, key) is not None
    )
    if "cp_slicing" in config.delivery.model_fields_set:
        yield Problem(
            ("delivery", "cp_slicing"),
            "strategy.hybrid slices every sequence over its own number of ranks",
            config.delivery.cp_slicing,
            advice="leave it out; batch.hdp tells the slices",
        )
    if "cp" in [*config.delivery.broadcast, *strategy.broadcast]:
        yield Problem(
            ("strategy", "broadcast"),
            "with strategy.hybrid the ranks of cp see different samples",
            "cp",
            "axes other than cp and the data axes",
        )
