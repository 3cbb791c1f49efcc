"""Chance for one row of a corpus: numbers by key and count, in whole numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1


class Chance:
    """A stream of numbers that its key decides; the same on every machine."""

    def __init__(self, key: int) -> None:
        self._state = key & _MASK

    def word(self) -> int:
        """64 bits (splitmix64)."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, end: int) -> int:
        """A number from 0 to `end` - 1."""
        return (self.word() >> 32) * end >> 32

    def between(self, first: int, last: int) -> int:
        """A number from `first` to `last`, both possible."""
        return first + self.below(last - first + 1)

    def one_of(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.below(len(choices))]

    def two_of(self, choices: Sequence[T]) -> tuple[T, T]:
        """Two different ones of the choices."""
        first = self.below(len(choices))
        second = (first + 1 + self.below(len(choices) - 1)) % len(choices)
        return choices[first], choices[second]
