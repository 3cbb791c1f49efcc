"""`overlord demo`: a corpus in every format under ./demo, indexed, run live on 16 ranks."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

MESH = "pp=2,dp=2,cp=2,tp=2"
STEPS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "--dir",
        dest="folder",
        metavar="DIR",
        type=Path,
        default=Path("demo"),
        help="where the corpus lies (default ./demo)",
    )
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps to run (default {STEPS})")
    parser.add_argument("--mesh", default=MESH, help=f"ranks (default {MESH})")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count() or 2, help="CPU threads (default: all)"
    )
    parser.add_argument(
        "--no-live", dest="live", action="store_false", help="lines instead of a live view"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, default=None, help="write the report there"
    )


def run(options: argparse.Namespace) -> int:
    """Make what is missing, then run."""
    from overlord._src.config.reading import read_config
    from overlord._src.corpus.config_text import demo_config
    from overlord._src.job.job import Job
    from overlord._src.mesh import Mesh
    from overlord.cli.index_command import index_sources
    from overlord.cli.run_command import run_job
    from overlord.cli.terminal import make_console

    console = make_console()
    made = make_corpus(console, options.folder)
    config = options.folder / "mix.yaml"
    write_config(console, config, demo_config(), anew=made)
    loaded = read_config(config)
    if made:  # an index of an older corpus would be refused
        index_sources(loaded, sorted(loaded.config.sources), lengths=False, threads=options.threads)
    status = run_job(
        Job(loaded, Mesh.parse(options.mesh)),
        "train",
        options.steps,
        live=options.live,
        json_file=options.json,
        threads=options.threads,
    )
    if status == 0:
        look = options.folder / "look"
        console.print(
            f"look at a step: overlord inspect {config} rank 0 --step 3 --out {look}", markup=False
        )
    return status


def write_config(console: Any, path: Path, text: str, anew: bool) -> None:
    """The config beside its corpus. For another corpus it is written anew, and the old one kept."""
    if path.exists() and not anew:
        return
    if path.exists() and path.read_text() != text:
        old = path.with_name(path.name + ".old")
        path.replace(old)
        console.print(f"{path} is written anew for this corpus; what it was is in {old}")
    path.write_text(text)


def make_corpus(console: Any, folder: Path) -> bool:
    """Generate the corpus unless it is there, with progress; whether it was made now."""
    from overlord._src.corpus import DEMO, ensure_corpus
    from overlord.cli.terminal import show_size

    with console.status("looking at the corpus") as status:

        def show(file: str, done: int, total: int) -> None:
            status.update(f"making the corpus: file {min(done + 1, total)} of {total} {file}")

        corpus = ensure_corpus(folder / "data", DEMO, show)
    if corpus.made:
        console.print(
            f"made a corpus of {len(DEMO.sources)} sources, {show_size(corpus.size_bytes)}, "
            f"in {corpus.folder}"
        )
    return corpus.made
