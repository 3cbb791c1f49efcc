"""How many ids a tokenizer.json has, without the package that runs it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any


@functools.lru_cache(maxsize=8)  # of one job; sources share them, and large files take a while
def tokenizer_ids(content: bytes) -> int:
    """The largest id with added tokens, plus one; 0 where the file does not tell."""
    try:
        data = json.loads(content)
        ids = [*_ids(data["model"]["vocab"]), *(item["id"] for item in data["added_tokens"] or ())]
        return max((int(one) for one in ids), default=-1) + 1
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0  # its worker says what is wrong with it


def _ids(vocabulary: Any) -> Sequence[int]:
    """Ids of a model: it maps tokens to them, or lists tokens in their order (Unigram)."""
    if isinstance(vocabulary, Mapping):
        return list(vocabulary.values())
    return range(len(vocabulary))
