"""Draws scenes: whole numbers only, so that pixels are the same on every machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.corpus.chance import Chance
from overlord._src.corpus.scenes import COLOURS, GROUNDS, Group, Scene

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Grid = npt.NDArray[np.int64]
Cover = npt.NDArray[np.int32]
Box = tuple[int, int, int, int]  # left, top, width, height
_FINE = 4  # samples of a pixel along each side: edges are smooth
_SOLID = 256  # strength of what hides everything below it
_UNIT = 1000  # radius of a shape in its own coordinates; y grows upwards
# Points of a star: five outer ones on the circle, five inner ones at two fifths of it.
_STAR = (
    (0, 1000),
    (-235, 324),
    (-951, 309),
    (-380, -124),
    (-588, -809),
    (0, -400),
    (588, -809),
    (380, -124),
    (951, 309),
    (235, 324),
)


def draw(scene: Scene, chance: Chance) -> Pixels:
    """The picture of a scene, height x width x 3; `chance` moves things a little."""
    ground = np.array(GROUNDS[scene.ground], np.int32)
    # From the ground's colour to one a tenth darker.
    fade = np.arange(scene.height, dtype=np.int32)[:, None, None] * 100 // max(scene.height, 1)
    image = np.broadcast_to(ground * (1000 - fade) // 1000, (scene.height, scene.width, 3)).astype(
        np.int32
    )
    for group, box in zip(scene.groups, _boxes(scene), strict=True):
        _draw_group(image, group, box, chance)
    return image.astype(np.uint8)


def _boxes(scene: Scene) -> list[Box]:
    """Where each group goes."""
    width, height = scene.width, scene.height
    if scene.relation is None:
        return [(0, 0, width, height)]
    if scene.relation in ("above", "below"):
        halves = [(0, 0, width, height // 2), (0, height - height // 2, width, height // 2)]
    else:
        halves = [(0, 0, width // 2, height), (width - width // 2, 0, width // 2, height)]
    return halves if scene.relation in ("above", "left of") else halves[::-1]


def _draw_group(image: Any, group: Group, box: Box, chance: Chance) -> None:
    """Shapes on a grid inside the box, as large as it lets them be."""
    left, top, width, height = box
    across = max(range(1, group.count + 1), key=lambda n: _cell(group.count, n, width, height))
    down = -(-group.count // across)
    side = _cell(group.count, across, width, height)
    radius = max(4, side * chance.between(34, 42) // 100)
    play = max(0, side // 2 - radius - 2)
    cover = _coverage(group.shape, radius)
    drop = max(1, radius // 8)
    for number in range(group.count):
        row, column = divmod(number, across)
        in_row = min(across, group.count - row * across)  # a short last row stands in the middle
        x = left + width * (2 * column + 1) // (2 * in_row) + chance.between(-play, play) // 2
        y = top + height * (2 * row + 1) // (2 * down) + chance.between(-play, play) // 2
        _stamp(image, cover, (x + drop, y + drop), (0, 0, 0), _SOLID * 18 // 100)
        _stamp(image, cover, (x, y), COLOURS[group.colour], _SOLID)


def _cell(count: int, across: int, width: int, height: int) -> int:
    """Side of a square cell where so many stand in a row."""
    return min(width // across, height // -(-count // across))


def _coverage(shape: str, radius: int) -> Cover:
    """How many samples of every pixel around the centre are inside."""
    samples = np.arange(-(radius + 1) * _FINE, (radius + 2) * _FINE, dtype=np.int64) * 2 + 1
    own = (samples - _FINE) * _UNIT // (2 * _FINE * radius)  # a pixel's middle is the centre
    inside = _SHAPES[shape](own[None, :], -own[:, None])
    side = 2 * radius + 3
    fine = inside.reshape(side, _FINE, side, _FINE)
    cover: Cover = fine.sum(axis=(1, 3), dtype=np.int32)
    return cover


def _stamp(
    image: Any,
    cover: Cover,
    centre: tuple[int, int],
    colour: tuple[int, int, int],
    strength: int,
) -> None:
    """Lay one shape over the picture; what is outside is cut."""
    high, wide = image.shape[:2]
    side = len(cover)
    left, top = centre[0] - side // 2, centre[1] - side // 2
    rows = slice(max(0, -top), min(side, high - top))
    columns = slice(max(0, -left), min(side, wide - left))
    shown = cover[rows, columns][:, :, None] * strength
    part = image[top + rows.start : top + rows.stop, left + columns.start : left + columns.stop]
    full = _SOLID * _FINE * _FINE  # a power of two: shifting is much faster than dividing
    part += ((np.array(colour, np.int32) - part) * shown + full // 2) >> (full.bit_length() - 1)


def _polygon(points: tuple[tuple[int, int], ...], x: Grid, y: Grid) -> Mask:
    """Inside by the number of edges to the right."""
    inside = np.zeros(np.broadcast_shapes(x.shape, y.shape), bool)
    for (ax, ay), (bx, by) in zip(points, (*points[1:], points[0]), strict=True):
        if ay == by:
            continue
        if ay > by:
            ax, ay, bx, by = bx, by, ax, ay
        crosses = (y >= ay) & (y < by)
        inside ^= crosses & ((x - ax) * (by - ay) < (bx - ax) * (y - ay))
    return inside


def _heart(x: Grid, y: Grid) -> Mask:
    """(x^2 + y^2 - 1)^3 <= x^2 y^3, in units small enough for 64 bits."""
    across, up = x * 115 // 1000, y * 115 // 1000 + 10
    rest = across * across + up * up - 100 * 100
    inside: Mask = rest * rest * rest <= 100 * across * across * up * up * up
    return inside


def _cross(x: Grid, y: Grid) -> Mask:
    wide, thin = 900, 300
    bar = (np.abs(x) <= wide) & (np.abs(y) <= thin)
    both: Mask = bar | ((np.abs(x) <= thin) & (np.abs(y) <= wide))
    return both


_SHAPES: dict[str, Callable[[Grid, Grid], Mask]] = {
    "circle": lambda x, y: x * x + y * y <= _UNIT * _UNIT,
    "ring": lambda x, y: (x * x + y * y <= _UNIT * _UNIT) & (x * x + y * y >= 560 * 560),
    "square": lambda x, y: (np.abs(x) <= 860) & (np.abs(y) <= 860),
    "diamond": lambda x, y: np.abs(x) * 5 // 4 + np.abs(y) <= _UNIT,
    "triangle": lambda x, y: (y >= -760) & (np.abs(x) * 1720 <= (960 - y) * 980),
    "star": lambda x, y: _polygon(_STAR, x, y),
    "heart": _heart,
    "cross": _cross,
}
