"""Memory of a source that is open and idle, at 306 sources of 20 files each.

Two processes open a job through the public API and read steps from one source: in one process 305
other sources are open, in the other there are none. Both are measured when the engine runs and
nothing moves. Counted is the resident set of the whole process: heap, buffers, mapped indexes,
Python objects, thread stacks, code. The difference, over 305, is the memory of a source. It is
taken for sources that wait for a later stage of the mixture (`bytes_per_idle_source`), for sources
of weight 0, and for sources that were read in the first steps and then left alone: those also have
the decoded blocks that stay cached, which the payload budget bounds for all sources together.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _tiny_sources, _web_corpus
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience

STEPS = 20
IDLE = "waiting"
KINDS = (IDLE, "unused", "rested")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench idle")
    parser.add_argument("--sources", type=int, default=306)
    parser.add_argument("--files", type=int, default=20, help="of every source")
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def _name(sources: int, kind: str) -> str:
    return f"overlord/{sources}_sources/{kind}"


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure all processes in turn."""
    options = _parse(arguments)
    host = _contract.machine()
    corpus = _tiny_sources.TinySources(sources=options.sources, files=options.files)
    place = _tiny_sources.prepare(corpus, options.data)
    pythons = _peers.find_pythons(options.peers)
    contenders = [
        Contender(
            _name(count, kind), "overlord_idle", {"sources": count, "kind": kind}, is_peer=False
        )
        for kind in KINDS
        for count in (1, options.sources)
    ]
    work = {"folder": str(place), "context": 4096, "bins": 64, "steps": STEPS}
    found = _peers.interleave(pythons, contenders, work, options.rounds, Patience(options.patience))

    def per_source(key: str, kind: str = IDLE) -> float | None:
        one, many = (found[_name(count, kind)].get(key) for count in (1, options.sources))
        return (many - one) / (options.sources - 1) if one and many else None

    many = found[_name(options.sources, IDLE)]
    figures = {
        "bytes_per_idle_source": per_source("rss_bytes"),
        "rss_bytes": many.get("rss_bytes"),
        "anonymous_bytes_per_idle_source": per_source("anonymous_bytes"),
        "bytes_per_unused_source": per_source("rss_bytes", "unused"),
        "bytes_per_rested_source": per_source("rss_bytes", "rested"),
        "cached_payload_bytes_per_rested_source": per_source("payload_bytes", "rested"),
        "first_batches_seconds": many.get("steps_seconds"),
    }
    settings = {
        "sources": options.sources,
        "files_per_source": options.files,
        "formats": "Parquet token lists and Megatron .bin/.idx in turn",
        "rounds": options.rounds,
    }
    return _contract.report("idle", figures, found, settings, host)
