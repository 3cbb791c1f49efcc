"""YAML as a config may use it: the YAML 1.2 core schema, plain data, within limits.

No object tags, no duplicate keys, no alias bombs, bounded size and depth. Numbers and booleans are
those of YAML 1.2: `on`, `no` and dates stay text, `1e-3` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from overlord._src.errors import ConfigError, KeyPath, refused

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_NODES = 200_000  # after aliases are expanded

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {
    _TAG + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge")
}
_HAS_LIBYAML: bool = yaml.__with_libyaml__


@dataclass(frozen=True)
class Document:
    """A parsed config with the line on which each key stands."""

    data: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)


class _CoreResolver(yaml.resolver.BaseResolver):
    """Plain scalars by the YAML 1.2 core schema."""


_CoreResolver.add_implicit_resolver(
    _TAG + "null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)
_CoreResolver.add_implicit_resolver(
    _TAG + "bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_CoreResolver.add_implicit_resolver(
    _TAG + "int", re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
_CoreResolver.add_implicit_resolver(
    _TAG + "float",
    re.compile(
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)
_CoreResolver.add_implicit_resolver(_TAG + "merge", re.compile(r"^(?:<<)$"), ["<"])


class _CoreConstructor(yaml.constructor.SafeConstructor):
    """Plain data only; numbers as the core schema reads them."""

    def construct_core_int(self, node: yaml.ScalarNode) -> int:
        """Decimal, 0o octal or 0x hexadecimal."""
        text = str(self.construct_scalar(node))
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text, 10)

    def construct_core_float(self, node: yaml.ScalarNode) -> float:
        """A number, `.inf` or `.nan`."""
        return float(
            str(self.construct_scalar(node)).lower().replace(".inf", "inf").replace(".nan", "nan")
        )


_CoreConstructor.add_constructor(  # type: ignore[type-var]
    _TAG + "int", _CoreConstructor.construct_core_int
)
_CoreConstructor.add_constructor(  # type: ignore[type-var]
    _TAG + "float", _CoreConstructor.construct_core_float
)


def _loader_class() -> type:
    """A loader over libyaml where PyYAML has it, else over its Python parser."""
    if _HAS_LIBYAML:
        parser: Any = vars(yaml.cyaml)["CParser"]

        class FastLoader(parser, _CoreConstructor, _CoreResolver):  # type: ignore[misc]
            def __init__(self, stream: str) -> None:
                parser.__init__(self, stream)
                _CoreConstructor.__init__(self)
                _CoreResolver.__init__(self)

        return FastLoader

    class PlainLoader(
        yaml.reader.Reader,
        yaml.scanner.Scanner,
        yaml.parser.Parser,
        yaml.composer.Composer,
        _CoreConstructor,
        _CoreResolver,
    ):
        def __init__(self, stream: str) -> None:
            yaml.reader.Reader.__init__(self, stream)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)
            yaml.composer.Composer.__init__(self)
            _CoreConstructor.__init__(self)
            _CoreResolver.__init__(self)

    return PlainLoader


_Loader: Any = _loader_class()


def decode_text(data: bytes) -> str:
    """UTF-8 text out of a file's bytes; a byte-order mark and CRLF are accepted."""
    if len(data) > MAX_BYTES:
        raise refused(
            (),
            f"the file has {len(data)} bytes",
            allowed=f"at most {MAX_BYTES}",
            advice="a config holds settings; name data files by a pattern instead of listing them",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise refused(
            (),
            f"the file is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}, "
            f"line {line}",
            allowed="UTF-8 text",
            advice="save it as UTF-8",
        ) from None


def _check_events(text: str) -> None:
    """Walk the events, which needs no recursion, and hold them to the limits."""
    depth = nodes = 0
    open_anchors: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    for event in _events(text):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            nodes += 1
            if depth > MAX_DEPTH:
                raise refused(
                    (),
                    f"line {_line_of(event)} is nested deeper than {MAX_DEPTH} levels",
                    allowed=f"at most {MAX_DEPTH} levels",
                    advice="a config needs six",
                )
            open_anchors.append((event.anchor, nodes))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            anchor, begin = open_anchors.pop()
            if anchor is not None:
                sizes[anchor] = nodes - begin + 1
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            nodes += sizes.get(
                str(event.anchor), MAX_NODES + 1 if _is_open(event, open_anchors) else 1
            )
        if nodes > MAX_NODES:
            raise refused(
                (),
                f"line {_line_of(event)}: aliases expand to more than {MAX_NODES} values",
                allowed=f"at most {MAX_NODES} values",
                advice="write the values out",
            )


def _is_open(event: yaml.AliasEvent, open_anchors: list[tuple[str | None, int]]) -> bool:
    return any(anchor == event.anchor for anchor, _ in open_anchors)


def _events(text: str) -> Iterator[Any]:
    loader = _Loader(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _line_of(item: Any) -> int:
    """The line on which a node or an event begins."""
    return int(item.start_mark.line) + 1


def _walk(node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], seen: set[int]) -> None:
    """Note the line of every key; refuse tags, keys that are not text, and keys given twice."""
    lines.setdefault(path, _line_of(node))
    if node.tag not in _PLAIN_TAGS:
        raise refused(
            path,
            f"the tag {node.tag.replace(_TAG, '!!')} makes an object",
            allowed="plain mappings, lists, text, numbers, true, false and null",
            advice="remove the tag",
        ).at("", lines)
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _walk(item, (*path, index), lines, seen)
    elif isinstance(node, yaml.MappingNode):
        _walk_mapping(node, path, lines, seen)


def _walk_mapping(
    node: yaml.MappingNode, path: KeyPath, lines: dict[KeyPath, int], seen: set[int]
) -> None:
    first_lines: dict[str, int] = {}
    for key, value in node.value:
        line = _line_of(key)
        if key.tag == _TAG + "merge":
            _walk(value, path, {}, seen)
            continue
        if not isinstance(key, yaml.ScalarNode) or key.tag != _TAG + "str":
            shown = key.value if isinstance(key, yaml.ScalarNode) else "a collection"
            raise refused(
                path,
                f"line {line}: the key {shown} is not text",
                allowed="text keys",
                advice="put the key in quotes",
            ).at("", lines)
        if key.value in first_lines:
            lines[(*path, key.value)] = line
            raise refused(
                (*path, key.value),
                f"given twice, on lines {first_lines[key.value]} and {line}",
                advice="keep one of them, or give the second its own name",
            ).at("", lines)
        first_lines[key.value] = line
        lines[(*path, key.value)] = line
        _walk(value, (*path, key.value), lines, seen)


def parse(text: str) -> Document:
    """Plain data out of YAML text. Raises ConfigError; the caller adds the file's name."""
    try:
        _check_events(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return Document(None)
            lines: dict[KeyPath, int] = {}
            _walk(node, (), lines, set())
            return Document(loader.construct_document(node), lines)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise refused((), "the text is not YAML: " + " ".join(str(error).split())) from None
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise refused((), f"a number cannot be read: {error}") from None
