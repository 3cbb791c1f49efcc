"""Parts of pages that need nothing else: no script, no link, no font from outside."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from overlord._src.showing.histogram import Histogram, histogram_svg
from overlord._src.showing.pixels import Pixels
from overlord._src.showing.png import encode_png

# One colour per source, told apart on light and on dark paper.
COLOURS = (
    "#4c78c8",
    "#e08a2e",
    "#3f9e6e",
    "#c9504f",
    "#8a63c0",
    "#2aa3b3",
    "#c25b9b",
    "#9c7a3c",
    "#6f8f2f",
    "#7886a0",
    "#b0682e",
    "#4f8fd9",
)
STYLE = """
  :root { --ink: #1d2532; --quiet: #5c6880; --paper: #f4f5f8; --card: #ffffff; --rule: #d9dde5;
          --bar: #2c5fb3; --chip: #e4ebf8; }
  @media (prefers-color-scheme: dark) {
    :root { --ink: #e8edf4; --quiet: #a3aec2; --paper: #0d1117; --card: #161b22; --rule: #30363d;
            --bar: #6ea4f7; --chip: #1f2d47; }
  }
  body { margin: 0 auto; max-width: 1180px; padding: 1.5rem 1rem 4rem; line-height: 1.45;
         font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
         color: var(--ink); background: var(--paper); }
  h1 { font-size: 1.5rem; margin: 0.4rem 0; }
  h2 { font-size: 1.15rem; margin: 2.2rem 0 0.6rem; }
  p { margin: 0.4rem 0; max-width: 62rem; }
  .quiet { color: var(--quiet); font-size: 0.86rem; }
  table { border-collapse: collapse; font-size: 0.88rem; background: var(--card); }
  th, td { padding: 0.3rem 0.7rem; text-align: right; border-bottom: 1px solid var(--rule);
           vertical-align: top; }
  th:first-child, td:first-child, .left { text-align: left; }
  .scroll { overflow-x: auto; }
  .cards, .charts { display: grid; gap: 0.9rem;
                    grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); }
  .wide { grid-template-columns: repeat(auto-fill, minmax(30rem, 1fr)); }
  figure, .doc { margin: 0; padding: 0.7rem; background: var(--card); border: 1px solid var(--rule);
                 border-radius: 10px; }
  figure img { display: block; margin: 0 auto 0.6rem; max-width: 100%; border-radius: 4px; }
  figcaption { font-size: 0.92rem; }
  figcaption small, .doc small { display: block; color: var(--quiet); font-size: 0.78rem; }
  figure img.spectrum { width: 100%; height: 8rem; object-fit: fill; }
  audio { width: 100%; height: 2.2rem; margin: 0.3rem 0; }
  .doc { margin-bottom: 0.7rem; border-left: 5px solid var(--source, var(--rule)); }
  .doc p { overflow-wrap: anywhere; max-width: none; }
  .doc img { height: 92px; vertical-align: middle; border-radius: 4px; margin: 2px 4px; }
  .chip { background: var(--chip); border-radius: 5px; padding: 0.05rem 0.4rem; font-size: 0.84em;
          white-space: nowrap; }
  svg { width: 100%; height: auto; display: block; }
  .wave { margin-bottom: 0.5rem; }
  .chart { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
  .bar { fill: var(--bar); } .axis { stroke: var(--rule); stroke-width: 1; }
  .name { fill: var(--ink); font-size: 13px; font-weight: 600; }
  .note { fill: var(--quiet); font-size: 11px; }
  .key { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 3px;
         margin: 0 0.35em 0 0.9em; }
  .sheet { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
           padding: 0.6rem; }
"""


def page(title: str, parts: Sequence[str], style: str = STYLE) -> str:
    """A whole page."""
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


def data_uri(kind: str, data: bytes) -> str:
    """Bytes as an address that holds them."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def picture(pixels: Pixels, name: str, look: str = "") -> str:
    """A picture inside the page."""
    looks = f' class="{look}"' if look else ""
    high, wide = pixels.shape[:2]
    source = data_uri("image/png", encode_png(pixels))
    return f'<img{looks} src="{source}" width="{wide}" height="{high}" alt="{escape(name)}">'


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int] = (0,)
) -> str:
    """A table; the columns of `words` begin at the left, numbers end at the right."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=left' if at in words else ''}>{escape(cell)}</{tag}>"
            for at, cell in enumerate(cells)
        )

    body = "\n".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table>\n<thead><tr>{line(headings, "th")}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def charts(histograms: Sequence[Histogram]) -> str:
    """Histograms side by side."""
    drawn = "\n".join(histogram_svg(one) for one in histograms)
    return f'<div class="charts">\n{drawn}\n</div>'


def source_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each source, by its place."""
    return {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
