"""Arguments that several commands share, and the job they describe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlord._src.config.reading import LoadedConfig
    from overlord._src.job import Job

MESH_FORM = "pp=..,dp=..,cp=..,tp=.."


def add_config(parser: argparse.ArgumentParser, *, overrides: bool = True) -> None:
    """CONFIG, and KEY=VALUE words after it where the command takes them."""
    parser.add_argument("config", metavar="CONFIG", help="the job's YAML file")
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override a config key, like --set runtime.threads=4",
    )
    parser.add_argument("--seed", type=int, default=None, help="replace the config's seed")
    if overrides:
        parser.add_argument(
            "overrides", metavar="KEY=VALUE", nargs="*", help="the same, without --set"
        )


def add_mesh(parser: argparse.ArgumentParser) -> None:
    """--mesh and --stream."""
    parser.add_argument(
        "--mesh", metavar=MESH_FORM, default="dp=1", help="ranks of the job (default dp=1)"
    )
    parser.add_argument(
        "--strategy",
        metavar="FILE.py:NAME",
        default=None,
        help="a strategy instead of the config's",
    )
    parser.add_argument(
        "--stream", default="train", help="which stream of the config (default train)"
    )


def load_config(options: argparse.Namespace) -> LoadedConfig:
    """The config with the overrides of the command line."""
    from overlord._src.config.reading import read_config

    overrides = [*options.settings, *getattr(options, "overrides", [])]
    return read_config(options.config, overrides=overrides, seed=options.seed)


def load_job(options: argparse.Namespace) -> Job:
    """The job on the mesh of the command line."""
    from overlord._src.mesh import Mesh

    loaded, mesh = load_config(options), Mesh.parse(options.mesh)
    from overlord._src.job import job  # after the config: what is wrong there needs no engine

    return job(loaded, mesh, strategy=load_strategy(getattr(options, "strategy", None)))


def load_strategy(text: str | None) -> Any:
    """The function NAME of FILE.py."""
    if text is None:
        return None
    import runpy

    from overlord._src.errors import ConfigError, Problem

    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise ConfigError(Problem(("--strategy",), "not of the form FILE.py:NAME", text))
    try:
        names = runpy.run_path(path)
    except OSError as error:
        raise ConfigError(
            Problem(("--strategy",), f"cannot be read: {error.strerror}", path)
        ) from None
    if not callable(names.get(name)):
        known = sorted(key for key, value in names.items() if callable(value) and key[0] != "_")
        raise ConfigError(Problem(("--strategy",), "no such function", name, ", ".join(known)))
    return names[name]
