"""Contact sheets: many small pictures on one, each with a few lines of text below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlord._src.showing import bitmap_font as font
from overlord._src.showing.pixels import Pixels, shrink

SIDE = 256  # most that a picture takes each way
_PAPER, _CARD, _INK, _QUIET, _RULE = (
    (238, 240, 244),
    (255, 255, 255),
    (29, 37, 50),
    (92, 104, 128),
    (213, 217, 224),
)
_GAP, _PAD = 14, 10
_BIG = 2  # dots of a caption's letters are so many pixels wide
_LINE, _BIG_LINE = font.HEIGHT + 4, _BIG * font.HEIGHT + 4
_CAPTION_LINES = 3
_REST = 6  # between caption and facts


@dataclass(frozen=True)
class Tile:
    """One picture of a sheet."""

    pixels: Pixels
    caption: str
    facts: Sequence[str] = ()  # one short line each, below the caption


def contact_sheet(title: str, tiles: Sequence[Tile], columns: int | None = None) -> Pixels:
    """All tiles on one sheet, rows of them from left to right."""
    across = columns or max(1, min(6, round(len(tiles) ** 0.5 * 1.2)))
    facts = max((len(tile.facts) for tile in tiles), default=0)
    wide = SIDE + 2 * _PAD
    small = [_sized(tile.pixels) for tile in tiles]
    rows = [range(at, min(at + across, len(tiles))) for at in range(0, len(tiles), across)]
    below = 2 * _PAD + _CAPTION_LINES * _BIG_LINE + _REST + facts * _LINE
    highs = [max(small[at].shape[0] for at in row) + _PAD + below for row in rows]
    head = 2 * font.HEIGHT + 2 * _GAP
    height = head + sum(high + _GAP for high in highs)
    title_wide = font.text_width(title, 2) + 2 * _GAP
    sheet = np.full((height, max(_GAP + across * (wide + _GAP), title_wide), 3), _PAPER, np.uint8)
    font.write(sheet, _GAP, _GAP, title, _INK, 2)
    y = head
    for row, high in zip(rows, highs, strict=True):
        for place, at in enumerate(row):
            x = _GAP + place * (wide + _GAP)
            _card(sheet[y : y + high, x : x + wide], small[at], tiles[at], high - below - _PAD)
        y += high + _GAP
    return sheet


def _card(card: Pixels, pixels: Pixels, tile: Tile, room: int) -> None:
    """One tile on its card: the picture in the middle of its room, text below."""
    card[:] = _RULE
    card[1:-1, 1:-1] = _CARD
    high, wide = pixels.shape[:2]
    top = _PAD + (room - high) // 2
    left = (card.shape[1] - wide) // 2
    card[top : top + high, left : left + wide] = pixels
    y = 2 * _PAD + room
    inside = card.shape[1] - 2 * _PAD
    for line in font.wrap(tile.caption, inside, _CAPTION_LINES, _BIG):
        font.write(card, _PAD, y, line, _INK, _BIG)
        y += _BIG_LINE
    y = 2 * _PAD + room + _CAPTION_LINES * _BIG_LINE + _REST
    for fact in tile.facts:
        font.write(card, _PAD, y, font.fit(fact, inside), _QUIET)
        y += _LINE


def _sized(pixels: Pixels) -> Pixels:
    """Large ones shrunk; of small ones every pixel becomes a square of several."""
    factor = SIDE // max(pixels.shape[:2])
    if factor >= 2:
        return pixels.repeat(min(factor, 8), axis=0).repeat(min(factor, 8), axis=1)
    return shrink(pixels, SIDE)
