"""Finds modules of a Python package that import each other in a circle.

Imports inside functions and for type checkers count too: they only hide a circle.
"""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of what may be a module, the likelier first: `from a import b` names a.b or a."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((f"{node.module}.{alias.name}", node.module) for alias in node.names)


def find_circle(package: Path) -> list[Path]:
    """Files of one circle, each importing the next, the last being the first again; or none."""
    files = {_name(package, path): path for path in sorted(package.rglob("*.py"))}
    graph = {
        name: {
            found
            for exact, around in _imported(path.read_text())
            if (found := exact if exact in files else around) in files and found != name
        }
        for name, path in files.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [files[name] for name in reversed(error.args[1])]
    return []
