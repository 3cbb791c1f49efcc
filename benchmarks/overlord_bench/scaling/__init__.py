"""Loaders on many hosts, sized by what sources cost: the figures of disaggregation.

Every figure is a module of this folder and can be measured alone (`--figure hosts,model`). What a
figure means, how it is measured and on what: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _web_corpus
from overlord_bench.scaling._bench import Bench
from overlord_bench.scaling._plots import write_plots

FIGURES = (
    "hosts",
    "planner",
    "loaders",
    "parallelism",
    "model",
    "grid",
    "shift",
    "reshard",
    "ray",
)
_CORES = len(os.sched_getaffinity(0))


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench scaling")
    parser.add_argument("--figure", default=",".join(FIGURES), help="what to measure, with commas")
    parser.add_argument("--cores", type=int, default=_CORES, help="that a job may use")
    parser.add_argument("--hosts", type=_numbers, default=[1, 2, 4], help="numbers of CPU hosts")
    parser.add_argument("--host-cores", type=int, default=3, help="of a CPU host")
    parser.add_argument("--bins", type=int, default=64, help="sequences of a step of texts")
    parser.add_argument("--seconds", type=float, default=10.0, help="that a rate is measured")
    parser.add_argument("--documents", type=int, default=4000, help="of a corpus of texts")
    parser.add_argument("--ranks", type=int, default=4, help="that are processes, for memory")
    parser.add_argument("--sources", type=int, default=306, help="of a large job")
    parser.add_argument("--steps", type=int, default=12, help="of a rank, or of a planner")
    parser.add_argument("--actors", type=_numbers, default=[8, 64], help="of Ray, with loaders")
    parser.add_argument("--samples", type=int, default=294_912, help="of a planned step")
    parser.add_argument("--rounds", type=int, default=2, help="of what is compared in the end")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of the whole bench")
    parser.add_argument("--no-namespaces", dest="namespaces", action="store_false")
    parser.add_argument("--peers", default=None, help="the peers' environment, or its Python")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="the paper's figures, as SVG")
    parser.add_argument("--quick", action="store_true", help="small sizes: a look in seconds")
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    if "--quick" in arguments:
        parser.set_defaults(cores=2, hosts=[1, 2], host_cores=2, bins=2, seconds=0.3)
        parser.set_defaults(documents=240, ranks=4, sources=8, steps=3, samples=9216, rounds=1)
        parser.set_defaults(actors=[1])
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure the figures in turn."""
    options = _parse(arguments)
    names = [name for name in options.figure.split(",") if name]
    if unknown := set(names) - set(FIGURES):
        raise SystemExit(f"--figure: there is no {', '.join(sorted(unknown))}; choose of {FIGURES}")
    host, figures, aims = _contract.machine(), dict[str, Any](), dict[str, str]()
    with _peers.package_folder() as path:
        bench = Bench(options, path)
        for name in names:
            module = importlib.import_module(f"overlord_bench.scaling.{name}")
            aims |= module.AIMS
            figures |= module.run(bench)
    if options.plots is not None:
        write_plots(figures, options.plots)
    settings = {
        name: value for name, value in vars(options).items() if name not in ("data", "plots")
    }
    settings |= {"figure": names, "aims": aims}
    return _contract.report("scaling", figures, bench.found, settings, host)
