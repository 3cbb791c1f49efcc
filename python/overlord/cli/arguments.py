"""Arguments that several commands share, and the job they describe."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from overlord._src.errors import refused

if TYPE_CHECKING:
    from overlord._src.config.reading import LoadedConfig
    from overlord._src.config.strategy_models import StrategyConfig
    from overlord._src.functions.mix_rule import Rule
    from overlord._src.job.job import Job

MESH_FORM = "pp=..,dp=..,cp=..,tp=.."


def add_config(parser: argparse.ArgumentParser, *, overrides: bool = True) -> None:
    """CONFIG, and KEY=VALUE words after it where the command takes them."""
    parser.add_argument("config", metavar="CONFIG", help="the job's YAML file")
    add_settings(parser)
    parser.add_argument("--seed", type=int, default=None, help="replace the config's seed")
    if overrides:
        parser.add_argument(
            "overrides", metavar="KEY=VALUE", nargs="*", help="the same, without --set"
        )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """--set."""
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override a config key, like --set runtime.threads=4",
    )


def add_mesh(parser: argparse.ArgumentParser) -> None:
    """--mesh and --stream."""
    parser.add_argument(
        "--mesh", metavar=MESH_FORM, default="dp=1", help="ranks of the job (default dp=1)"
    )
    add_strategy(parser)
    parser.add_argument(
        "--stream", default="train", help="which stream of the config (default train)"
    )


def add_node(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """The node that is meant; `otherwise`: what is done without it."""
    parser.add_argument(
        "where",
        metavar="DIRECTORY|CONFIG",
        nargs="?",
        help=f"the node's directory, or the config it serves (default: {otherwise})",
    )


def add_strategy(parser: argparse.ArgumentParser) -> None:
    """--strategy and --functions."""
    parser.add_argument(
        "--strategy",
        metavar="FILE.py:NAME",
        default=None,
        help="a strategy instead of the config's",
    )
    parser.add_argument(
        "--functions",
        metavar="FILE.py",
        default=None,
        help="where the Python functions are that the config's strategy names",
    )


def load_config(options: argparse.Namespace) -> LoadedConfig:
    """The config with the overrides of the command line."""
    from overlord._src.config.reading import read_config

    overrides = [*options.settings, *getattr(options, "overrides", [])]
    return read_config(options.config, overrides=overrides, seed=options.seed)


def load_declared(options: argparse.Namespace) -> tuple[LoadedConfig, dict[str, Any]]:
    """The config with the strategy of the command line in it, and the functions that it names."""
    from dataclasses import replace

    loaded = load_config(options)
    functions: dict[str, Any] = {}
    strategy = load_strategy(getattr(options, "strategy", None))
    if strategy is not None:
        from overlord.strategy import trace_functions

        declared, functions = trace_functions(strategy)
        loaded = replace(loaded, config=loaded.config.model_copy(update={"strategy": declared}))
    path = getattr(options, "functions", None)
    if path is not None:
        functions = {**functions, **load_functions(path, loaded)}
    return loaded, functions


def load_job(
    options: argparse.Namespace,
    rule_of: Callable[[LoadedConfig], Rule | None] = lambda loaded: None,
    functions_of: Callable[[StrategyConfig | None], dict[str, Any]] = lambda strategy: {},
) -> Job:
    """The job on the mesh of the command line; its rule and functions beside --functions."""
    from overlord._src.mesh import Mesh

    (loaded, functions), mesh = load_declared(options), Mesh.parse(options.mesh)
    functions = {**functions_of(loaded.config.strategy), **functions}
    from overlord._src.job.job import Job  # after the config: what is wrong there needs no engine

    return Job(loaded, mesh, rule_of(loaded), functions)


def load_functions(path: str, loaded: LoadedConfig) -> dict[str, Any]:
    """Those functions of FILE.py that the config's strategy names; all of them must be there."""
    from overlord._src.lowering.strategy import functions_of

    wanted = functions_of(loaded.config.strategy)
    if not wanted:
        raise refused(("--functions",), "the config's strategy names none", path)
    names = _run_file("--functions", path)
    known = sorted(key for key, value in names.items() if callable(value) and key[0] != "_")
    missing = [name for name in wanted if not callable(names.get(name))]
    if missing:
        raise refused(
            ("--functions",), f"{path} has no such function", missing[0], ", ".join(known)
        )
    return {name: names[name] for name in wanted}


def _run_file(option: str, path: str) -> dict[str, Any]:
    import runpy

    try:
        return runpy.run_path(path)
    except OSError as error:
        raise refused((option,), f"cannot be read: {error.strerror}", path) from None


def load_strategy(text: str | None) -> Any:
    """The function NAME of FILE.py."""
    if text is None:
        return None
    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise refused(("--strategy",), "not of the form FILE.py:NAME", text)
    names = _run_file("--strategy", path)
    if not callable(names.get(name)):
        known = sorted(key for key, value in names.items() if callable(value) and key[0] != "_")
        raise refused(("--strategy",), "no such function", name, ", ".join(known))
    return names[name]
