"""The pages of docs/trainers: their blocks of code, and the lines that a reader adds."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/trainers"


def pages() -> list[str]:
    """Names of the pages, one per trainer."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


def blocks(page: str) -> list[str]:
    """The blocks of Python of a page: what a user had, where that is code, then what is written."""
    text = (FOLDER / f"{page}.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def glue_lines(page: str) -> list[str]:
    """Lines of what is written that what a user had does not have."""
    found = [[line for line in block.splitlines() if line] for block in blocks(page)[:2]]
    had, written = found if len(found) == 2 else ([], *found)
    changes = difflib.SequenceMatcher(None, had, written, autojunk=False).get_opcodes()
    return [line for tag, *_, i, j in changes if tag != "equal" for line in written[i:j]]
