"""What users run, and what is measured, is compiled as it ships."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEST_ROOMS = ("src/overlord/sim/", "src/overlord/testing/")
NOT_SHIPPED = re.compile(r"(_test|_fuzz|_benchmark)\.cc$")


def product_commands() -> dict[str, str]:
    """By file of the product, how the build in this checkout compiles it."""
    database = ROOT / "build" / "compile_commands.json"
    if not database.exists():
        pytest.skip("not a checkout with a build")
    commands = {}
    for entry in json.loads(database.read_text()):
        path = Path(entry["file"])
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
        ships = name.startswith(("src/", "python/")) and not name.startswith(TEST_ROOMS)
        if ships and not NOT_SHIPPED.search(name):
            commands[name] = entry["command"]
    return commands


def test_the_product_is_compiled_as_it_ships() -> None:
    commands = product_commands()
    assert len(commands) > 300
    for name, command in commands.items():
        levels = re.findall(r"(?<= )-O\S*", command)
        assert levels and levels[-1] in ("-O2", "-O3"), f"{name} is compiled with {levels}"
        assert " -DNDEBUG" in command, name
        assert "-fsanitize" not in command, name
