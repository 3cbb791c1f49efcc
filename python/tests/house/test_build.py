"""What users run, and what is measured, is compiled as it ships."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# What ships is judged by target: the files of a folder are compiled as one.
NOT_SHIPPED = re.compile(
    r"_(test|fuzz|fuzz_main|benchmark|headers|bench)$|^overlord_(sim|testing)$|^nanobind|measure"
)
TARGET = re.compile(r" -o CMakeFiles/([\w-]+)\.dir/")


def product_commands() -> dict[str, str]:
    """By unit of the product, how the build in this checkout compiles it."""
    database = ROOT / "build" / "compile_commands.json"
    if not database.exists():
        pytest.skip("not a checkout with a build")
    commands = {}
    for entry in json.loads(database.read_text()):
        target = TARGET.search(entry["command"])
        name = target.group(1) if target else ""
        if name.startswith(("overlord", "_core")) and not NOT_SHIPPED.search(name):
            commands[entry["file"]] = entry["command"]
    return commands


def test_the_product_is_compiled_as_it_ships() -> None:
    commands = product_commands()
    assert len(commands) > 50
    for name, command in commands.items():
        levels = re.findall(r"(?<= )-O\S*", command)
        assert levels and levels[-1] in ("-O2", "-O3"), f"{name} is compiled with {levels}"
        assert " -DNDEBUG" in command, name
        assert "-fsanitize" not in command, name
