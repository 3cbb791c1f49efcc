"""Letters of 5 x 8 dots for pictures that carry their own captions; no font file, no library."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

WIDTH, HEIGHT = 5, 8  # the last row is for letters that reach below the line
ADVANCE = WIDTH + 1
# Rows of a letter from the top, as hexadecimal numbers of 5 bits; the left dot is the highest bit.
_ROWS = """
! 04 04 04 04 04 00 04 00   " 0a 0a 0a 00 00 00 00 00   # 0a 0a 1f 0a 1f 0a 0a 00
$ 04 0f 14 0e 05 1e 04 00   % 18 19 02 04 08 13 03 00   & 0c 12 14 08 15 12 0d 00
' 04 04 08 00 00 00 00 00   ( 02 04 08 08 08 04 02 00   ) 08 04 02 02 02 04 08 00
* 00 04 15 0e 15 04 00 00   + 00 04 04 1f 04 04 00 00   , 00 00 00 00 00 0c 04 08
- 00 00 00 0e 00 00 00 00   . 00 00 00 00 00 0c 0c 00   / 01 01 02 04 08 10 10 00
0 0e 11 11 15 11 11 0e 00   1 04 0c 04 04 04 04 0e 00   2 0e 11 01 06 08 10 1f 00
3 1e 01 01 0e 01 01 1e 00   4 02 06 0a 12 1f 02 02 00   5 1f 10 1e 01 01 11 0e 00
6 06 08 10 1e 11 11 0e 00   7 1f 01 02 04 04 08 08 00   8 0e 11 11 0e 11 11 0e 00
9 0e 11 11 0f 01 02 0c 00   : 00 0c 0c 00 0c 0c 00 00   ; 00 0c 0c 00 0c 04 08 00
< 02 04 08 10 08 04 02 00   = 00 00 1f 00 1f 00 00 00   > 08 04 02 01 02 04 08 00
? 0e 11 01 06 04 00 04 00   @ 0e 11 17 15 17 10 0e 00   A 0e 11 11 1f 11 11 11 00
B 1e 11 11 1e 11 11 1e 00   C 0e 11 10 10 10 11 0e 00   D 1e 11 11 11 11 11 1e 00
E 1f 10 10 1e 10 10 1f 00   F 1f 10 10 1e 10 10 10 00   G 0e 11 10 17 11 11 0f 00
H 11 11 11 1f 11 11 11 00   I 0e 04 04 04 04 04 0e 00   J 07 02 02 02 02 12 0c 00
K 11 12 14 18 14 12 11 00   L 10 10 10 10 10 10 1f 00   M 11 1b 15 15 11 11 11 00
N 11 19 15 13 11 11 11 00   O 0e 11 11 11 11 11 0e 00   P 1e 11 11 1e 10 10 10 00
Q 0e 11 11 11 15 12 0d 00   R 1e 11 11 1e 14 12 11 00   S 0f 10 10 0e 01 01 1e 00
T 1f 04 04 04 04 04 04 00   U 11 11 11 11 11 11 0e 00   V 11 11 11 11 0a 0a 04 00
W 11 11 11 15 15 1b 11 00   X 11 11 0a 04 0a 11 11 00   Y 11 11 0a 04 04 04 04 00
Z 1f 01 02 04 08 10 1f 00   [ 0e 08 08 08 08 08 0e 00   \\ 10 10 08 04 02 01 01 00
] 0e 02 02 02 02 02 0e 00   ^ 04 0a 11 00 00 00 00 00   _ 00 00 00 00 00 00 1f 00
` 08 04 02 00 00 00 00 00   a 00 00 0e 01 0f 11 0f 00   b 10 10 1e 11 11 11 1e 00
c 00 00 0f 10 10 10 0f 00   d 01 01 0f 11 11 11 0f 00   e 00 00 0e 11 1f 10 0f 00
f 06 08 1e 08 08 08 08 00   g 00 00 0f 11 11 0f 01 0e   h 10 10 1e 11 11 11 11 00
i 04 00 0c 04 04 04 0e 00   j 02 00 06 02 02 02 12 0c   k 10 10 12 14 18 14 12 00
l 0c 04 04 04 04 04 0e 00   m 00 00 1a 15 15 15 15 00   n 00 00 1e 11 11 11 11 00
o 00 00 0e 11 11 11 0e 00   p 00 00 1e 11 11 1e 10 10   q 00 00 0f 11 11 0f 01 01
r 00 00 16 18 10 10 10 00   s 00 00 0f 10 0e 01 1e 00   t 08 08 1e 08 08 08 06 00
u 00 00 11 11 11 11 0f 00   v 00 00 11 11 11 0a 04 00   w 00 00 11 11 15 15 0a 00
x 00 00 11 0a 04 0a 11 00   y 00 00 11 11 11 0f 01 0e   z 00 00 1f 02 04 08 1f 00
{ 02 04 04 08 04 04 02 00   | 04 04 04 04 04 04 04 04   } 08 04 04 02 04 04 08 00
~ 00 00 08 15 02 00 00 00
"""


@cache
def _letters() -> dict[str, npt.NDArray[np.bool_]]:
    words = _ROWS.split()
    size = 1 + HEIGHT
    table = {" ": np.zeros((HEIGHT, WIDTH), bool)}
    for at in range(0, len(words), size):
        rows = [int(word, 16) for word in words[at + 1 : at + size]]
        table[words[at]] = np.array(
            [[bool(row >> (WIDTH - 1 - bit) & 1) for bit in range(WIDTH)] for row in rows]
        )
    return table


def known(letter: str) -> bool:
    """Whether there is a picture of this letter; others are written as `?`."""
    return letter in _letters()


def text_width(text: str, scale: int = 1) -> int:
    """Dots that a line takes."""
    return max(0, len(text) * ADVANCE - 1) * scale


def fit(text: str, width: int, scale: int = 1) -> str:
    """As much of a line as fits; cut ones end with two dots."""
    if text_width(text, scale) <= width:
        return text
    return text[: max(0, (width // scale + 1) // ADVANCE - 2)] + ".."


def wrap(text: str, width: int, lines: int, scale: int = 1) -> list[str]:
    """At most so many lines of words; the last one is cut where more would follow."""
    out: list[str] = []
    line = ""
    words = text.split()
    for number, word in enumerate(words):
        longer = f"{line} {word}" if line else word
        if not line or text_width(longer, scale) <= width:
            line = longer
            continue
        if len(out) == lines - 1:
            return [*out, fit(" ".join([line, *words[number:]]), width, scale)]
        out.append(line)
        line = word
    return [*out, fit(line, width, scale)] if line else out


def write(
    canvas: npt.NDArray[np.uint8], x: int, y: int, text: str, colour: Any, scale: int = 1
) -> None:
    """Write a line into a picture, its upper left corner at (x, y); what sticks out is cut."""
    table = _letters()
    dots = np.zeros((HEIGHT, max(1, len(text) * ADVANCE)), bool)
    for number, letter in enumerate(text):
        picture = table.get(letter, table["?"])
        dots[:, number * ADVANCE : number * ADVANCE + WIDTH] = picture
    big = dots.repeat(scale, axis=0).repeat(scale, axis=1)
    part = canvas[y : y + big.shape[0], x : x + big.shape[1]]
    part[big[: part.shape[0], : part.shape[1]]] = colour
