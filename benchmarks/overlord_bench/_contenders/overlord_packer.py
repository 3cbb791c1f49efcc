"""Ours: the planner's best_fit over a stream of lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from overlord._version import __version__

from overlord_bench._web_corpus import WebCorpus, lengths


def measure(work: dict[str, Any]) -> dict[str, Any]:
    """Fill, documents a second, and the longest delay in steps."""
    from overlord_bench._native import bench_core

    drawn = lengths(WebCorpus(), work["documents"], np.random.default_rng(7)).astype(np.uint32)
    packed = bench_core().pack_stats(
        drawn, work["context"], work["bins"], work["slack_permille"], work["max_delay"]
    )
    return {
        "version": __version__,
        "fill": packed["fill"],
        "docs_per_s": packed["docs"] / packed["seconds"],
        "max_delay_steps": packed["max_delay"],
        "steps": packed["steps"],
    }
