"""What a call that asks for a stream may not ask for."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from overlord._src.config.refusals import problems_of
from overlord._src.config.runtime_models import RuntimeConfig
from overlord._src.errors import ConfigError, Problem, refused

ENGINES = ("auto", "embedded", "processes", "ray")


def check_call(engine: str, prefetch: int | None, threads: int | None) -> None:
    problems = []
    if engine not in ENGINES:
        problems.append(
            Problem(("engine",), "no such engine in this version", engine, ", ".join(ENGINES))
        )
    given = {"prefetch": prefetch, "threads": threads}
    given = {key: value for key, value in given.items() if value is not None}
    try:
        RuntimeConfig.model_validate(given)
    except ValidationError as error:
        problems += problems_of(error, RuntimeConfig, given)
    if problems:
        raise ConfigError(problems)


def check_ray_call(**given: Any) -> None:
    """Options of one trainer that the node of all cannot follow."""
    for name, value in given.items():
        if value is not None:
            raise refused(
                (name,),
                'is of one process, and with engine="ray" the keeper runs the job for all',
                value,
                advice=f"set runtime.{name} in the config"
                if name != "node"
                else "leave it out: ranks find the keeper by runtime.wire.planner",
            )
