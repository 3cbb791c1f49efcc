"""The checks of `overlord doctor` for jobs of several hosts: who gives what, what lives there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlord._src.checkup.finding import Finding, Verdict
from overlord._src.config.field_types import show_bytes
from overlord._src.config.runtime_models import RuntimeConfig


def check_hosts(runtime: RuntimeConfig) -> list[Finding]:
    """Every host of every job of this user whose lead runs on this one."""
    try:
        from overlord._src.node.watch import find_nodes
    except ImportError:
        return []  # said elsewhere
    found = []
    for _, status in find_nodes(runtime.processes.directory):
        if len(status["hosts"]) > 1 or alone(status):
            found += host_findings(status)
    return found


def host_findings(status: Mapping[str, Any]) -> list[Finding]:
    """Of each host of a job, and of media on their way; `status` is what its lead tells."""
    what = f"job {status['job']}: media"
    media = [Finding("ok", what, decoding_text(choice)) for choice in status["decoding"]]
    return [*(_finding(status, host) for host in status["hosts"]), *media]


def decoding_text(choice: Mapping[str, Any]) -> str:
    """Who decodes the media of a source, and why."""
    who = "constructors" if choice["packs"] else "loaders"
    return f"{choice['source']}: {who} decode: {choice['why']}"


def _finding(status: Mapping[str, Any], host: Mapping[str, Any]) -> Finding:
    what = f"job {status['job']}: {host['name'] or 'lead'}"
    if host["lost"]:
        advice = "its loaders went on elsewhere; look for its end in its log, it may join again"
        return Finding("warn", what, f"lost: {advice}")
    text = f"{host_text(host)}{_leading(status, host)}; "
    if host["groups"] == 0:
        advice = _why_empty(status, host)
        empty = host["name"] or alone(status)
        return Finding("warn" if empty else "ok", what, f"{text}no loaders: {advice}")
    here = [item for item in status["processes"] if item["host"] == host["name"] and item["why"]]
    names = ", ".join(item["name"] for item in here)
    whys = "; ".join(dict.fromkeys(item["why"] for item in here))
    unkept = host["gives"]["memory_bytes"] and not host["gives"]["memory_enforced"]
    unkept = unkept and not host["ranks"]
    verdict: Verdict = "warn" if unkept or (not host["name"] and alone(status)) else "ok"
    return Finding(verdict, what, f"{text}{names}: {whys}")


def host_text(host: Mapping[str, Any]) -> str:
    """What a host gives, and who sees to it that no more is taken."""
    gives = host["gives"]
    cores = f"{gives['cores']} cores" if gives["cores"] != 1 else "1 core"
    text = f"gives {cores}{'' if host['ranks'] else ', no ranks'}"
    if gives["lacks"]:
        text += f", lacks files of {', '.join(gives['lacks'])}"
    if not gives["memory_bytes"]:
        return text
    keeper = "a control group" if gives["memory_enforced"] else "budgets alone"
    return f"{text}, {show_bytes(gives['memory_bytes'])} kept by {keeper}"


def _leading(status: Mapping[str, Any], host: Mapping[str, Any]) -> str:
    """Who leads in which term, and who could take over."""
    at = host["gives"]["leads_at"]
    if not at:
        return ""
    if host["name"]:
        return f", may take the lead over at {at}"
    told = f", leads at {at} in term {status['term']}"
    return f"{told}, and no other host stands by to take over" if alone(status) else told


def alone(status: Mapping[str, Any]) -> bool:
    """Whether a lead whose config names others has none that would take over."""
    may = [bool(item["gives"]["leads_at"]) for item in status["hosts"] if not item["lost"]]
    return may[:1] == [True] and not any(may[1:])


def _why_empty(status: Mapping[str, Any], host: Mapping[str, Any]) -> str:
    if not status["serving"]:
        return "the job waits for its ranks"
    movable = [item for item in status["processes"] if item["why"]]
    hosts = [item for item in status["hosts"] if not item["lost"]]
    if len(movable) < len(hosts):
        return f"{len(movable)} groups for {len(hosts)} hosts, raise runtime.processes.loaders"
    return "; ".join(dict.fromkeys(item["why"] for item in movable)) or "they cannot move"
