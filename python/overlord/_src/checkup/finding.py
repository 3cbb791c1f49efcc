"""What one check of `overlord doctor` found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """A verdict on one thing, with what was found and what would be needed."""

    verdict: Verdict
    what: str
    detail: str
