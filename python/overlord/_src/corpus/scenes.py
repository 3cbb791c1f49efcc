"""Scenes of coloured shapes, and captions that say exactly what is in them.

A scene is one or two groups of equal shapes: "three red circles above a blue square on cream".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from overlord._src.corpus.chance import Chance

Relation = Literal["above", "below", "left of", "right of"]
COUNTS = ("one", "two", "three", "four", "five", "six")
SHAPES = ("circle", "square", "triangle", "diamond", "star", "ring", "cross", "heart")
COLOURS = {
    "red": (214, 45, 50),
    "orange": (240, 130, 30),
    "yellow": (245, 200, 40),
    "green": (45, 150, 75),
    "teal": (20, 150, 160),
    "blue": (40, 95, 200),
    "purple": (125, 70, 175),
    "pink": (232, 105, 160),
    "brown": (130, 85, 55),
    "black": (40, 42, 48),
}
GROUNDS = {
    "white": (252, 252, 252),
    "cream": (250, 240, 214),
    "mint": (214, 240, 226),
    "sky": (208, 228, 247),
    "grey": (216, 219, 224),
    "slate": (66, 76, 94),
}
_DARK = ("blue", "purple", "brown", "black", "green", "teal")  # not to be seen on slate
_RELATIONS: tuple[Relation, ...] = ("above", "below", "left of", "right of")
# Sides that patches of 14 merged by 2 divide, and some that they do not.
_SIDES = (112, 126, 140, 168, 180, 196, 210, 224, 252)


@dataclass(frozen=True)
class Group:
    """So many equal shapes."""

    count: int
    colour: str
    shape: str

    def words(self) -> str:
        """As a caption names them."""
        many = "" if self.count == 1 else "es" if self.shape == "cross" else "s"
        return f"{COUNTS[self.count - 1]} {self.colour} {self.shape}{many}"


@dataclass(frozen=True)
class Scene:
    """What a picture shows."""

    width: int
    height: int
    ground: str
    groups: tuple[Group, ...]
    relation: Relation | None = None  # of the first group to the second

    def caption(self) -> str:
        """One sentence that says it all."""
        what = self.groups[0].words()
        if self.relation is not None:
            what += f" {self.relation} {self.groups[1].words()}"
        return f"{what} on {self.ground}"


def make_scene(chance: Chance) -> Scene:
    """Some scene."""
    width, height = chance.one_of(_SIDES), chance.one_of(_SIDES)
    ground = chance.one_of(tuple(GROUNDS))
    colours = [name for name in COLOURS if ground != "slate" or name not in _DARK]
    if ground in ("white", "cream"):
        colours.remove("yellow")
    first, second = chance.two_of(colours)
    shape, other = chance.two_of(SHAPES)
    group = Group(chance.between(1, 6), first, shape)
    if chance.below(4) == 0:
        return Scene(width, height, ground, (group,))
    pair = (group, Group(chance.between(1, 4), second, other))
    return Scene(width, height, ground, pair, chance.one_of(_RELATIONS))


def scene_words() -> list[str]:
    """Every word that a caption can have."""
    plural = [shape + ("es" if shape == "cross" else "s") for shape in SHAPES]
    relations = [word for relation in _RELATIONS for word in relation.split()]
    return list(dict.fromkeys([*COUNTS, *COLOURS, *SHAPES, *plural, *relations, "on", *GROUNDS]))
