"""`overlord init DIR`: a folder with a working config, a tokenizer and some data."""

from __future__ import annotations

import argparse
from pathlib import Path

from overlord._src.errors import refused

CONFIG_NAME = "mix.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="a new or empty folder")


def run(options: argparse.Namespace) -> int:
    """Make the folder and say what to do next."""
    from overlord._src.corpus import STARTER, ensure_corpus
    from overlord._src.corpus.config_text import starter_config
    from overlord.cli.terminal import make_console, show_size

    folder: Path = options.folder
    config = folder / CONFIG_NAME
    if config.exists():
        raise refused(("DIR",), f"{config} is there already", advice="choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    corpus = ensure_corpus(folder / "data", STARTER)
    config.write_text(starter_config())
    console = make_console()
    console.print(f"{config} and {show_size(corpus.size_bytes)} of data in {corpus.folder}")
    console.print(
        f"next:\n  overlord index {config}\n  overlord inspect {config}\n"
        f"  overlord run {config} --steps 20 --mesh dp=2,tp=2"
    )
    return 0
