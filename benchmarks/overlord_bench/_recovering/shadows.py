"""What `overlord bench recovery` says of shadows, out of what its runs told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from overlord_bench._contract import Figures

STALLED_MS = 20.0
STARTING = 3  # steps that wait for the first plans, and are not counted
FIG16_KILL = 35  # the step after which the paper kills loaders

AIMS = {
    "shadow_first_byte_p99_ms": "<= 500",
    "shadow_stalled_steps": "0",
    "hang_to_promotion_s": "<= 3",
    "false_promotions": "0",
}


def stalled(told: Mapping[str, Any]) -> int:
    """Steps whose `next()` took too long."""
    return sum(wait > STALLED_MS for wait in told["waits_ms"][STARTING:])


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that so many percent of them do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def _runs(found: Mapping[str, Figures], begin: str, field: str) -> list[Figures]:
    """All runs of that name, or none where one of them failed."""
    runs = [told for key, told in found.items() if key.startswith(begin)]
    return runs if all(field in told for told in runs) else []


def shadow_figures(found: Mapping[str, Figures]) -> Figures:
    """Those that were measured."""
    figures: Figures = {}
    if runs := _runs(found, "shadows/first_answers/", "answers_ms"):
        answers = [value for told in runs for value in told["answers_ms"]]
        figures["shadow_first_byte_p99_ms"] = percentile(answers, 99)
        figures["shadow_first_byte_p50_ms"] = percentile(answers, 50)
        figures["shadow_first_bytes"] = len(answers)
        promoted = [value for told in runs for value in told["promotions_ms"]]
        figures["shadow_promotion_max_ms"] = max(promoted)
        figures["shadow_unpaced_longest_wait_ms"] = max(told["longest_wait_ms"] for told in runs)
    for word, name in (("", "one"), ("_undisturbed", "nobody")):
        if runs := _runs(found, f"shadow_stalls/{name}/", "waits_ms"):
            figures["shadow_stalled_steps" + word] = sum(map(stalled, runs))
            longest = max(max(told["waits_ms"][STARTING:]) for told in runs)
            figures["shadow_longest_wait_ms" + word] = longest
    for part in ("fig16", "fig16_unpaced"):
        for word in ("with", "without"):
            if runs := _runs(found, f"{part}/{word}/", "waits_ms"):
                longest = max(max(told["waits_ms"][FIG16_KILL + 1 :]) for told in runs)
                figures[f"{part}_longest_wait_ms_{word}"] = longest
    return figures | _hang_and_memory(found) | _empty(found)


def _hang_and_memory(found: Mapping[str, Figures]) -> Figures:
    figures: Figures = {}
    if "max_s" in (told := found.get("hang/stopped", {})):
        figures["hang_to_promotion_s"] = told["max_s"]
        figures["hang_longest_wait_ms"] = max(told["waits_ms"][STARTING:])
    if "promotions" in (told := found.get("hang/busy", {})):
        figures["false_promotions"] = told["promotions"]
    ways = [found.get(f"shadows/memory/{word}", {}) for word in ("with", "without")]
    if all("pss_bytes" in told for told in ways):
        figures["shadow_memory_ratio"] = ways[0]["pss_bytes"] / ways[1]["pss_bytes"]
        loaders = ways[0]["loaders_bytes"] / ways[1]["loaders_bytes"]
        figures["shadow_loaders_memory_ratio"] = loaders
    return figures


def _empty(found: Mapping[str, Figures]) -> Figures:
    """By source and shadow: from the kill to the link or promotion, and what steps waited for."""
    figures: Figures = {}
    for key, told in found.items():
        if key.startswith("empty/") and "linked_ms" in told:
            name = key.replace("/", "_")
            figures[f"{name}_linked_ms"] = told["linked_ms"]
            figures[f"{name}_runway_wait_ms"] = told["runway_wait_ms"]
            figures[f"{name}_lost_ms"] = told["all_waits_ms"] - told["all_waits_ms_undisturbed"]
    return figures
