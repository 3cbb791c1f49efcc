"""Lines that a page's reader writes: those of its second block that its first does not have."""

from __future__ import annotations

import difflib

from drive import blocks


def glue_lines(page: str) -> list[str]:
    had, written = ([line for line in block.splitlines() if line] for block in blocks(page)[:2])
    changes = difflib.SequenceMatcher(None, had, written, autojunk=False).get_opcodes()
    return [line for tag, *_, i, j in changes if tag != "equal" for line in written[i:j]]
