"""How a node is shown: processes with their memory, sources, ranks, who is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from overlord._src.checkup.hosts import decoding_text
from overlord.cli.terminal import add_rows, make_table, right, show_count, show_size

_MOST_SOURCES = 20
_MOST_RANKS = 32


def render(snapshot: dict[str, Any], directory: str = "") -> RenderableType:
    """The whole screen."""
    state = "serving" if snapshot["serving"] else "waiting for its ranks"
    head = Text.assemble(
        ("overlord ", "bold"),
        f"{snapshot['job']} · {snapshot['stream']} · {state} · attempt {snapshot['attempt']}",
    )
    return Panel(
        Group(*(item for part in node_parts(snapshot) for item in (part, Text()))),
        title=head,
        title_align="left",
        subtitle=directory or None,
        subtitle_align="left",
    )


def node_parts(snapshot: dict[str, Any]) -> list[RenderableType]:
    """The tables of a node, and who is waited for."""
    parts: list[RenderableType] = [process_table(snapshot["processes"])]
    if len(snapshot["hosts"]) > 1 or any(item["gives"]["leads_at"] for item in snapshot["hosts"]):
        parts.append(host_table(snapshot["hosts"]))
        parts += [Text(f"media of {decoding_text(choice)}") for choice in snapshot["decoding"]]
    if snapshot["sources"]:
        parts.append(source_table(snapshot["sources"], snapshot["slowest_source"]))
    if snapshot["ranks"]:
        parts.append(rank_table(snapshot["ranks"], snapshot["interval_s"], snapshot["gone"]))
    if snapshot["journal"]:
        parts.append(journal_text(snapshot))
    if snapshot["shadowed"] or snapshot["unprotected"]:
        parts.append(shadow_text(snapshot))
    return [*parts, waits_text(snapshot)]


def journal_text(snapshot: dict[str, Any]) -> Text:
    """Which planner plans, and how far the disk is behind it."""
    behind = snapshot["planner"]["journal"]["lag_records"]
    return Text(
        f"planner: term {snapshot['term']}, {behind} records not on disk yet, "
        f"journal in {snapshot['journal']}"
    )


def shadow_text(snapshot: dict[str, Any]) -> Text:
    """How many slots somebody would take over, and how often that happened."""
    shown = (
        f"shadows: of {snapshot['shadowed']} slots, {show_size(snapshot['shadow_bytes'])} held; "
        f"{snapshot['promotions']} promoted"
    )
    if not snapshot["unprotected"]:
        return Text(shown)
    return Text(f"{shown}; {snapshot['unprotected']} slots unprotected", style="yellow")


def process_table(processes: Sequence[dict[str, Any]]) -> Table:
    """Every process, with what it costs; the sum counts shared pages once (PSS)."""
    several = any(item["host"] for item in processes)
    table = make_table(
        "process",
        *(["host"] if several else []),
        *right("pid", "roles", "life", "restarts", "rss", "pss", "private", "shared"),
        spare=("shared", "life", "private", "roles"),
    )
    total = 0
    for item in processes:
        memory = item["memory"]
        total += memory["pss_bytes"] if memory else 0
        keys = ("rss_bytes", "pss_bytes", "private_bytes", "shared_bytes")
        table.add_row(
            Text(item["name"], style="" if item["connected"] else "red"),
            *([item["host"].removeprefix("joined-")] if several else []),
            "-" if item["host"] else str(item["pid"]),
            str(item["roles"]),
            str(item["generation"]),
            Text(str(item["restarts"]), style="yellow" if item["restarts"] else ""),
            *(show_size(memory[key]) if memory else "-" for key in keys),
        )
    table.add_row("all", *([""] if several else []), *[""] * 5, show_size(total), "", "")
    return table


def host_table(hosts: Sequence[dict[str, Any]]) -> Table:
    """Hosts that loaders may live on, and those that were lost."""
    in_turn = any(item["gives"]["leads_at"] for item in hosts)
    table = make_table(
        "host",
        "ranks",
        *right("cores", "memory"),
        "kept by",
        *right("groups"),
        *(["the lead"] if in_turn else []),
        spare=("kept by",),
    )
    for item in hosts:
        gives, name = item["gives"], item["name"].removeprefix("joined-") or "lead"
        if item["lost"]:
            table.add_row(Text(f"{name} (lost)", style="red"), *["-"] * (5 + in_turn))
            continue
        memory = gives["memory_bytes"]
        table.add_row(
            name,
            "yes" if item["ranks"] else "no",
            str(gives["cores"]),
            show_size(memory) if memory else "-",
            ("control group" if gives["memory_enforced"] else "budgets") if memory else "-",
            Text(str(item["groups"]), style="" if item["groups"] else "yellow"),
            *([leading_text(item)] if in_turn else []),
        )
    return table


def leading_text(host: dict[str, Any]) -> str:
    """Whether a host leads, or may."""
    at = host["gives"]["leads_at"]
    if not at:
        return "-"
    return f"takes over at {at}" if host["name"] else f"leads at {at}"


def loaders_text(source: dict[str, Any]) -> str:
    """How many slots read it, and of how many, where others wait for the mixture to need them."""
    reading, slots = source["reading"], source["loaders"]
    return str(slots) if reading == slots else f"{reading} of {slots}"


def source_table(sources: Sequence[dict[str, Any]], slowest: str | None) -> Table:
    """Sources, those that work most first."""
    table = make_table(
        "source",
        *right("loaders", "queue", "in work", "rows", "rows/s", "read", "bytes/s", "busy"),
        "most time in",
        *right("bad rows"),
        spare=("in work", "queue", "loaders", "read", "rows", "bytes/s"),
    )
    for item in sorted(sources, key=lambda row: -row["busy"])[:_MOST_SOURCES]:
        is_slowest = item["source"] == slowest and len(sources) > 1
        table.add_row(
            Text(item["source"] + (" (slowest)" if is_slowest else "")),
            loaders_text(item),
            str(item["queue"]),
            str(item["in_work"]),
            show_count(item["rows"]),
            show_count(float(item["rows_per_s"])),
            show_size(item["read_bytes"]),
            show_size(item["bytes_per_s"]),
            f"{item['busy']:.0%}",
            f"{item['stage']} {item['stage_share']:.0%}" if item.get("stage") else "-",
            Text(str(item["bad_rows"]), style="yellow" if item["bad_rows"] else ""),
        )
    if len(sources) > _MOST_SOURCES:
        table.add_row(f"and {len(sources) - _MOST_SOURCES} more")
    return table


def rank_table(ranks: Sequence[dict[str, Any]], interval: float, gone: Sequence[int]) -> Table:
    """Ranks, those that wait most first where there are many."""
    most = max(item["steps_consumed"] for item in ranks)
    rows: list[tuple[Any, ...]] = []
    shown = sorted(ranks, key=lambda row: -row["interval_wait_s"])[:_MOST_RANKS]
    for item in sorted(shown, key=lambda row: int(row["rank"])):
        share = item["interval_wait_s"] / interval if interval else 0.0
        rows.append(
            (
                f"{item['rank']}{' (gone)' if item['rank'] in gone else ''}",
                item["steps_consumed"],
                most - item["steps_consumed"],
                item["queue"],
                f"{item['wait_per_step_s'] * 1000:.1f} ms",
                Text(f"{share:.1%}", style="yellow" if share > 0.02 else ""),
                f"{item['wait_s']:.1f} s",
            )
        )
    if len(ranks) > _MOST_RANKS:
        rows.append((f"and {len(ranks) - _MOST_RANKS} more", "", "", "", "", "", ""))
    table = make_table(
        "rank",
        *right("steps", "behind", "queue", "wait per step", "of the time", "waited in all"),
        spare=("queue", "waited in all"),
    )
    return add_rows(table, rows)


def waits_text(snapshot: dict[str, Any]) -> Text:
    """Who is waited for."""
    if not snapshot["waits"]:
        return Text("nobody is waited for", style="green")
    return Text("waits: " + "; ".join(snapshot["waits"]), style="bold yellow")
