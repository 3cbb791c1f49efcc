"""From what was found to the source that reads it: form, media, tokenizer, and lengths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from overlord._src.look.forms import find_form
from overlord._src.look.found import MEGATRON, Found
from overlord._src.look.layouts import LAYOUTS
from overlord._src.look.media_fields import add_media
from overlord._src.look.places import File, Listing

TOKENIZER = "own"  # its name in what is printed
_WITHOUT_TOKENIZER = "the source needs a tokenizer that knows a chat template: --tokenizer PATH"

Count = Callable[[str], int]


def look_at(listing: Listing, tokenizer: Path | None = None) -> tuple[list[Found], list[File]]:
    """All that is known in a listing, and the files that belong to nothing that is."""
    everything: list[Found] = []
    for layout in LAYOUTS.values():
        for found in layout(listing):
            listing = listing.without([*found.files, *found.beside])
            everything.append(found)
    _name_apart(everything)
    count = _counter(tokenizer)
    for found in everything:
        _describe(found, tokenizer, count)
    return everything, list(listing.files)


def _name_apart(everything: list[Found]) -> None:
    taken: set[str] = set()
    for found in everything:
        base, number = found.name, 2
        while found.name in taken:
            found.name, number = f"{base}_{number}", number + 1
        taken.add(found.name)


def _describe(found: Found, tokenizer: Path | None, count: Count | None) -> None:
    if not found.text:
        find_form(found)
    keys = found.source
    if keys:
        add_media(found, tokenizer)
    if keys and "tokens" not in keys:
        if tokenizer is not None:
            keys["tokenizer"] = TOKENIZER
            found.tokenizers = {TOKENIZER: {"path": str(tokenizer.absolute())}}
        elif "chat" in keys:
            keys["tokenizer"] = TOKENIZER
            found.notes.append(_WITHOUT_TOKENIZER)
        else:
            keys["tokenizer"] = "bytes"
    pairs = "preference" in str(keys.get("chat"))
    if found.media or pairs:
        keys["over_length"] = "drop"  # documents with media, and pairs, are never cut
    _measure(found, count)


def _counter(tokenizer: Path | None) -> Count | None:
    if tokenizer is None:
        return None
    import tokenizers

    known = tokenizers.Tokenizer.from_file(str(tokenizer))
    return lambda text: len(known.encode(text, add_special_tokens=False).ids)


def _measure(found: Found, count: Count | None) -> None:
    """Lengths of the sample's rows: of texts in characters, and in tokens where they are known."""
    if not found.text:
        return
    values = [row[found.text] for row in found.sample.rows if row.get(found.text) is not None]
    if found.layout == MEGATRON:
        found.lengths["tokens"] = ("tokens", [row["length"] for row in found.sample.rows])
    elif "tokens" in found.source:
        found.lengths[found.text] = ("tokens", [len(value) for value in values])
    else:
        texts = ["".join(_texts_in(value)) for value in values]
        found.lengths[found.text] = ("characters", [len(text) for text in texts])
        if count is not None:
            found.lengths[f"{found.text}, by the tokenizer"] = ("tokens", [*map(count, texts)])


def _texts_in(value: Any) -> Iterator[str]:
    """What is said in a value: of a conversation all messages, without the names of its fields."""
    if isinstance(value, str):
        if value.startswith("[{"):
            try:
                yield from _texts_in(json.loads(value))
                return
            except ValueError:
                pass
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
    elif isinstance(value, Mapping):
        for name in ("content", "value", "text"):
            yield from _texts_in(value.get(name))
