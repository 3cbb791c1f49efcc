"""Types of single config values: byte sizes, names, lists that may be written as one item."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

MIB = 1 << 20
_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_SIZE = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*$")
SIZE_FORM = "a number of bytes, or text like 256MB (10**6), 256MiB (2**20) or 1.5GB"


class ConfigModel(BaseModel):
    """A part of the config: nothing is guessed, unknown keys are refused, values stay."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())


def refused_value(wrong: str, allowed: str, advice: str = "") -> PydanticCustomError:
    """The error of a validator; `problems_of` makes a Problem of it."""
    return PydanticCustomError(
        "refused", "{wrong}", {"wrong": wrong, "allowed": allowed, "advice": advice}
    )


@dataclass(frozen=True)
class BoundReasons:
    """Beside the bounds of a number: why they are there, for the message that refuses it."""

    too_small: str = ""
    too_large: str = ""


def parse_bytes(value: Any) -> Any:
    """Bytes out of `256MB`, `1.5GiB` or a plain integer."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise refused_value("not a size", SIZE_FORM)
    if isinstance(value, int):
        return value
    match = _SIZE.match(value)
    if match is None or match.group(2).upper() not in _UNITS:
        raise refused_value("not a size", SIZE_FORM)
    return int(float(match.group(1)) * _UNITS[match.group(2).upper()])


def show_bytes(count: int) -> str:
    """A size for people; exact where a unit fits."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count >= _UNITS[unit.upper()]:
            return f"{count / _UNITS[unit.upper()]:.4g} {unit}"
    return f"{count} B"


def _one_or_many(value: Any) -> Any:
    items = [value] if isinstance(value, str | os.PathLike) else value
    if isinstance(items, list | tuple):
        return [os.fspath(item) if isinstance(item, os.PathLike) else item for item in items]
    return items


def _as_text(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise refused_value("holds a NUL character", "a path", "remove it: no file has such a name")
    return value


def _step_range(value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise refused_value(
            "not a range of steps", "[first, end], end not included, null for no end"
        )
    first, end = value
    for item in (first, end):
        if isinstance(item, bool) or not isinstance(item, int | None):
            raise refused_value("not a range of steps", "two integers; the second may be null")
    if first is None or first < 0:
        raise refused_value("a range starts at step 0 or later", "first >= 0")
    if end is not None and end <= first:
        raise refused_value("the range holds no step", "end > first, or null for no end")
    return (first, end)


Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    Field(ge=1, le=2**63 - 1),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}),
]
FilePath = Annotated[
    str, BeforeValidator(_as_text), Field(min_length=1), AfterValidator(_without_nul)
]
Files = Annotated[
    list[Annotated[str, AfterValidator(_without_nul)]],
    BeforeValidator(_one_or_many),
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]
StepRange = Annotated[
    tuple[int, int | None],
    BeforeValidator(_step_range),
    WithJsonSchema(
        {
            "type": "array",
            "prefixItems": [{"type": "integer", "minimum": 0}, {"type": ["integer", "null"]}],
            "minItems": 2,
            "maxItems": 2,
        }
    ),
]
Text = Annotated[str, BeforeValidator(_as_text), Field(min_length=1)]
NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$"
Name = Annotated[str, BeforeValidator(_as_text), Field(pattern=NAME_PATTERN)]
Count32 = Annotated[int, Field(ge=1, le=2**32 - 1)]
# More than any host has use for. Beyond them a start takes minutes, or the system refuses it.
PROCESS_REASONS = BoundReasons(too_large="each is a process of the host")
Processes = Annotated[int, Field(ge=1, le=256), PROCESS_REASONS]
Threads = Annotated[
    int, Field(ge=1, le=1024), BoundReasons(too_large="each is a thread of the process")
]
Slots = Annotated[
    int,
    Field(ge=1, le=1024),
    BoundReasons(too_large="each has reads, buffers and messages of its own"),
]
# Not a union: who writes a number that is too large is told so, and nothing of `auto`.
SlotsOrAuto = Annotated[
    Slots,
    WrapValidator(lambda value, check: value if value == "auto" else check(value)),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 1024}, {"const": "auto"}]}
    ),
]
StepsAhead = Annotated[
    int,
    Field(ge=1, le=1024),
    BoundReasons(
        "the minimum is 1: a rank asks for the step it needs next",
        "all these steps are planned, and kept, before they are used",
    ),
]
Token = Annotated[int, Field(ge=0, le=2**32 - 1)]
