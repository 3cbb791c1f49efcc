"""Hybrid data parallelism: gap to the bound and speed against static and power-of-two degrees.

Steps of 32 M tokens over 1,024 ranks, contexts 256 K to 2 M, long-tail lengths. Every contender is
planned and judged in one cost model with coefficients measured on an H200; nothing is trained. The
same model with ByteScale's published coefficients gives its ablation in the order it was published
(`contenders`, `ablation/...`).
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
import numpy.typing as npt
from overlord._version import __version__

from overlord_bench import _contract

CONTEXTS = (262_144, 524_288, 1_048_576, 2_097_152)
MODELS = ("llama12b", "mixtral8x7b")
# Share of sequences with at least so many tokens: four in five end at 4 K, one in a hundred has
# 128 K or more, one in two thousand 2 M (ByteScale's figure 4). Log-linear in between.
_TAIL = (
    (64, 1.0),
    (512, 0.75),
    (4096, 0.2),
    (32_768, 0.035),
    (131_072, 0.01),
    (262_144, 0.0063),
    (524_288, 0.0008),
    (2_097_152, 0.0005),
    (2_600_000, 1e-9),
)
# Contender: method, offloading, powers of two only.
_CONTENDERS: dict[str, tuple[str, bool, bool]] = {
    "static": ("static", False, False),
    "power_of_two": ("power_of_two", False, False),
    "power_of_two_searched": ("search", True, True),
    "bytescale": ("buckets", True, False),
    "bytescale_no_offload": ("buckets", False, False),
    "overlord_no_offload": ("search", False, False),
    "overlord": ("search", True, False),
}
_ABLATION: dict[str, tuple[str, bool, bool]] = {
    "static": ("static", False, False),
    "dynamic_groups": ("naive", False, False),
    "offload": ("naive", True, False),
    "balance": ("buckets", True, False),
    "overlord": ("search", True, False),
}
_BASELINES = ("static", "power_of_two")  # of the benchmarks, not of the planner
_PUBLISHED = {"static": 1.0, "dynamic_groups": 1.59, "offload": 2.01, "balance": 3.69}


def long_tail(tokens: int, context: int, seed: int) -> npt.NDArray[np.uint32]:
    """Lengths that add up to `tokens`; sequences over the context are cut."""
    generator = np.random.default_rng(seed)
    sizes, shares = (np.log([row[at] for row in _TAIL]) for at in (0, 1))
    lengths: list[int] = []
    left = tokens
    while left > 0:
        drawn = np.exp(np.interp(np.log(generator.random(1024)), shares[::-1], sizes[::-1]))
        for length in drawn.astype(np.int64).tolist():
            while length > 0 and left > 0:
                lengths.append(min(length, context, left))
                length -= lengths[-1]
                left -= lengths[-1]
    return np.asarray(lengths, np.uint32)


def _measure(
    lengths: npt.NDArray[np.uint32],
    context: int,
    model: str,
    contender: tuple[str, bool, bool],
    options: argparse.Namespace,
) -> dict[str, float]:
    from overlord import hdp
    from overlord_bench._native import bench_core

    method, offload, powers_of_two = contender
    coefficients, ranks = hdp.model(model), options.ranks

    def ours() -> tuple[int, float]:
        plan = hdp.plan(
            lengths,
            ranks,
            coefficients,
            method=method,  # type: ignore[arg-type]
            offload=offload,
            powers_of_two=powers_of_two,
        )
        return plan.makespan_ns, plan.gap_percent

    def baseline() -> tuple[int, float]:
        found = bench_core().hdp_baseline(lengths, ranks, model, method, context)
        return found["makespan_ns"], found["gap_ppm"] / 1e4

    spent = []
    for _ in range(options.rounds):
        begin = time.process_time()
        makespan_ns, gap_percent = baseline() if method in _BASELINES else ours()
        spent.append(time.process_time() - begin)
    return {
        "step_s": makespan_ns / 1e9,
        "gap_percent": gap_percent,
        "plan_ms": sorted(spent)[len(spent) // 2] * 1e3,
    }


def _mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def ablation(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Speed over static context parallelism with ByteScale's coefficients at 2 M tokens."""
    context = CONTEXTS[-1]
    steps = dict.fromkeys(_ABLATION, 0.0)
    for seed in range(2 * options.seeds):
        lengths = long_tail(int(options.tokens), context, seed)
        for name, contender in _ABLATION.items():
            found = _measure(lengths, context, "bytescale7b", contender, options)
            steps[name] += found["step_s"]
    return {
        f"ablation/{name}": {
            "version": __version__,
            "speedup": steps["static"] / step,
            "published": _PUBLISHED.get(name),
        }
        for name, step in steps.items()
    }


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench hdp")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--tokens", type=float, default=32 * 2**20, help="of a step")
    parser.add_argument("--seeds", type=int, default=5, help="steps per model and context")
    parser.add_argument("--rounds", type=int, default=3, help="times each plan is made")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> dict[str, Any]:
    """Plan every step with every contender."""
    options = _parse(arguments)
    host = _contract.machine()
    contenders: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    gaps: list[float] = []
    plan_ms: list[float] = []
    over: dict[str, list[float]] = {name: [] for name in _CONTENDERS if name != "overlord"}
    for model in MODELS:
        for context in CONTEXTS:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in _CONTENDERS}
            for seed in range(options.seeds):
                lengths = long_tail(int(options.tokens), context, seed)
                for name, contender in _CONTENDERS.items():
                    found[name].append(_measure(lengths, context, model, contender, options))
            own_rows = found["overlord"]
            gaps += [row["gap_percent"] for row in own_rows]
            plan_ms += [row["plan_ms"] for row in own_rows]
            for name, rows in found.items():
                ratio = _mean(
                    [row["step_s"] / own["step_s"] for row, own in zip(rows, own_rows, strict=True)]
                )
                if name in over:
                    over[name].append(ratio)
                contenders[f"{name}/{model}/{context}"] = {
                    "version": __version__,
                    **_contract.medians(rows),
                    "gap_percent_worst": max(row["gap_percent"] for row in rows),
                    "overlord_speedup": ratio,
                }
    figures["gap_percent"] = max(gaps)
    figures["speedup_vs_static"] = _mean(over["static"])
    figures["speedup_vs_pow2"] = _mean(over["power_of_two"])
    figures["plan_ms"] = max(plan_ms)
    figures["speedup_vs_pow2_least"] = min(over["power_of_two"])
    figures["speedup_vs_pow2_searched"] = _mean(over["power_of_two_searched"])
    # The one that was better at this model and context: offloading can lengthen its longest chain.
    better = zip(over["bytescale"], over["bytescale_no_offload"], strict=True)
    figures["speedup_vs_bytescale"] = _mean([min(pair) for pair in better])
    both = zip(over["power_of_two"], over["overlord_no_offload"], strict=True)
    figures["speedup_vs_pow2_no_offload"] = _mean([theirs / ours for theirs, ours in both])
    contenders.update(ablation(options))
    settings = {
        "lengths": "long tail, 80 % to 4 K, 1 % from 128 K, 0.05 % from 2 M; cut at the context",
        "ranks": options.ranks,
        "tokens_per_step": int(options.tokens),
        "seeds": options.seeds,
        "rounds": options.rounds,
        "models": list(MODELS),
        "figures": "gap and time are the worst, speed-ups geometric means over models and contexts",
    }
    return _contract.report("hdp", figures, contenders, settings, host)
