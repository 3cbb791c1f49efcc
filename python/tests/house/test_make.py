"""`make run` leaves a whole product, and examples say what else they need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]


def test_make_run_builds_what_the_wheel_ships() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    recipe = subprocess.run(
        ["make", "--dry-run", "run"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"--target (.+)", recipe) == [" ".join(settings["build"]["targets"])]


def test_the_product_is_all_that_is_installed() -> None:
    text = (ROOT / "cmake/extension.cmake").read_text()
    installed = set(re.findall(r"install\(TARGETS (\S+) ", text))
    built = set(
        re.findall(
            r"(?:add_custom_target\(product DEPENDS|add_dependencies\(product) (\S+)\)", text
        )
    )
    assert "overlord-node" in installed and built == installed


def test_the_example_says_what_to_install() -> None:
    code = "import runpy, sys; sys.modules['torch'] = None; runpy.run_path(sys.argv[1])"
    example = ROOT / "examples/train_tiny.py"
    run = subprocess.run([sys.executable, "-c", code, example], capture_output=True, text=True)
    assert run.returncode == 1 and "Traceback" not in run.stderr
    assert "-m pip install torch" in run.stderr
