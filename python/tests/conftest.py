"""Configs that the tests of the Python face start from."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

GOOD: dict[str, Any] = {
    "job": "demo",
    "seed": 7,
    "context": 64,
    "bins": 8,
    "vocabulary": 32000,
    "at_end": "repeat",
    "mixture": {"weights": {"web": 0.6, "code": 0.4}},
    "tokenizers": {"bpe": {"path": "tok.json"}},
    "sources": {
        "web": {"files": "data/web/*.parquet", "text": "text", "tokenizer": "bpe"},
        "code": {"files": "data/code/*.bin"},
    },
}


@pytest.fixture
def good() -> dict[str, Any]:
    """A config that is fine."""
    return copy.deepcopy(GOOD)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes bytes or text to a config file and gives its path."""

    def write_file(content: str | bytes, name: str = "mix.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
