"""Values from outside the file: `${NAME}` from the environment, dotted overrides of callers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from overlord._src.config import yaml_text
from overlord._src.errors import ConfigError, KeyPath, refused, show_path

_VARIABLE = re.compile(r"\$(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}")

Overrides = Mapping[str, object] | Iterable[str]


def substitute(data: Any, environment: Mapping[str, str], path: KeyPath = ()) -> Any:
    """Replace `${NAME}` in every string; `$${NAME}` stays as `${NAME}`.

    A string that is nothing but one `${NAME}` takes the type its value has in YAML, so a number
    from the environment can fill a number's place.
    """
    if isinstance(data, dict):
        return {key: substitute(value, environment, (*path, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [substitute(value, environment, (*path, i)) for i, value in enumerate(data)]
    if not isinstance(data, str) or "${" not in data:
        return data

    def value_of(match: re.Match[str]) -> str:
        if match.group(1):
            return match.group(0)[1:]
        name = match.group(2)
        if name not in environment:
            raise refused(
                path,
                f"the environment has no variable {name}",
                data,
                advice=f"export {name}, or write the value here ($${{{name}}} for plain text)",
            )
        return environment[name]

    whole = _VARIABLE.fullmatch(data)
    text = _VARIABLE.sub(value_of, data)
    if whole and not whole.group(1):
        return _scalar(text)
    return text


def _scalar(text: str) -> Any:
    """A number, boolean or null where the text is one in YAML, else the text itself."""
    try:
        value = yaml_text.parse(text).data
    except ConfigError:
        return text
    return value if isinstance(value, int | float | bool) or text in ("null", "~") else text


def apply_overrides(data: Any, overrides: Overrides) -> Any:
    """A copy of `data` with each `a.b.c=value` set; values are read as YAML."""
    pairs = overrides.items() if isinstance(overrides, Mapping) else map(_split, overrides)
    for key, value in pairs:
        parts = key.split(".")
        if not all(parts):
            raise refused((key,), "not a dotted key path", allowed="like mixture.weights.web")
        data = _with_value(data, parts, value, ())
    return data


def _split(text: str) -> tuple[str, object]:
    key, mark, value = text.partition("=")
    if not mark:
        raise refused(
            (), f"the override {text!r} has no '='", allowed="KEY=VALUE, like runtime.threads=4"
        )
    try:
        return key.strip(), yaml_text.parse(value).data
    except ConfigError as error:
        problems = (problem.under(key.strip()) for problem in error.problems)
        raise ConfigError(problems) from None


def _with_value(data: Any, parts: list[str], value: object, path: KeyPath) -> Any:
    if not parts:
        return value
    head, rest = parts[0], parts[1:]
    if isinstance(data, list):
        if not head.isdigit() or int(head) >= len(data):
            raise refused(
                (*path, head),
                "no such entry of the list",
                head,
                allowed=f"0 to {len(data) - 1}" if data else "none, the list is empty",
            )
        index = int(head)
        return [
            _with_value(item, rest, value, (*path, index)) if i == index else item
            for i, item in enumerate(data)
        ]
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise refused(
            (*path, head), f"cannot be set, because {show_path(path)} is not a mapping", data
        )
    return {**data, head: _with_value(data.get(head), rest, value, (*path, head))}
