"""Which pictures, sounds and clips something is, by its first bytes, or by a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SUFFIXES = {
    "image": ("jpg", "jpeg", "png", "webp"),
    "audio": ("wav", "flac", "ogg", "opus", "mp3"),
    "video": ("mp4", "webm", "mkv", "mov", "m4v"),
}


@dataclass(frozen=True)
class Named:
    """A kind of media and the format within it."""

    kind: str  # as a config has it
    format: str


def named(data: bytes) -> Named | None:
    """What these bytes are the beginning of."""
    if data.startswith(b"\xff\xd8\xff"):
        return Named("image", "JPEG")
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return Named("image", "PNG")
    if data[:4] == b"RIFF" and data[8:12] in (b"WEBP", b"WAVE"):
        return Named("image", "WebP") if data[8:12] == b"WEBP" else Named("audio", "WAV")
    if data.startswith((b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")):
        return Named("audio", {b"fL": "FLAC", b"Og": "OGG"}.get(data[:2], "MP3"))
    if data[4:8] == b"ftyp":
        return Named("video", "MP4")
    if data.startswith(b"\x1a\x45\xdf\xa3"):
        return Named("video", "Matroska")
    return None


def kind_of_name(name: str) -> str | None:
    """What a file of that name holds."""
    suffix = name.rsplit(".", 1)[-1].lower() if "." in name else ""
    return next((kind for kind, suffixes in SUFFIXES.items() if suffix in suffixes), None)


def is_path(text: str) -> bool:
    """Whether a text can be the name of a media file, and not a sentence that ends with one."""
    return len(text) < 1024 and "\n" not in text and kind_of_name(text) is not None


def kind_of_value(value: Any) -> str | None:
    """The kind of media that a value of a row holds or names; None: it is something else."""
    if isinstance(value, bytes):
        found = named(value)
        return found.kind if found else None
    if isinstance(value, str):
        return kind_of_name(value) if is_path(value) else None
    if isinstance(value, Mapping) and set(value) <= {"bytes", "path"} and "bytes" in value:
        inner = value.get("bytes")
        return kind_of_value(inner if inner is not None else value.get("path"))
    return None
