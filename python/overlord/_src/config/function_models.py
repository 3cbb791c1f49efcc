"""Functions of your own as typed models: which one, and how it is run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from overlord._src.config.field_types import MIB, Bytes, ConfigModel, Count32, Name, Text


class _FunctionConfig(ConfigModel):
    function: Text = Field(
        description="module:name of a function under `@ol.transform` (a reader: of a class under "
        "`@ol.source`), found where Python finds modules or beside the config file; or a name of "
        "`ol.job(transforms={...})`"
    )
    workers: Annotated[int, Field(ge=1, le=256)] = Field(
        default=2,
        description="processes, or threads, of every process that hosts loaders, or constructors "
        "for `batch_transform`",
    )
    deadline_seconds: float = Field(
        default=30.0, gt=0, le=86400, description="of one call; whoever runs it is ended then"
    )
    memory: Bytes = Field(default=2048 * MIB, description="resident memory of one worker process")
    check_every: int = Field(
        default=100,
        ge=0,
        le=2**32 - 1,
        description="one call in so many is made twice and compared; 0: none",
    )


class TransformConfig(_FunctionConfig):
    """A Python function of your own over a source's text rows or media; `module:name` is short.

    How it is run never changes what it gives. Its lane and version are in its decorator.
    """

    batch: Count32 = Field(default=64, description="most rows or items of one call")


class ReaderConfig(_FunctionConfig):
    """A Python reader of your own over the numbers of rows; `module:name` is short.

    How it is run never changes what it gives. Its version is in its decorator.
    """

    batch: Count32 = Field(default=64, description="most rows of one call")
    options: dict[Name, Any] = Field(
        default={}, description="keywords that the class is made with; values that JSON has"
    )


class BatchTransformConfig(_FunctionConfig):
    """A Python function of your own over microbatches; `batch_transform: module:name` is short.

    How it is run never changes what it gives. Its lane and version are in its decorator.
    """


def _function_alone(value: Any) -> Any:
    return {"function": value} if isinstance(value, str) else value


ReaderField = Annotated[ReaderConfig, BeforeValidator(_function_alone)]
TransformField = Annotated[TransformConfig, BeforeValidator(_function_alone)]
BatchTransform = Annotated[BatchTransformConfig | None, BeforeValidator(_function_alone)]
