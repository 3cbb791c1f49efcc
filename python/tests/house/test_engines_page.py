"""docs/engines.md has no empty cell, and names tests and refusals that there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from many_features import JOBS, TRIED

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/engines.md"
HEADER = ["feature", "one process", "alone", "processes", "hosts", "Ray"]
REFUSALS = ["no.", "says", "what to do", "test"]
TEST = re.compile(r"`(test_\w+(?:\[[\w-]+\])?)`")
DEFINED = re.compile(r"((?:^[@ )\]\"].*\n)*)^def (test_\w+)", re.MULTILINE)
REFUSED = re.compile(r"refused, (\d+)")


def tables(page: str) -> Iterator[list[list[str]]]:
    """The tables of a page: their rows, the header first, as lists of cells."""
    for block in re.findall(r"(?:^\|.*\|$\n?)+", page, re.MULTILINE):
        lines = block.splitlines()
        yield [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named(header: list[str], page: str) -> list[list[str]]:
    """Rows of all tables that have this header."""
    return [row for table in tables(page) if table[0] == header for row in table[2:]]


def names_of_tests() -> set[str]:
    """All of them, and with their parameters those that try many features at once."""
    of_many = {f"test_as_in_one_process[{name}-{engine}]" for name, engine in TRIED}
    of_many |= {f"test_as_in_one_process_under_ray[{name}]" for name in JOBS}
    files = [*ROOT.glob("python/tests/**/test_*.py"), *ROOT.glob("tests/*.py")]
    return of_many | {
        name
        for file in files
        for marks, name in DEFINED.findall(file.read_text())
        if "xfail" not in marks  # which shows that it does not work
    }


def words_of_the_product() -> str:
    """All its source, with texts that go on in the next line put together."""
    folders = ("src/overlord/**/*.cc", "python/src/*.cc", "python/overlord/**/*.py")
    text = "\n".join(file.read_text() for folder in folders for file in ROOT.glob(folder))
    return re.sub(r'"\s*\n\s*f?"', "", text).replace('\\"', '"')


def problems(page: str, tests: set[str], words: str) -> list[str]:
    """What is wrong with a page; empty where nothing is."""
    found = []
    refusals = {row[0]: row[1:] for row in named(REFUSALS, page)}
    for number, (says, way_out, test) in refusals.items():
        if says not in words:
            found.append(f"nothing in the product says what refusal {number} does: {says}")
        if not way_out:
            found.append(f"refusal {number} has no way out")
        if not (proof := TEST.fullmatch(test)) or proof[1] not in tests:
            found.append(f"refusal {number}: there is no test {test}")
    rows = named(HEADER, page)
    names = [row[0] for row in rows]
    found += [f"{name} is there twice" for name in {*names} if names.count(name) > 1]
    used = set()
    for feature, *cells in rows:
        if len(cells) != len(HEADER) - 1:
            found.append(f"{feature}: {len(cells)} cells instead of {len(HEADER) - 1}")
        for engine, cell in zip(HEADER[1:], cells, strict=False):
            at = f"{feature}, {engine}"
            if proof := TEST.fullmatch(cell):
                if proof[1] not in tests:
                    found.append(f"{at}: there is no test {proof[1]}")
            elif refused := REFUSED.fullmatch(cell):
                used.add(refused[1])
                if refused[1] not in refusals:
                    found.append(f"{at}: there is no refusal {refused[1]}")
            else:
                found.append(f"{at}: neither a test nor a refusal: {cell!r}")
    found += [f"no cell has refusal {number}" for number in refusals.keys() - used]
    return found


def test_every_cell_is_a_test_or_a_refusal() -> None:
    page = PAGE.read_text()
    assert len(named(HEADER, page)) > 30, "the tables are found"
    assert problems(page, names_of_tests(), words_of_the_product()) == []


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("| x | `test_a` | `test_a` | `test_a` | `test_a` | |", "neither a test nor a refusal: ''"),
        ("| x | `test_a` | yes | `test_a` | `test_a` | `test_a` |", "nor a refusal: 'yes'"),
        ("| x | `test_a` | not tried | `test_a` | `test_a` | `test_a` |", "nor a refusal: 'not tr"),
        ("| x | `test_b` | `test_a` | `test_a` | `test_a` | `test_a` |", "no test test_b"),
        ("| x | refused, 2 | `test_a` | `test_a` | `test_a` | `test_a` |", "no refusal 2"),
        ("| x | `test_a` | `test_a` | `test_a` | `test_a` |", "4 cells instead of 5"),
    ],
)
def test_a_cell_that_says_nothing_is_found(row: str, says: str) -> None:
    header = f"| {' | '.join(HEADER)} |\n|---|---|---|---|---|---|\n"
    good = "| y | `test_a` | refused, 1 | `test_a` | `test_a` | `test_a` |\n"
    refusals = f"| {' | '.join(REFUSALS)} |\n|---|---|---|---|\n| 1 | no | other | `test_a` |\n"
    assert problems(f"{header}{good}\n{refusals}", {"test_a"}, "no") == []
    [found] = problems(f"{header}{good}{row}\n\n{refusals}", {"test_a"}, "no")
    assert says in found
    [found] = problems(f"{header}{good}\n{refusals}", {"test_a"}, "")
    assert "nothing in the product says" in found
