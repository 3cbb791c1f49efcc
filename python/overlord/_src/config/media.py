"""Media fields of sources, and what webdataset asks of the other keys: checked before any file."""

from __future__ import annotations

from collections.abc import Iterator

from overlord._src.config.media_models import UNITS, MediaConfig
from overlord._src.config.source_models import SourceConfig
from overlord._src.errors import Problem

WEBDATASET = "webdataset"
_WITH_COLUMNS = ("parquet", "arrow", "mds")
_WITH_MODES = "megatron"
_WITH_MEDIA = (WEBDATASET, *_WITH_COLUMNS, _WITH_MODES)
_MODES = tuple(str(mode) for mode in range(1, 128))
MOST_MEDIA_BYTES = 2**32 - 2


def media_problems(source: SourceConfig, kind: str | None) -> Iterator[Problem]:
    """What is wrong with a source's media fields, and with the text of a webdataset."""
    if kind == WEBDATASET:
        yield from _sample_problems(source)
    if source.limits.max_media > MOST_MEDIA_BYTES:
        yield Problem(
            ("limits", "max_media"), "too large", source.limits.max_media, "less than 4 GiB"
        )
    if source.media and kind is not None and kind not in _WITH_MEDIA:
        yield Problem(
            ("media",),
            f"{kind} files have no media",
            ", ".join(source.media),
            f"a source of format {' or '.join(_WITH_MEDIA)}",
            "remove it, or write the source in one of these formats",
        )
    for name, field in source.media.items():
        yield from _place_problems(name, field.from_, kind)
        if field.transform is None and field.tokens is not None:
            yield Problem(
                ("media", name, "tokens"),
                "a field without `transform` does not travel and has no tokens",
                advice="add `transform:`, or remove it",
            )
        yield from _function_problems(name, field, source.decode_at)
        if field.tokens is not None and field.tokens.count and field.tokens.every:
            yield Problem(
                ("media", name, "tokens", "every"),
                "placeholders are counted by `count` already",
                field.tokens.every,
                advice="remove one of them",
            )
    yield from (
        Problem(
            ("metadata", source.metadata.index(column)),
            "is what a media field of the source gives already",
            column,
            advice="remove or rename it",
        )
        for column in media_columns(source)
        if column in source.metadata
    )
    yield from _pad_problems(source)


def _function_problems(name: str, field: MediaConfig, decode_at: str) -> Iterator[Problem]:
    """A function over what is not there, or not where it runs."""
    if field.function is None:
        return
    called = field.function.function
    if field.transform is None:
        yield Problem(
            ("media", name, "function"),
            "a field without `transform` does not travel, and there is nothing to call it with",
            called,
            advice="add `transform:`, or remove it",
        )
    if decode_at == "constructor":
        yield Problem(
            ("decode_at",),
            f"media {name} goes through {called}, which runs at the loader",
            decode_at,
            "auto, loader",
            "remove it: other fields of the source may travel packed all the same",
        )


def _pad_problems(source: SourceConfig) -> Iterator[Problem]:
    """Fields whose places in the text could not be told apart."""
    pads: dict[int, str] = {}
    for name, field in sorted(source.media.items()):
        if field.tokens is None or field.tokens.place != "text":
            continue
        other = pads.setdefault(field.tokens.pad, name)
        if other != name:
            yield Problem(
                ("media", name, "tokens", "pad"),
                f"is the pad token of media {other} in the same text",
                field.tokens.pad,
                "another token for each field",
            )


def media_columns(source: SourceConfig) -> list[str]:
    """The metadata columns that its delivered media fields give: how many, and their units."""
    delivered = [item for item in source.media.items() if item[1].transform is not None]
    return [f"{name}_{what}" for name, field in delivered for what in ("count", UNITS[field.kind])]


def media_token_problems(name: str, source: SourceConfig, vocabulary: int) -> Iterator[Problem]:
    """Placeholders that are no tokens of the vocabulary."""
    yield from (
        Problem(
            ("sources", name, "media", field, "tokens", key),
            "not in the vocabulary",
            value,
            f"0 to {vocabulary - 1}",
            "raise `vocabulary`, or choose another token",
        )
        for field, declared in source.media.items()
        if declared.tokens is not None
        for key in ("pad", "before", "after")
        if (value := getattr(declared.tokens, key)) is not None and value >= vocabulary
    )


def whole_document_problems(
    name: str, source: SourceConfig, over_length: str, packing: str, path: tuple[str | int, ...]
) -> Iterator[Problem]:
    """Policies of a stream that would cut a document which carries media."""
    if not media_columns(source):
        return
    if over_length != "drop":
        yield Problem(
            ("sources", name, "over_length"),
            "a document with media is never cut",
            over_length,
            "drop",
            f"set sources.{name}.over_length: drop",
        )
    if packing == "concat":
        yield Problem(
            (*path, "method"),
            f"concat cuts documents, and those of source {name} carry media",
            packing,
            "best_fit or pad",
        )


def _place_problems(name: str, places: list[str], kind: str | None) -> Iterator[Problem]:
    path = ("media", name)
    if kind in _WITH_COLUMNS and len(places) > 1:
        yield Problem(path, "names more than one column", places, "one column")
        return
    if kind == _WITH_MODES and (len(places) > 1 or places[0] not in _MODES):
        allowed = f"one number, {_MODES[0]} to {_MODES[-1]}, in quotes"
        yield Problem(path, "names no mode of sequences", places, allowed)
        return
    if len(set(places)) < len(places):
        yield Problem(path, "lists an extension twice", places)
        return
    if kind != WEBDATASET:
        return
    yield from (
        Problem(
            path,
            "not a member extension",
            place,
            "lower case, without its dot, like jpg or seg.png",
        )
        for place in places
        if not place or place.startswith(".") or place != place.lower() or "/" in place
    )


def _sample_problems(source: SourceConfig) -> Iterator[Problem]:
    if source.tokens is not None:
        yield Problem(
            ("tokens",),
            "webdataset has members of text, not of tokens",
            source.tokens,
            advice="use `text: txt` or `text: json:FIELD`, with `tokenizer:`",
        )
    extension, colon, field = (source.text or "txt").partition(":")
    wrong = not extension or extension.startswith(".") or extension != extension.lower()
    if wrong or (colon and not field):
        yield Problem(
            ("text",),
            "names no member",
            source.text,
            "an extension in lower case without its dot (txt), or EXTENSION:FIELD (json:caption)",
        )
