"""Errors of the Python face. Those of the engine come from the native module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

KeyPath = tuple[str | int, ...]

_URL_PASSWORD = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:)[^@/\s]*@")


class _Absent:
    """Stands for a value that is not there, where None would be a value."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


def redact(text: str) -> str:
    """Hide passwords inside URLs."""
    return _URL_PASSWORD.sub(r"\1***@", text)


def has_url_password(text: str) -> bool:
    """Whether a URL with a password stands in the text."""
    return _URL_PASSWORD.search(text) is not None


def show_value(value: object) -> str:
    """A value as a message shows it: short, and without passwords."""
    text = redact(repr(value))
    return text if len(text) <= 120 else text[:100] + "... (" + str(len(text)) + " characters)"


def show_path(path: KeyPath) -> str:
    """A key path as users write it in an override."""
    return ".".join(str(part) for part in path)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a config: where, what was given, what would do."""

    path: KeyPath
    wrong: str
    value: object = ABSENT
    allowed: str = ""
    advice: str = ""

    def under(self, *prefix: str | int) -> Problem:
        """The same problem, seen from further up the config."""
        return replace(self, path=(*prefix, *self.path))

    def text(self) -> str:
        """The message for people."""
        parts = [f"{show_path(self.path)}: {self.wrong}" if self.path else self.wrong]
        if self.value is not ABSENT:
            parts.append(f"got {show_value(self.value)}")
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.advice:
            parts.append(self.advice)
        return redact("; ".join(parts))


class ConfigError(ValueError):
    """A config that cannot run. Its text names key path, value, allowed values and what to do."""

    def __init__(
        self,
        problems: Problem | Iterable[Problem],
        origin: str = "",
        lines: Mapping[KeyPath, int] | None = None,
    ) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.origin = redact(origin)
        self.lines = dict(lines or {})
        super().__init__(self._message())

    def _place(self, problem: Problem) -> str:
        if not self.origin:
            return ""
        path = problem.path
        while path and path not in self.lines:
            path = path[:-1]
        line = self.lines.get(path)
        return f"{self.origin}:{line}: " if line else f"{self.origin}: "

    def _message(self) -> str:
        texts = [self._place(problem) + problem.text() for problem in self.problems]
        if len(texts) == 1:
            return texts[0]
        return f"{len(texts)} problems in the config:" + "".join(f"\n  - {text}" for text in texts)

    def at(self, origin: str, lines: Mapping[KeyPath, int] | None = None) -> ConfigError:
        """The same error with the file (and line) that it comes from."""
        return ConfigError(self.problems, origin, lines)


def refused(
    path: KeyPath, wrong: str, value: object = ABSENT, allowed: str = "", advice: str = ""
) -> ConfigError:
    """The error of one problem."""
    return ConfigError(Problem(path, wrong, value, allowed, advice))
