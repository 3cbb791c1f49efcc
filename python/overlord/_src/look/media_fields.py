"""Media of a source: which columns hold them, and a chain of steps that a model could be fed by."""

from __future__ import annotations

import contextlib
import json
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from overlord._src.look.found import Found
from overlord._src.look.media_bytes import kind_of_name, kind_of_value
from overlord._src.look.places import File, Listing

_PATHS_TRIED = 48
_TARS_TRIED = 4
_CLIP = {
    "mean": [0.48145466, 0.4578275, 0.40821073],
    "std": [0.26862954, 0.26130258, 0.27577711],
}
_PATCHES = {"layout": "qwen2vl", "patch": 14, "temporal": 2, "merge": 2}
CHAINS: dict[str, list[Any]] = {
    "image": [
        "orient",
        {"smart_resize": {"factor": 28, "min_pixels": 3136, "max_pixels": 1003520}},
        {"normalise": _CLIP},
        {"patchify": _PATCHES},
    ],
    "audio": [
        "mono",
        {"resample": {"rate": 16000}},
        {"fit": {"samples": 480000}},
        {"log_mel": {"mels": 128, "tokens": "qwen2_audio"}},
    ],
    "video": [
        {"sample": {"fps": 2, "min": 4, "max": 64, "multiple_of": 2}},
        {"smart_resize": {"factor": 28, "min_pixels": 100352, "max_pixels": 602112}},
        {"normalise": _CLIP},
        {"patchify": _PATCHES},
    ],
}
# What models call the tokens of a kind: its placeholder, and those around it.
_TOKENS = {
    "image": [("<|image_pad|>", "<|vision_start|>", "<|vision_end|>")],
    "video": [("<|video_pad|>", "<|vision_start|>", "<|vision_end|>")],
    "audio": [
        ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"),
        ("<|audio_pad|>", "<|audio_start|>", "<|audio_end|>"),
    ],
}


def find_media(listing: Listing, found: Found) -> None:
    """The media that columns hold or name, and what of the listing belongs to them."""
    for column in found.sample.columns():
        values = [item for value in column.values for item in _items(value)]
        kinds = {kind_of_value(value) for value in values}
        kind = next(iter(kinds), None)
        if len(kinds) != 1 or kind is None or kind in found.media:
            continue
        place: dict[str, Any] = {"from": column.name}
        if any(isinstance(value, list) for value in column.values):
            place["many"] = True
        found.media[kind] = place
        paths = [value for value in values if isinstance(value, str)]
        if paths:
            _find_root(listing, found, kind, paths)


def _find_root(listing: Listing, found: Found, kind: str, paths: Sequence[str]) -> None:
    """What the paths are relative to: the folder of the rows, another one, or a tar."""
    wide = listing.around() if listing.alone else listing
    beside = found.files[0].folder
    some = [path for path in dict.fromkeys(paths) if not path.startswith("/")][:_PATHS_TRIED]
    roots = Counter(
        uri[: len(uri) - len(path)]
        for path in some
        for uri in (beside + path, *_ending_with(wide, path))
        if uri in wide.names
    )
    if not roots:
        tar = _tar_with(wide, some)
        if tar is None:
            found.notes.append(
                f"{some[0] if some else paths[0]} is not beside the rows: say what such paths are "
                f"relative to by `media.{kind}.root`"
            )
        else:
            found.media[kind]["root"] = tar.uri
            found.beside.append(tar)
        return
    root = beside if roots[beside] == max(roots.values()) else roots.most_common(1)[0][0]
    if root != beside:
        found.media[kind]["root"] = root
    found.named = [wide.names[root + path] for path in some if root + path in wide.names]
    found.beside += [
        file for file in wide.files if file.uri.startswith(root) and kind_of_name(file.name) == kind
    ]


def _ending_with(listing: Listing, path: str) -> list[str]:
    end = "/" + path
    return [uri for uri in listing.names if uri.endswith(end)]


def _tar_with(listing: Listing, paths: Sequence[str]) -> File | None:
    """A tar whose first members are among what the rows name, or lie beside it there."""
    folders = {path.rpartition("/")[0] for path in paths}
    for file in listing.ending([".tar"])[:_TARS_TRIED]:
        with contextlib.suppress(tarfile.TarError, OSError):
            with tarfile.open(fileobj=listing.place.open(file), mode="r:") as tar:
                first = next((member.name for member in tar if member.isfile()), "")
            if first.removeprefix("./").rpartition("/")[0] in folders and kind_of_name(first):
                return file
    return None


def add_media(found: Found, tokenizer: Path | None) -> None:
    """The media of a source's config."""
    found.media = {
        kind: place for kind, place in found.media.items() if place["from"] != found.text
    }
    if not found.media:
        return
    ids = _added_tokens(tokenizer)
    found.source["media"] = {
        kind: _field(found, kind, place, ids) for kind, place in found.media.items()
    }
    _mark_parts(found)
    found.notes.append(
        "media have the steps of the Qwen2-VL and Qwen2-Audio families; "
        "a field without `transform` does not travel"
    )
    if not any("tokens" in field for field in found.source["media"].values()):
        found.notes.append(
            "no token stands for an item until `media.FIELD.tokens` says which: `pad: ID`"
        )


def _mark_parts(found: Found) -> None:
    """Texts of a conversation that stand for media: `<image>`, as LLaVA has it."""
    chat = found.source.get("chat")
    if chat is None:
        return
    said = json.dumps([row.get(found.text) for row in found.sample.rows], default=str)
    parts = {kind: f"<{kind}>" for kind in found.media if f"<{kind}>" in said}
    if parts:
        named = {"format": chat} if isinstance(chat, str) else chat
        found.source["chat"] = {**named, "parts": parts}


def _items(value: Any) -> list[Any]:
    return [item for item in value if item is not None] if isinstance(value, list) else [value]


def _field(
    found: Found, kind: str, place: Mapping[str, Any], ids: Mapping[str, int]
) -> dict[str, Any]:
    field: dict[str, Any] = dict(place)
    if kind != "image":
        field["kind"] = kind
    field["transform"] = CHAINS[kind]
    names = next((names for names in _TOKENS[kind] if names[0] in ids), None)
    if names is not None:
        pad, before, after = (ids.get(name) for name in names)
        field["tokens"] = {"pad": pad}
        if "chat" in found.source or "interleaved" in found.source:
            field["tokens"]["place"] = "text"  # the template writes what stands around it
        elif before is not None and after is not None:
            field["tokens"].update(before=before, after=after)
    return field


def _added_tokens(tokenizer: Path | None) -> dict[str, int]:
    if tokenizer is None:
        return {}
    told = json.loads(tokenizer.read_bytes())
    return {token["content"]: token["id"] for token in told.get("added_tokens", [])}
