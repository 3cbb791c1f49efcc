"""Memory of all ranks of a host that read many sources, against a loader per rank.

Every rank is a process. Ours attach to the node of their host; peers have a loader each, with
worker processes, that keeps every source open. When every rank has taken its steps and nothing
moves any more, the PSS of all processes is added up, and that of the same ranks that only import
what the loader needs is taken off. Sources are Parquet files of mixed sizes with ready tokens.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _fleet, _mixed_sources, _peers, _web_corpus
from overlord_bench._contract import Figures
from overlord_bench._peers import Contender, Pythons

OURS = "overlord"
UNSHARED = "overlord/unshared"  # every rank has its own microbatches
TORCH = "torch_dataloader"
MESHES = {
    4: {"pp": 1, "dp": 2, "cp": 1, "tp": 2},
    8: {"pp": 2, "dp": 2, "cp": 1, "tp": 2},
    16: {"pp": 2, "dp": 2, "cp": 2, "tp": 2},
    64: {"pp": 4, "dp": 4, "cp": 2, "tp": 2},
}


def contenders(workers: int) -> list[Contender]:
    """Ours, and one loader per rank in the ways there are."""
    with_workers = f"{workers}_workers"
    return [
        Contender(OURS, "overlord", is_peer=False),
        Contender(
            UNSHARED,
            "overlord",
            {"runtime": {"ablation": {"sharing": False}}},
            is_peer=False,
        ),
        Contender(f"{TORCH}/{with_workers}", "torch", {"workers": workers}),
        Contender(f"mosaic_streaming/{with_workers}", "mosaic", {"workers": workers}),
        Contender(f"grain/{with_workers}", "grain", {"workers": workers}),
        Contender("grain/thread", "grain", {"workers": 0}),
    ]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench memory")
    parser.add_argument("--sources", type=int, default=306)
    parser.add_argument("--ranks", type=int, default=16, choices=sorted(MESHES))
    parser.add_argument("--workers", type=int, default=2, help="of every peer's loader")
    parser.add_argument("--steps", type=int, default=12, help="of every rank before it rests")
    parser.add_argument("--mean-length", type=float, default=350.0, help="of documents, in tokens")
    parser.add_argument("--vocabulary", type=int, default=50_000, help="that our job is told")
    parser.add_argument("--only", default="", help="contenders whose names begin so, with commas")
    parser.add_argument("--full", action="store_true", help="growth up to 64 ranks, 1,000 sources")
    parser.add_argument("--no-growth", action="store_true", help="only the one point")
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    parser.add_argument("--peers", default=None, help="the peers' environment, or its Python")
    return parser.parse_args(arguments)


class _Bench:
    """One run: measures fleets, each empty one once."""

    def __init__(self, pythons: Pythons, path: str, options: argparse.Namespace) -> None:
        self._pythons, self._path, self._options = pythons, path, options
        self._empty: dict[tuple[str, int], int] = {}
        self._places: dict[int, Path] = {}

    def place(self, sources: int) -> Path:
        """The data of so many sources."""
        if sources not in self._places:
            length = self._options.mean_length
            mixed = _mixed_sources.MixedSources(sources=sources, mean_length=length)
            self._places[sources] = _mixed_sources.prepare(mixed, self._options.data)
        return self._places[sources]

    def point(self, contender: Contender, ranks: int, sources: int) -> Figures:
        """Memory of one contender, without that of the empty processes."""
        python = self._pythons.of(contender)
        if python is None:
            return {"missing": _peers.NO_ENVIRONMENT}
        work = {
            "kind": contender.module,
            "folder": str(self.place(sources)),
            "sources": sources,
            "vocabulary": self._options.vocabulary,
            "mesh": MESHES[ranks],
            "context": 4096,
            "bins": 4,
            "microbatches": 2,
            "prefetch": 2,
            "steps": self._options.steps,
            **contender.setup,
        }
        try:
            if contender.module in ("overlord", "mosaic"):
                self._prepare(python, work, sources)
            empty = self._empty_fleet(python, work, ranks)
            found = _fleet.measure(python, self._path, work, ranks, detail=True)
        except _fleet.FleetError as error:
            kind, _, reason = str(error).partition(" ")
            return {kind if kind in ("missing", "failed") else "failed": reason or str(error)}
        figures: Figures = {
            "pss_bytes": found.pss - empty,
            "all_pss_bytes": found.pss,
            "empty_pss_bytes": empty,
            "bytes_per_rank": (found.pss - empty) / ranks,
            "processes": found.processes,
            "by_kind": found.by_kind,
            "by_mapping": found.by_mapping,
        }
        megabytes = figures["pss_bytes"] / 1e6
        _say(
            f"{contender.key}, {ranks} ranks, {sources} sources: {megabytes:.1f} MB"
            f" in {found.processes} processes"
        )
        return figures

    def _prepare(self, python: str, work: dict[str, Any], sources: int) -> None:
        """What is written once and not measured: our indexes, Mosaic's format."""
        stamp = self.place(sources) / f"prepared-{work['kind']}"
        if stamp.exists():
            return
        once = {**work, "mesh": MESHES[4]} if work["kind"] == OURS else {**work, "convert": True}
        _fleet.measure(python, self._path, once, 4 if work["kind"] == OURS else 1)
        stamp.touch()

    def _empty_fleet(self, python: str, work: dict[str, Any], ranks: int) -> int:
        key = (work["kind"], ranks)
        if key not in self._empty:
            found = _fleet.measure(python, self._path, {**work, "empty": True}, ranks)
            self._empty[key] = found.pss
        return self._empty[key]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _growth(options: argparse.Namespace) -> list[tuple[int, int]]:
    """(ranks, sources) besides the main point."""
    if options.no_growth:
        return []
    ranks, sources = ([4, 64], [64, 1000]) if options.full else ([4], [64])
    return [(count, options.sources) for count in ranks if count != options.ranks] + [
        (options.ranks, count) for count in sources if count != options.sources
    ]


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure everyone at the main point, ours and the DataLoader along the axes."""
    options = _parse(arguments)
    host = _contract.machine()
    wanted = tuple(name for name in options.only.split(",") if name)
    everyone = [c for c in contenders(options.workers) if not wanted or c.key.startswith(wanted)]
    found: dict[str, Figures] = {}
    with _peers.package_folder() as path:
        bench = _Bench(_peers.find_pythons(options.peers), path, options)
        for contender in everyone:
            found[contender.key] = bench.point(contender, options.ranks, options.sources)
        for ranks, sources in _growth(options):
            for contender in everyone:
                grows = contender.key == OURS or (options.full and contender.module == "torch")
                if grows:
                    key = f"{contender.key}:{ranks}_ranks:{sources}_sources"
                    found[key] = bench.point(contender, ranks, sources)
    mixed = _mixed_sources.MixedSources(sources=options.sources, mean_length=options.mean_length)
    settings = {
        "sources": {**asdict(mixed), **_mixed_sources.facts_of(bench.place(options.sources))},
        "ranks": options.ranks,
        "mesh": MESHES[options.ranks],
        "workers": options.workers,
        "steps": options.steps,
        "vocabulary": options.vocabulary,
        "microbatch": "4 sequences of 4,096 tokens, two a step",
    }
    return _contract.report("memory", figures_of(found, options), found, settings, host)


def figures_of(found: dict[str, Figures], options: argparse.Namespace) -> Figures:
    """The figures of the report; None where nothing was measured to compare with."""
    ours = found.get(OURS, {}).get("pss_bytes")
    at_point = {
        key: value["pss_bytes"]
        for key, value in found.items()
        if ":" not in key and "pss_bytes" in value
    }
    torch = next((size for key, size in at_point.items() if key.startswith(TORCH)), None)
    peers = {key: size for key, size in at_point.items() if not key.startswith((OURS, TORCH))}
    best = min(peers.items(), key=lambda item: item[1]) if peers else ("none", None)
    growth = {
        key.removeprefix(OURS + ":").replace(":", "_") + "_bytes": value.get("pss_bytes")
        for key, value in found.items()
        if key.startswith(OURS + ":")
    }
    return {
        "ratio_vs_dataloader": torch / ours if ours and torch else None,
        "ratio_vs_best_peer": best[1] / ours if ours and best[1] else None,
        "pss_bytes": ours,
        "bytes_per_rank": found.get(OURS, {}).get("bytes_per_rank"),
        "unshared_bytes": found.get(UNSHARED, {}).get("pss_bytes"),
        "dataloader_bytes": torch,
        "best_peer_bytes": best[1],
        "best_peer": best[0],
        **growth,
    }
