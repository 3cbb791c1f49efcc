"""What would make a planned step faster, by its report."""

from __future__ import annotations

from typing import Any

_WORTH = 0.005  # gains below this share of the step are not worth a word


def remedies(report: dict[str, Any]) -> list[dict[str, Any]]:
    """What would help, the most first: each with the share of the step's time it could save."""
    step, fullest = report["step_ns"], report["consumer_max_ns"]
    found = []
    if fullest:
        for what, key in (("split", "split_bound_ns"), ("delay", "delay_bound_ns")):
            if report["bound_by"] != "mean":
                found.append((what, report["lower_bound_ns"] - report[key], fullest))
        found.append(("balance", fullest - report["lower_bound_ns"], fullest))
    if step:
        found.append(("microbatches", report["even_step_ns"] - report["halved_step_ns"], step))
        found.append(("order", step - max(report["even_step_ns"], fullest_time(report)), step))
    gains = [{"what": what, "gain": saved / of} for what, saved, of in found if saved > _WORTH * of]
    return sorted(gains, key=lambda item: -float(item["gain"]))


def fullest_time(report: dict[str, Any]) -> float:
    """Time of a step of even microbatches as heavy as those of the fullest consumer."""
    mean = report["total_ns"] / report["consumers"]
    return float(report["even_step_ns"] * report["consumer_max_ns"] / mean) if mean else 0.0


WORDS = {
    "split": "split the longest document over ranks (more cp, or cut it at a shorter context)",
    "delay": "delay its sequence to a step with more such work (window.steps above 1)",
    "microbatches": "more microbatches per step: the pipeline fills and drains too long",
    "balance": "a better balance: method lpt_search at level interleaved, or atoms samples",
    "order": "a better order of the microbatches: strategy.order.method search",
}


def remedy_lines(report: dict[str, Any]) -> list[str]:
    """What would help, in words."""
    found = remedies(report)
    if not found:
        return ["advice: close to the bound, only other data or more ranks would help"]
    return [f"advice: {WORDS[item['what']]}; up to {item['gain']:.1%}" for item in found]
