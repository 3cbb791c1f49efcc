"""Installs what pyproject.toml requires into the environment that runs this.

Usage: install.py [--compile] [build] [EXTRA ...]. The run dependencies always come, with what builds the product;
`build` adds the build back end's requirements. Runs under the bare interpreter of a new virtual environment.

uv does it, which pip fetches first: it takes a quarter of pip's time, most of it for PyTorch. It does not read what pip
was told of indexes, so it is told that again; where it does not get on, pip does all of it.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
BUILDS = ["cmake>=3.25", "ninja"]
OF_UV = {  # by pip's name of the setting
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}


def requirements(groups: list[str]) -> list[str]:
    """The run dependencies, then those of each group."""
    project_file = Path(__file__).resolve().parent.parent / "pyproject.toml"
    settings = tomllib.loads(project_file.read_text())
    extras = settings["project"]["optional-dependencies"]
    known = {**extras, "build": settings["build-system"]["requires"]}
    wanted = list(settings["project"]["dependencies"])
    for name in groups:
        wanted += known[name]
    return list(dict.fromkeys([*wanted, *BUILDS]))


def environment(settings: str) -> dict[str, str]:
    """For uv, from `pip config list`, whose later lines win: those of files, then those of the environment.

    pip looks for the newest version in all indexes, and uv by default in the first that has any.
    """
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    lines = [line.partition("=") for line in settings.splitlines()]
    for key, _, value in sorted(lines, key=lambda line: line[0].startswith(":env:")):
        name = OF_UV.get(key.rpartition(".")[2])
        if name and value:
            words = str(ast.literal_eval(value)).split()
            found[name] = ("," if name == "UV_FIND_LINKS" else " ").join(words)
    return found


def by_uv(wanted: list[str], *, compiled: bool) -> bool:
    """Whether it went well."""
    if subprocess.run([*PIP, "install", "-qq", "uv>=0.9"], stdin=subprocess.DEVNULL).returncode:
        return False
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True).stdout
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    command += ["--compile-bytecode"] if compiled else []
    told = {**environment(listed), **os.environ}
    return subprocess.run([*command, *wanted], env=told, stdin=subprocess.DEVNULL).returncode == 0


def main() -> int:
    """Install the groups that the command line names."""
    words = sys.argv[1:]
    compiled = "--compile" in words
    wanted = requirements([word for word in words if word != "--compile"])
    if by_uv(wanted, compiled=compiled):
        return 0
    print("setup: uv did not install them (above); pip does", file=sys.stderr)
    option = "--compile" if compiled else "--no-compile"
    return subprocess.run([*PIP, "install", "-qq", option, *wanted], stdin=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main())
