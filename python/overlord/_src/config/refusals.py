"""Pydantic's findings in the words of this project: key path, value, allowed values, what to do."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from overlord._src.config.field_types import BoundReasons
from overlord._src.errors import ABSENT, ConfigError, KeyPath, Problem, refused


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that looks most like `name`, or an empty string."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return matches[0] if matches else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Advice that names the nearest known name, where one is near."""
    match = nearest(name, known)
    return f"did you mean {match}?" if match else ""


def unknown_name(path: KeyPath, wrong: str, name: str, known: Sequence[str]) -> ConfigError:
    """The error for a name that is none of the known ones, with the nearest of them."""
    return refused(path, wrong, name, ", ".join(known) or "none", did_you_mean(name, known))


def problems_of(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """Every finding of a validation as a Problem."""
    found: list[Problem] = []
    for item in error.errors():
        cause = item.get("ctx", {}).get("error")
        path = tuple(part for part in item["loc"] if part != "[key]")
        if isinstance(cause, ConfigError):
            found += [problem.under(*path) for problem in cause.problems]
        else:
            found.append(_problem(path, item, model, data))
    return found


def _problem(path: KeyPath, item: Any, model: type[BaseModel], data: Any) -> Problem:
    kind, context = item["type"], item.get("ctx", {})
    if kind == "extra_forbidden":
        known = list(_model_at(model, path[:-1]).model_fields)
        return Problem(
            path,
            "unknown key",
            allowed=", ".join(known),
            advice=did_you_mean(str(path[-1]), known) or "remove it",
        )
    if kind == "missing":
        return _missing(path, model)
    value = item.get("input", ABSENT)
    if kind == "refused":
        return Problem(path, context["wrong"], value, context["allowed"], context["advice"])
    if path == ("seed",):
        return Problem(
            path,
            "not a seed",
            value,
            "an integer from 0 to 2**64 - 1",
            "write an integer without quotes or decimal point",
        )
    if kind == "literal_error":
        allowed = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return Problem(
            path, "unknown value", value, allowed, did_you_mean(str(value), allowed.split(", "))
        )
    if kind == "string_pattern_mismatch":
        return Problem(
            path, "not a name", value, "letters, digits, _ and - (at most 128, no - in front)"
        )
    if kind in _TOO_SMALL or kind in _TOO_LARGE:
        return _out_of_bounds(path, item, model)
    wrong, allowed = _BY_KIND.get(kind, (kind.replace("_", " "), ""))
    return Problem(path, wrong, value, allowed, "put it in quotes" if kind == "string_type" else "")


_TOO_SMALL = {"greater_than": ("gt", "more than"), "greater_than_equal": ("ge", "at least")}
_TOO_LARGE = {"less_than": ("lt", "less than"), "less_than_equal": ("le", "at most")}


def _out_of_bounds(path: KeyPath, item: Any, model: type[BaseModel]) -> Problem:
    """A number that is too small or too large, with all its bounds and why they are there."""
    small = item["type"] in _TOO_SMALL
    notes = _notes_of(_model_at(model, path[:-1]).model_fields.get(str(path[-1])))
    found = [f"{words} {bound}" for words, bound in _bounds_in(notes)]
    if not found:  # a number in a list or a mapping
        key, words = (_TOO_SMALL if small else _TOO_LARGE)[item["type"]]
        found = [f"{words} {item['ctx'][key]}"]
    reasons = next((note for note in notes if isinstance(note, BoundReasons)), BoundReasons())
    return Problem(
        path,
        "too small" if small else "too large",
        item.get("input", ABSENT),
        ", ".join(found),
        reasons.too_small if small else reasons.too_large,
    )


def _notes_of(field: Any) -> list[Any]:
    """What is noted beside a field's type, also where it may be absent."""
    if field is None:
        return []
    notes = list(field.metadata)
    for part in typing.get_args(field.annotation):
        if typing.get_origin(part) is typing.Annotated:
            for note in part.__metadata__:
                notes += note.metadata if isinstance(note, FieldInfo) else [note]
    return notes


def _bounds_in(notes: list[Any]) -> Iterator[tuple[str, object]]:
    for key, words in (*_TOO_SMALL.values(), *_TOO_LARGE.values()):
        for note in notes:
            if getattr(note, key, None) is not None:
                yield words, getattr(note, key)


def _missing(path: KeyPath, model: type[BaseModel]) -> Problem:
    if path == ("seed",):
        return Problem(
            path,
            "required, and never taken from a clock",
            allowed="an integer from 0 to 2**64 - 1",
            advice="write `seed: 7` in the config or pass seed=7",
        )
    field = _model_at(model, path[:-1]).model_fields.get(str(path[-1]))
    description = field.description if field is not None and field.description else ""
    return Problem(
        path, "required" + (f" ({description})" if description else ""), advice=f"add `{path[-1]}:`"
    )


# What is wrong, and what would do, by the kind of pydantic's finding.
_BY_KIND = {
    "int_type": ("not an integer", "an integer"),
    "int_from_float": ("not an integer", ""),
    "float_type": ("not a number", "a number"),
    "string_type": ("not text", "text"),
    "bool_type": ("neither true nor false", "true or false"),
    "dict_type": ("not a mapping", "a mapping of names"),
    "list_type": ("not a list", "a list"),
    "model_type": ("not a mapping", "a mapping of keys"),
    "model_attributes_type": ("not a mapping", "a mapping of keys"),
    "string_too_short": ("empty", "at least one character"),
    "too_short": ("empty", "at least one entry"),
}


def _model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    """The model that stands at a key path, or the last one on the way."""
    current: Any = model
    found = model
    for part in path:
        current = _step_into(current, part)
        if isinstance(current, type) and issubclass(current, BaseModel):
            found = current
    return found


def _step_into(annotation: Any, part: str | int) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(part))
        return _bare(field.annotation) if field is not None else None
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is dict:
        return _bare(arguments[1])
    if origin is list:
        return _bare(arguments[0])
    return None


def _bare(annotation: Any) -> Any:
    """The annotation without Annotated and without None."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = [item for item in typing.get_args(annotation) if item is not type(None)]
        lists = [item for item in map(_bare, members) if typing.get_origin(item) is list]
        found = members if len(members) == 1 else lists
        return _bare(found[0]) if found else annotation
    return annotation
