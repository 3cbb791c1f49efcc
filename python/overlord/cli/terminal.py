"""How commands write: tables and numbers for people."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 160  # columns of tables that no terminal limits
_ANY_WIDTH = 10_000
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


class FittingTable(Table):
    """A table that leaves out columns where all of them would not fit, rather than wrap numbers."""

    spare: Sequence[str] = ()  # headings of what may go, first to go first

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table with as many columns as fit."""
        yield from Table.__rich_console__(self._fitted(console, options), console, options)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """The width of what would be shown."""
        return Table.__rich_measure__(self._fitted(console, options), console, options)

    def _fitted(self, console: Console, options: ConsoleOptions) -> Table:
        # Asked without a limit, as a table that is too wide says that it would shrink.
        free = options.update(max_width=_ANY_WIDTH)
        for gone in range(len(self.spare) + 1):
            shown = self._without(self.spare[:gone])
            if Table.__rich_measure__(shown, console, free).maximum <= options.max_width:
                break
        return shown

    def _without(self, headings: Sequence[str]) -> Table:
        shown = copy.copy(self)
        kept = [column for column in self.columns if str(column.header) not in headings]
        shown.columns = [copy.copy(column) for column in kept]
        for index, column in enumerate(shown.columns):
            column._index = index
        return shown


def make_table(
    *columns: str | tuple[str, str], title: str = "", spare: Sequence[str] = ()
) -> FittingTable:
    """A light table; a column is its heading, or (heading, alignment).

    `spare`: headings of columns that a narrow terminal does without, first to go first.
    """
    table = FittingTable(
        title=title or None,
        box=None,
        pad_edge=False,
        header_style="bold",
        title_justify="left",
        title_style="bold",
    )
    table.spare = spare
    for column in columns:
        heading, justify = (column, "left") if isinstance(column, str) else column
        table.add_column(
            Text(heading),
            justify=justify,  # type: ignore[arg-type]
            overflow="ellipsis" if justify == "right" else "fold",
            no_wrap=justify == "right",  # a number in two lines is two numbers
        )
    return table


def right(*headings: str) -> list[tuple[str, str]]:
    """Columns of numbers, which end at the right."""
    return [(heading, "right") for heading in headings]


def add_rows(table: FittingTable, rows: Sequence[Sequence[Any]]) -> FittingTable:
    """The table with rows of plain values."""
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return table


def print_rows(
    console: Console,
    rows: Sequence[Sequence[Any]],
    *columns: str | tuple[str, str],
    title: str = "",
) -> None:
    """A table of rows of plain values; columns as `make_table` takes them."""
    console.print(add_rows(make_table(*columns, title=title), rows))
