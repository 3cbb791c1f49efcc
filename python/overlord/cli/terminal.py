"""How commands write: tables and numbers for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 160  # columns of tables that no terminal limits
BLOCKS = " ▏▎▍▌▋▊▉█"


def make_console() -> Console:
    """The console of stdout; plain text when that is no terminal."""
    is_terminal = sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=True, width=None if is_terminal else _PIPE_WIDTH)


def show_count(value: float) -> str:
    """A number with a unit of thousands: 1234567 is 1.23 M."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def show_size(value: float) -> str:
    """Bytes with a decimal unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def show_seconds(value: float) -> str:
    """A duration: 83 is 1:23."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def bar(share: float, width: int = 20) -> str:
    """A bar of eighths of blocks."""
    filled = max(0, min(round(share * width * 8), width * 8))
    full, rest = divmod(filled, 8)
    return ("█" * full + (BLOCKS[rest] if rest else "")).ljust(width)


def make_table(*columns: str | tuple[str, str], title: str = "") -> Table:
    """A light table; a column is its heading, or (heading, alignment)."""
    table = Table(
        title=title or None,
        box=None,
        pad_edge=False,
        header_style="bold",
        title_justify="left",
        title_style="bold",
    )
    for column in columns:
        heading, justify = (column, "left") if isinstance(column, str) else column
        table.add_column(Text(heading), justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def add_rows(table: Table, rows: Sequence[Sequence[Any]]) -> Table:
    """The table with rows of plain values."""
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return table
