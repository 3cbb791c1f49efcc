"""NativeField: what a batch, or a part of one, tells because the engine's record of it does."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, overload

T = TypeVar("T")


class _Holder(Protocol):
    def _field(self, name: str) -> Any: ...


class NativeField(Generic[T]):
    """A field that the engine's record has under the same name."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> NativeField[T]: ...

    @overload
    def __get__(self, holder: _Holder, owner: type) -> T: ...

    def __get__(self, holder: _Holder | None, owner: type) -> T | NativeField[T]:
        if holder is None:
            return self
        value: T = holder._field(self._name)
        return value
