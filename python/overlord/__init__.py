"""Overlord: the data plane for training large models.

    import overlord as ol
    job = ol.job("mix.yaml", mesh=ol.mesh(pp=2, dp=4, cp=2, tp=2), seed=7)
    for batch in job.train(rank=rank, prefetch=2):
        ...

Names are loaded when they are first used, so importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from overlord._version import __version__

if TYPE_CHECKING:
    from overlord import (
        config,
        cost,
        deepspeed,
        hf,
        jax,
        lightning,
        megatron,
        mix,
        ray,
        strategy,
        titan,
        torch,
        verl,
    )
    from overlord._src.batch.encoder_part import EncoderPart
    from overlord._src.batch.microbatch import Microbatch
    from overlord._src.engine_errors import (
        BadDataError,
        BudgetExceededError,
        CancelledError,
        DeadlineError,
        InternalError,
        InvalidArgumentError,
        NotFoundError,
        OutOfRangeError,
        OverlordError,
        ResourceError,
        SourceChangedError,
        StateMismatchError,
        UnavailableError,
        UserFunctionError,
        VersionMismatchError,
    )
    from overlord._src.errors import ConfigError
    from overlord._src.functions.source_function import SourceReader, source
    from overlord._src.functions.transform_function import Transform, transform
    from overlord._src.job.job import Job, job
    from overlord._src.loader.loader import Loader, RankLoaders
    from overlord._src.mesh import Mesh, mesh

__all__ = [
    "BadDataError",
    "BudgetExceededError",
    "CancelledError",
    "ConfigError",
    "DeadlineError",
    "EncoderPart",
    "InternalError",
    "InvalidArgumentError",
    "Job",
    "Loader",
    "Mesh",
    "Microbatch",
    "NotFoundError",
    "OutOfRangeError",
    "OverlordError",
    "RankLoaders",
    "ResourceError",
    "SourceChangedError",
    "SourceReader",
    "StateMismatchError",
    "Transform",
    "UnavailableError",
    "UserFunctionError",
    "VersionMismatchError",
    "__version__",
    "config",
    "cost",
    "deepspeed",
    "hf",
    "jax",
    "job",
    "lightning",
    "megatron",
    "mesh",
    "mix",
    "ray",
    "source",
    "strategy",
    "titan",
    "torch",
    "transform",
    "verl",
]

_HOMES = {
    "ConfigError": "overlord._src.errors",
    "EncoderPart": "overlord._src.batch.encoder_part",
    "Job": "overlord._src.job.job",
    "job": "overlord._src.job.job",
    "Loader": "overlord._src.loader.loader",
    "RankLoaders": "overlord._src.loader.loader",
    "Mesh": "overlord._src.mesh",
    "mesh": "overlord._src.mesh",
    "Microbatch": "overlord._src.batch.microbatch",
    "SourceReader": "overlord._src.functions.source_function",
    "source": "overlord._src.functions.source_function",
    "Transform": "overlord._src.functions.transform_function",
    "transform": "overlord._src.functions.transform_function",
}
_MODULES = (
    *("config", "cost", "mix", "ray", "strategy"),
    *("deepspeed", "hf", "jax", "lightning", "megatron", "titan", "torch", "verl"),  # trainers
)
# Errors of the engine; each also derives from a built-in one.
_ERRORS = [name for name in __all__ if name.endswith("Error") and name not in _HOMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"overlord.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _ERRORS:
        value = getattr(importlib.import_module("overlord._src.native").core, name)
    else:
        raise AttributeError(f"module 'overlord' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
