"""Charts as SVG text, written by hand: no plotting package, readable alone, light and dark.

Every chart has a title, a line that says what it shows, units, and labels at the data itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import floor, log10

WIDTH = 860
_MARGIN = 24
_STYLE = """
    .card { fill: #fbfbf9; stroke: #d5d9e0; }
    .title { fill: #1d2532; font-size: 17px; font-weight: 600; }
    .text { fill: #1d2532; }
    .small { fill: #55617a; font-size: 12px; }
    .strong { fill: #1d2532; font-weight: 600; }
    .grid { stroke: #dfe3ea; stroke-width: 1; }
    .first { fill: #b07a14; } .first-line { stroke: #b07a14; stroke-width: 2; fill: none; }
    .best { fill: #2c5fb3; } .best-line { stroke: #2c5fb3; stroke-width: 2.6; fill: none; }
    .other { fill: #9aa4b5; } .other-line { stroke: #9aa4b5; stroke-width: 1.4; fill: none; }
    .extra { fill: #7ea3dd; }
    @media (prefers-color-scheme: dark) {
      .card { fill: #161b22; stroke: #30363d; }
      .title, .text, .strong { fill: #e8edf4; }
      .small { fill: #a9b4c6; }
      .grid { stroke: #30363d; }
      .first { fill: #e0ab45; } .first-line { stroke: #e0ab45; }
      .best { fill: #6ea4f7; } .best-line { stroke: #6ea4f7; }
      .other { fill: #76839a; } .other-line { stroke: #76839a; }
      .extra { fill: #41618f; }
    }
"""
_RAMP = ((238, 241, 246), (126, 163, 221), (44, 95, 179), (22, 40, 84))  # light to dark


@dataclass(frozen=True)
class Bar:
    """One bar: a value, perhaps with its last part apart, and a note behind it."""

    label: str
    value: float
    note: str
    look: str = "other"  # first, best or other
    part: float = 0.0  # of the value; drawn lighter at the end


@dataclass(frozen=True)
class Line:
    """One line of values, one per step."""

    label: str
    values: Sequence[float]
    look: str = "other"


@dataclass
class _Canvas:
    title: str
    subtitle: str
    height: int = 0
    parts: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, text: str, look: str = "text", anchor: str = "start"
    ) -> None:
        where = f'x="{x:.1f}" y="{y:.1f}"'
        self.parts.append(
            f'<text class="{look}" {where} text-anchor="{anchor}">{escape(text)}</text>'
        )

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        look: str = "",
        fill: str = "",
        told: str = "",  # to who points at it
    ) -> None:
        paint = f'fill="{fill}"' if fill else f'class="{look}"'
        end = f"><title>{escape(told)}</title></rect>" if told else "/>"
        self.parts.append(
            f'<rect {paint} x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
            f'height="{height:.1f}"{end}'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(
            f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
        )

    def svg(self) -> str:
        """The whole picture."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'role="img" aria-label="{escape(self.title + ": " + self.subtitle)}" '
            'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" '
            'font-size="13">'
        )
        card = (
            f'<rect class="card" x="1" y="1" width="{WIDTH - 2}" height="{self.height - 2}" '
            'rx="12"/>'
        )
        names = [
            f'<text class="title" x="{_MARGIN}" y="34">{escape(self.title)}</text>',
            f'<text class="small" x="{_MARGIN}" y="54">{escape(self.subtitle)}</text>',
        ]
        body = "\n".join([card, *names, *self.parts])
        return f"{head}\n<style>{_STYLE}</style>\n{body}\n</svg>\n"


def nice_ticks(top: float, count: int = 5) -> list[float]:
    """Round values from 0 to at least `top`."""
    if top <= 0:
        return [0.0, 1.0]
    raw = top / count
    size = 10.0 ** floor(log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    ticks = [0.0]
    while ticks[-1] < top * (1 - 1e-9):
        ticks.append(ticks[-1] + step)
    return ticks


def show_tick(value: float) -> str:
    """A tick's value, short."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def show_rounded(value: float) -> str:
    """Three digits that count, and never an exponent: 25,800."""
    return show_tick(float(f"{value:.3g}"))


def bar_chart(
    title: str, subtitle: str, axis: str, bars: Sequence[Bar], part_name: str = ""
) -> str:
    """Horizontal bars, each with its name before it and its note behind it."""
    canvas = _Canvas(title, subtitle)
    left, right, top, row = 150, WIDTH - 230, 78, 30
    ticks = nice_ticks(max(bar.value for bar in bars))
    scale = (right - left) / ticks[-1]
    bottom = top + row * len(bars)
    for tick in ticks:
        canvas.line(left + tick * scale, top - 4, left + tick * scale, bottom)
        canvas.text(left + tick * scale, bottom + 18, show_tick(tick), "small", "middle")
    for number, bar in enumerate(bars):
        y = top + row * number
        whole = bar.value * scale
        canvas.rect(left, y + 4, whole, row - 9, bar.look)
        if bar.part:
            canvas.rect(left + whole - bar.part * scale, y + 4, bar.part * scale, row - 9, "extra")
        name = "strong" if bar.look == "best" else "text"
        canvas.text(left - 10, y + 20, bar.label, name, "end")
        canvas.text(left + whole + 8, y + 20, bar.note, name)
    canvas.text((left + right) / 2, bottom + 38, axis, "small", "middle")
    if part_name:
        canvas.rect(right + 20, bottom + 29, 12, 10, "extra")
        canvas.text(right + 38, bottom + 38, part_name, "small")
    canvas.height = bottom + 54
    return canvas.svg()


def line_chart(title: str, subtitle: str, x_axis: str, y_axis: str, lines: Sequence[Line]) -> str:
    """Lines over steps, each named at its right end."""
    canvas = _Canvas(title, subtitle, height=400)
    left, right, top, bottom = 76, WIDTH - 150, 84, 344
    count = max(len(line.values) for line in lines)
    ticks = nice_ticks(max(max(line.values) for line in lines))

    def place(step: int, value: float) -> tuple[float, float]:
        x = left + (right - left) * (step / (count - 1) if count > 1 else 0.5)
        return x, bottom - (bottom - top) * value / ticks[-1]

    for tick in ticks:
        _, y = place(0, tick)
        canvas.line(left, y, right, y)
        canvas.text(left - 8, y + 4, show_tick(tick), "small", "end")
    for step in range(0, count, -(-count // 8)):
        canvas.text(place(step, 0)[0], bottom + 18, str(step), "small", "middle")
    ends = []
    for line in sorted(lines, key=lambda item: item.look != "other"):  # the loud ones on top
        points = [place(step, value) for step, value in enumerate(line.values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        canvas.parts.append(f'<polyline class="{line.look}-line" points="{path}"/>')
        if count == 1:
            x, y = points[0]
            canvas.parts.append(f'<circle class="{line.look}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        ends.append((points[-1][1], line))
    previous = top - 16.0
    for y, line in sorted(ends, key=lambda item: item[0]):
        previous = max(y + 4, previous + 15)
        canvas.text(right + 10, previous, line.label, "strong" if line.look == "best" else "text")
    canvas.text((left + right) / 2, bottom + 40, x_axis, "small", "middle")
    canvas.text(left - 8, top - 10, y_axis, "small", "start")
    return canvas.svg()


def ramp_color(share: float) -> str:
    """A colour between light and dark for a share of the largest value."""
    place = max(0.0, min(share, 1.0)) * (len(_RAMP) - 1)
    index = min(int(place), len(_RAMP) - 2)
    mixed = [
        round(low + (high - low) * (place - index))
        for low, high in zip(_RAMP[index], _RAMP[index + 1], strict=True)
    ]
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def heat_maps(
    title: str,
    subtitle: str,
    row_axis: str,
    column_axis: str,
    unit: str,
    panels: Sequence[tuple[str, Sequence[Sequence[float]]]],
    told: Callable[[int, int, float], str] | None = None,
) -> str:
    """Panels of cells side by side, in one scale of colours.

    `told` says what a reader sees who points at a cell, from its row, column and value.
    """
    canvas = _Canvas(title, subtitle)
    largest = max((max(row) for _, rows in panels for row in rows), default=0.0) or 1.0
    rows = len(panels[0][1])
    gap, left, top = 28, 60, 98
    width = (WIDTH - left - _MARGIN - gap * (len(panels) - 1)) / len(panels)
    cell = max(4.0, min(18.0, 300 / rows))
    for number, (name, values) in enumerate(panels):
        x = left + number * (width + gap)
        canvas.text(x, top - 10, name, "strong")
        step = width / len(values[0])
        for index, row in enumerate(values):
            for column, value in enumerate(row):
                canvas.rect(
                    x + column * step,
                    top + index * cell,
                    step - (0.8 if step > 4 else 0),
                    cell - (0.8 if cell > 5 else 0),
                    fill=ramp_color(value / largest),
                    told=told(index, column, value) if told else "",
                )
        canvas.text(x + width / 2, top + rows * cell + 18, column_axis, "small", "middle")
    middle = top + rows * cell / 2
    canvas.parts.append(
        f'<text class="small" text-anchor="middle" transform="translate(38 {middle:.1f}) '
        f'rotate(-90)">{escape(row_axis)}</text>'
    )
    _legend(canvas, left, top + rows * cell + 34, largest, unit)
    canvas.height = round(top + rows * cell + 72)
    return canvas.svg()


def _legend(canvas: _Canvas, left: float, y: float, largest: float, unit: str) -> None:
    steps, wide = 24, 10
    for number in range(steps):
        canvas.rect(left + number * wide, y, wide, 12, fill=ramp_color(number / (steps - 1)))
    canvas.text(left, y + 26, "0", "small", "middle")
    end = left + steps * wide
    canvas.text(end, y + 26, show_rounded(largest), "small", "middle")
    canvas.text(end + 14, y + 11, unit, "small")


def number_grid(
    title: str,
    subtitle: str,
    row_names: Sequence[str],
    column_names: Sequence[str],
    panels: Sequence[tuple[str, Sequence[Sequence[float]]]],
) -> str:
    """Small tables of factors; the darker a cell, the larger its factor."""
    canvas = _Canvas(title, subtitle)
    columns = 3
    cell_wide, cell_high, left, top = 54, 26, 60, 84
    wide, high = 275, cell_high * (len(row_names) + 1) + 52
    largest = max(value for _, rows in panels for row in rows for value in row)
    for number, (name, values) in enumerate(panels):
        x, y = left + number % columns * wide, top + number // columns * high
        canvas.text(x - 36, y + 10, name, "strong")
        for column, heading in enumerate(column_names):
            canvas.text(x + (column + 0.5) * cell_wide, y + 32, heading, "small", "middle")
        for row, heading in enumerate(row_names):
            base = y + 40 + row * cell_high
            canvas.text(x - 6, base + 17, heading, "small", "end")
            for column, value in enumerate(values[row]):
                share = log10(max(value, 1.0)) / log10(max(largest, 1.1))
                color = ramp_color(share)
                canvas.rect(x + column * cell_wide, base, cell_wide - 1, cell_high - 1, fill=color)
                ink = "#ffffff" if share > 0.45 else "#1d2532"
                canvas.parts.append(
                    f'<text fill="{ink}" x="{x + (column + 0.5) * cell_wide:.1f}" '
                    f'y="{base + 17:.1f}" text-anchor="middle">{value:.3g}</text>'
                )
    canvas.height = top + -(-len(panels) // columns) * high
    return canvas.svg()
