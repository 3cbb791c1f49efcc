"""The live view of a run: speed, mixture asked and served, fill, queues of the roles, memory."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from overlord._src.run.run_loop import RunLoop, delay_data, rss_bytes
from overlord.cli.terminal import (
    add_rows,
    bar,
    make_table,
    right,
    show_count,
    show_seconds,
    show_size,
)
from overlord.cli.top_view import node_parts

_REFRESH_SECONDS = 0.2
_NODE_SECONDS = 1.0
_LINE_SECONDS = 3.0
_MOST_SOURCES = 16
_WIDE = 110  # columns that hold all figures of the speed in one line


class Pace:
    """Steps and tokens per second over the last few seconds."""

    def __init__(self) -> None:
        self._marks = [(time.monotonic(), 0, 0)]

    def update(self, now: float, steps: int, tokens: int) -> tuple[float, float]:
        """Note where the run is; the speed lately."""
        self._marks.append((now, steps, tokens))
        while len(self._marks) > 2 and now - self._marks[0][0] > 5.0:
            self._marks.pop(0)
        first = self._marks[0]
        seconds = max(now - first[0], 1e-9)
        return (steps - first[1]) / seconds, (tokens - first[2]) / seconds


class RunView:
    """Shows a run while it goes: a live screen on a terminal, lines elsewhere."""

    def __init__(self, console: Console, loop: RunLoop, *, live: bool) -> None:
        self._console = console
        self._loop = loop
        self._pace = Pace()
        self._next = 0.0
        self._next_node = 0.0
        self._node: dict[str, Any] | None = None
        self._live = (
            Live(console=console, auto_refresh=False, transient=True)
            if live and console.is_terminal
            else None
        )

    def __enter__(self) -> RunView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self) -> None:
        """Show where the run is, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_REFRESH_SECONDS if self._live is not None else _LINE_SECONDS)
        steps_per_s, tokens_per_s = self._pace.update(now, self._loop.steps, self._loop.tokens)
        if self._live is not None:
            self._live.update(self.render(steps_per_s, tokens_per_s), refresh=True)
        elif self._loop.steps:
            self._console.print(self.line(steps_per_s, tokens_per_s))

    def eta(self, steps_per_s: float) -> str:
        """Time left, where the run has an end."""
        if self._loop.steps_wanted is None or steps_per_s <= 0:
            return "-"
        return show_seconds((self._loop.steps_wanted - self._loop.steps) / steps_per_s)

    def line(self, steps_per_s: float, tokens_per_s: float) -> str:
        """One line for a log."""
        wanted = self._loop.steps_wanted
        return (
            f"step {self._loop.steps}{f'/{wanted}' if wanted else ''}  {steps_per_s:.1f} steps/s  "
            f"{show_count(tokens_per_s)} tokens/s  fill {self._loop.fill:.4f}  "
            f"memory {show_size(rss_bytes())}  left {self.eta(steps_per_s)}"
        )

    def render(self, steps_per_s: float, tokens_per_s: float) -> RenderableType:
        """The whole screen."""
        loop = self._loop
        status = loop.loaders.status()
        head = Text.assemble(
            ("overlord ", "bold"),
            f"{loop.job.config.job} · {loop.job.mesh.text()} · {loop.job.mesh.world_size} ranks",
        )
        parts: list[RenderableType] = [
            self._speed(steps_per_s, tokens_per_s),
            mixture_table(loop),
            role_table(loop, status),
            memory_line(status),
            *self._processes(),
        ]
        return Panel(
            Group(*(item for part in parts for item in (part, Text()))),
            title=head,
            title_align="left",
        )

    def _processes(self) -> list[RenderableType]:
        """Processes and ranks of a node, looked at once a second: memory is dear to ask for."""
        now = time.monotonic()
        if now >= self._next_node:
            self._next_node = now + _NODE_SECONDS
            self._node = self._loop.node()
        if self._node is None:
            return []
        return node_parts(self._node)

    def _speed(self, steps_per_s: float, tokens_per_s: float) -> RenderableType:
        loop = self._loop
        wanted = loop.steps_wanted
        share = loop.steps / wanted if wanted else 0.0
        place = Text.assemble(
            (bar(share, 24), "green"), f" step {loop.steps}" + (f" of {wanted}" if wanted else "")
        )
        figures = (
            Text(f"{steps_per_s:.1f} steps/s"),
            Text(f"{show_count(tokens_per_s)} tokens/s"),
            Text(f"fill {loop.fill:.4f}"),
            Text(f"left {self.eta(steps_per_s)}"),
        )
        grid = Table.grid(padding=(0, 3))
        if self._console.width >= _WIDE:
            grid.add_row(place, *figures)
            return grid
        grid.add_row(*figures)
        return Group(place, grid)


