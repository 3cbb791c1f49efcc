"""Prints the requirements of pyproject.toml, one per line, for pip's -r.

Usage: requirements.py [build] [EXTRA ...]. The run dependencies always come first; `build` adds the
build back end's requirements. Runs under the bare interpreter of a new virtual environment.
"""

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib


def main() -> None:
    """Print the run dependencies, then those of each group named on the command line."""
    project_file = Path(__file__).resolve().parent.parent / "pyproject.toml"
    settings = tomllib.loads(project_file.read_text())
    extras = settings["project"]["optional-dependencies"]
    groups = {**extras, "build": settings["build-system"]["requires"]}
    wanted = list(settings["project"]["dependencies"])
    for name in sys.argv[1:]:
        wanted += groups[name]
    print("\n".join(dict.fromkeys(wanted)))


if __name__ == "__main__":
    main()