def mixture_table(loop: RunLoop) -> Table:
    """Asked and served share of every source, with bars."""
    mixture = loop.mixture()
    current = loop.asked_now()
    moving = loop.losses is not None
    table = make_table(
        "source",
        *right("asked now", "asked", "served"),
        "",
        *right("tokens", "off by"),
        *(right("loss") if moving else ()),
        *(("asked over the run",) if moving else ()),
        spare=("", "tokens", "asked over the run", "asked now"),
    )
    widest = max((item["served"] for item in mixture.values()), default=1.0) or 1.0
    shown = sorted(mixture.items(), key=lambda item: -item[1]["asked"])
    for name, item in shown[:_MOST_SOURCES]:
        off = item["served"] - item["asked"]
        style = "green" if abs(off) < 0.01 else "yellow"
        table.add_row(
            name,
            f"{current[name]:.2%}",
            f"{item['asked']:.2%}",
            f"{item['served']:.2%}",
            Text(bar(item["served"] / widest, 24), style="cyan"),
            show_count(int(item["tokens"])),
            Text(f"{off:+.2%}", style=style),
            *((_loss(loop, name), course(loop, name)) if moving else ()),
        )
    if len(shown) > _MOST_SOURCES:
        table.add_row(f"and {len(shown) - _MOST_SOURCES} more")
    return table


def _loss(loop: RunLoop, name: str) -> str:
    return f"{loop.mean_losses[name]:.3f}" if name in loop.mean_losses else "-"


def course(loop: RunLoop, name: str, width: int = 24) -> Text:
    """How a source's share moved since the start: a line of bars, the newest last."""
    points = [point["shares"][name] for point in loop.weights]
    if not points:
        return Text()
    picked = [points[index * len(points) // width] for index in range(width)]
    picked[-1] = points[-1]
    top = max(max(point["shares"].values()) for point in loop.weights) or 1.0
    shades = "▁▂▃▄▅▆▇█"
    return Text("".join(shades[min(7, int(value / top * 7.999))] for value in picked), "magenta")


def _milliseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:,.0f} ms"


def balance_text(planner: dict[str, Any]) -> str:
    """What the strategy gains by its own prediction; empty without a cost."""
    text, encoder = "", planner["encoder"]
    if encoder["predicted_ns"]:
        over = encoder["predicted_ns"] / max(1, encoder["bound_ns"]) - 1
        text = f"; encoder {over:.2%} over its bound"
    if not planner["predicted_ns"]:
        return text
    gain = planner["arrival_ns"] / planner["predicted_ns"]
    over = planner["fullest_ns"] / max(1, planner["bound_ns"]) - 1
    return f"; work predicted {gain:.2f}x as fast as dealt in turn, {over:.2%} over the bound{text}"


def delay_text(planner: dict[str, Any]) -> str:
    """How long documents waited to be placed; empty where none did."""
    delay = delay_data(planner)
    if not delay["max_steps"]:
        return ""
    return (
        f"; {delay['waited']:.1%} of segments waited, {delay['mean_steps']:.2f} steps on average, "
        f"{delay['max_steps']:.0f} at most"
    )


def role_table(loop: RunLoop, status: dict[str, Any]) -> Table:
    """What each role has waiting and has done."""
    planner, loaders = status["planner"], status["loaders"]
    constructors, clients = status["constructors"], status["clients"]
    ahead = planner["plans"] - loop.steps
    read = sum(item["read_bytes"] for item in loaders)
    documents = sum(item["documents"] for item in loaders)
    bad = sum(item["bad_rows"] for item in loaders)
    waited = max((item["wait_ns"] for item in clients), default=0)
    rows = [
        (
            "planner",
            1,
            f"{ahead} plans ahead",
            f"{planner['plans']} plans in {_milliseconds(planner['planning_ns'])}, "
            f"waited {planner['waits']} times{balance_text(planner)}{delay_text(planner)}",
        ),
        (
            "loaders",
            len(loaders),
            f"{sum(item['queue'] + item['in_work'] for item in loaders)} blocks",
            f"{show_size(read)} read, {show_count(documents)} documents, {bad} bad rows",
        ),
        (
            "constructors",
            len(constructors),
            f"{sum(item['steps_ready'] for item in constructors)} steps ready",
            f"{show_size(sum(item['bytes_assembled'] for item in constructors))} assembled in "
            f"{_milliseconds(sum(item['assemble_ns'] for item in constructors))}",
        ),
        (
            "clients",
            len(clients),
            f"{sum(item['queue'] for item in clients)} microbatches",
            f"slowest waited {_milliseconds(waited)}",
        ),
    ]
    return add_rows(make_table("role", *right("count"), "queue", "work so far"), rows)


def memory_line(status: dict[str, Any]) -> Text:
    """Memory of the process and of the engine's pools."""
    memory = status["memory"]
    return Text(
        f"memory {show_size(rss_bytes())} · payload {show_size(memory['payload_bytes'])} "
        f"of {show_size(memory['payload_limit_bytes'])} · pool "
        f"{show_size(memory['pool_held_bytes'])}, {show_size(memory['pool_idle_bytes'])} idle"
    )
