"""A corpus with a percent of hostile sounds: the good arrive once, the bad are named."""

from __future__ import annotations

import functools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_corpus import PAD, check_hostile
from kept_clips import SMALL
from test_media_audio import encode, voice

GOOD = 400
RNG = np.random.default_rng(52)
FIELD = {
    "kind": "audio",
    "from": ["wav", "flac", "ogg", "mp3"],
    "transform": "mono; resample rate=8000; fit samples=400",
    "tokens": {"pad": PAD, "count": 2},
}
FORMS = [
    ("wav", "WAV", "PCM_16"),
    ("flac", "FLAC", "PCM_16"),
    ("ogg", "OGG", "VORBIS"),
    ("mp3", "MP3", "MPEG_LAYER_III"),
]


def crc_row(value: int) -> int:
    for _ in range(8):
        value = value << 1 ^ (0x04C11DB7 if value & 1 << 31 else 0)
    return value & 0xFFFFFFFF


OGG_CRC = [crc_row(byte << 24) for byte in range(256)]
VORBIS_FIRST = 28  # bytes of the page header that is in front of the first packet


@functools.cache
def sound(
    form: str, subtype: str = "PCM_16", channels: int = 1, rate: int = 8_000, frames: int = 900
) -> bytes:
    """A file of a format."""
    return encode(voice(frames, channels, rate), rate, form, subtype)


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    """A chunk of RIFF, which may lie about its size."""
    return (
        name + struct.pack("<I", len(body) if size is None else size) + body + bytes(len(body) % 2)
    )


def wav(
    data: bytes = bytes(200),
    tag: int = 1,
    channels: int = 1,
    rate: int = 8_000,
    bits: int = 16,
    align: int | None = None,
    data_size: int | None = None,
    between: bytes = b"",
) -> bytes:
    """A WAV that says what it wants."""
    align = channels * bits // 8 & 0xFFFF if align is None else align
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * align & 0xFFFFFFFF, align, bits)
    body = b"WAVE" + chunk(b"fmt ", form) + between + chunk(b"data", data, data_size)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def floats(*values: float) -> bytes:
    return np.array([0.0] * 100 + list(values), "<f4").tobytes()


def flac_with(
    data: bytes, rate: int = 8_000, channels: int = 1, bits: int = 16, frames: int = 900
) -> bytes:
    """The same frames under a header that lies."""
    packed = rate << 44 | (channels - 1) << 41 | (bits - 1) << 36 | frames
    return data[:18] + packed.to_bytes(8, "big") + data[26:]


def ogg_crc(page: bytes) -> int:
    """The checksum of a page: CRC-32 without mirroring, from 0."""
    crc = 0
    for byte in page:
        crc = (crc << 8 ^ OGG_CRC[crc >> 24 ^ byte]) & 0xFFFFFFFF
    return crc


def ogg_pages(data: bytes) -> list[bytes]:
    pages, at = [], 0
    while at < len(data):
        segments = data[at + 26]
        end = at + 27 + segments + sum(data[at + 27 : at + 27 + segments])
        pages.append(data[at:end])
        at = end
    return pages


def ogg_with(data: bytes, page: int, offset: int, value: bytes) -> bytes:
    """Bytes of a page put in, its checksum made to fit."""
    pages = ogg_pages(data)
    changed = bytearray(pages[page])
    changed[offset : offset + len(value)] = value
    changed[22:26] = bytes(4)
    changed[22:26] = struct.pack("<I", ogg_crc(bytes(changed)))
    pages[page] = bytes(changed)
    return b"".join(pages)


def id3(body: bytes) -> bytes:
    """A tag as players write it in front of an MP3."""
    size = len(body)
    digits = bytes([size >> 21 & 127, size >> 14 & 127, size >> 7 & 127, size & 127])
    return b"ID3\x04\x00\x00" + digits + body


def without_first_frame(mp3: bytes) -> bytes:
    """An MP3 without the frame that tells its length."""
    return mp3[mp3.index(mp3[:2], 4) :]


def good_sounds() -> dict[str, tuple[str, bytes]]:
    """Everything that real corpora have and that must arrive."""
    flac = sound("FLAC")
    odd = {
        "u8": ("wav", sound("WAV", "PCM_U8")),
        "deep": ("wav", sound("WAV", "PCM_24", 2, 48_000)),
        "float": ("wav", sound("WAV", "FLOAT")),
        "double": ("wav", sound("WAV", "DOUBLE")),
        "mu_law": ("wav", sound("WAV", "ULAW")),
        "a_law": ("wav", sound("WAV", "ALAW")),
        "six_channels": ("wav", sound("WAVEX", "PCM_16", 6)),
        "written_to_a_pipe": ("wav", wav(data_size=0xFFFFFFFF)),
        "with_a_list": ("wav", wav(between=chunk(b"LIST", b"INFOodd"))),
        "tail": ("wav", sound("WAV") + b"\x00" * 1000),
        "lying_riff_size": ("wav", b"RIFF" + bytes(4) + wav()[8:]),
        "flac_deep": ("flac", sound("FLAC", "PCM_24", 2, 96_000)),
        "one_sample": ("flac", sound("FLAC", frames=1)),
        "padded": (
            "flac",
            flac[:4] + b"\x00" + flac[5:42] + b"\x81\x00\x00\x09" + bytes(9) + after_blocks(flac),
        ),
        "opus": ("ogg", sound("OGG", "OPUS", rate=48_000)),
        "tagged": ("mp3", id3(b"TIT2" + bytes(300)) + sound("MP3", "MPEG_LAYER_III")),
        "no_length": ("mp3", without_first_frame(sound("MP3", "MPEG_LAYER_III", frames=9_000))),
        "misnamed": ("mp3", flac),  # found by content
    }
    for number in range(GOOD - len(odd)):
        extension, form, subtype = FORMS[number % 4]
        rate, channels = (8_000, 16_000, 44_100)[number % 3], 1 + number % 2
        frames = 400 + number % 36 * 30
        odd[f"plain{number}"] = (extension, sound(form, subtype, channels, rate, frames))
    return odd


def after_blocks(flac: bytes) -> bytes:
    """The frames of a FLAC, behind all blocks of its header."""
    at = 4
    while True:
        last, size = flac[at] & 0x80, int.from_bytes(flac[at + 1 : at + 4], "big")
        at += 4 + size
        if last:
            return flac[at:]


def bad_files() -> dict[str, tuple[str, bytes]]:
    """No sound at all."""
    return {
        "empty": ("wav", b""),
        "noise": ("wav", b"\x00" + RNG.integers(0, 256, 3000).astype("u1").tobytes()),
        "error_page": ("mp3", b"<!DOCTYPE html><html><body>404 Not Found</body></html>"),
        "json": ("flac", b'{"error": "rate limit exceeded"}'),
        "playlist": ("mp3", b"#EXTM3U\n#EXTINF:10,\nhttp://example.org/a.mp3\n"),
        "half_magic": ("wav", b"RIFF\x00"),
        "clip": ("mp3", SMALL),
        "gzip": ("flac", b"\x1f\x8b\x08" + bytes(50)),
    }


def bad_wavs() -> dict[str, tuple[str, bytes]]:
    whole = sound("WAV")
    forms = {
        "wav_rate_0": wav(rate=0),
        "wav_rate_huge": wav(rate=0x80000000),
        "wav_0_channels": wav(channels=0),
        "wav_255_channels": wav(bytes(5100), channels=255),
        "wav_65535_channels": wav(channels=0xFFFF),
        "wav_says_4_gib": wav(data_size=0xFFFFFFF0)[:100],
        "wav_says_hours": wav(data_size=0x7FFFFFFF),
        "wav_no_data": wav()[:36],
        "wav_no_fmt": b"RIFF\x00\x00\x00\x00WAVE" + chunk(b"data", bytes(100)),
        "wav_cut_in_fmt": wav()[:30],
        "wav_cut_in_data": whole[:-300],
        "wav_short_fmt": b"RIFF\x00\x00\x00\x00WAVE"
        + chunk(b"fmt ", bytes(8))
        + chunk(b"data", bytes(9)),
        "wav_endless_chunk": wav(between=chunk(b"LIST", b"", 0xFFFFFFFF)),
        "wav_nan": wav(floats(0.5, float("nan"), 0.1), tag=3, bits=32),
        "wav_infinite": wav(floats(float("-inf")), tag=3, bits=32),
        "wav_huge_floats": wav(np.full(60, 1e300, "<f8").tobytes(), tag=3, bits=64),
        "wav_adpcm": wav(tag=2, bits=4, align=256),
        "wav_0_bits": wav(bits=0),
        "wav_lying_align": wav(align=1),
        "wav_no_samples": wav(b""),
        "riff_avi": b"RIFF\x40\x00\x00\x00AVI " + bytes(64),
        "rf64": b"RF64\xff\xff\xff\xffWAVE" + bytes(64),
        "rifx": b"RIFX\x00\x00\x00\x40WAVE" + bytes(64),
    }
    return {name: ("wav", data) for name, data in forms.items()}


def bad_flacs() -> dict[str, tuple[str, bytes]]:
    whole = sound("FLAC", frames=9_000)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    forms = {
        "flac_rate_0": flac_with(whole, rate=0, frames=9_000),
        "flac_no_length": flac_with(whole, frames=0),
        "flac_says_days": flac_with(whole, frames=(1 << 36) - 1)[:100],
        "flac_says_more": flac_with(whole, frames=9_001),
        "flac_says_stereo": flac_with(whole, channels=2, frames=9_000),
        "flac_cut_in_header": whole[:30],
        "flac_only_header": whole[:42],
        "flac_cut_in_frames": whole[: len(whole) // 2],
        "flac_flipped": bytes(flipped),
        "flac_other_first_block": whole[:4] + b"\x04" + whole[5:],
        "flac_lying_block": whole[:5] + b"\xff\xff\xff" + whole[8:],
        "flac_magic": b"fLaC",
    }
    return {name: ("flac", data) for name, data in forms.items()}


def bad_oggs() -> dict[str, tuple[str, bytes]]:
    whole = sound("OGG", "VORBIS", frames=9_000)
    pages = ogg_pages(whole)
    last = len(pages) - 1
    flipped = bytearray(whole)
    flipped[len(whole) - 200] ^= 255
    other = sound("OGG", "VORBIS", frames=2_000)
    stranger = ogg_with(whole, 0, VORBIS_FIRST, b"\x80theora\x03")
    forms = {
        "ogg_cut_in_first_page": whole[:40],
        "ogg_only_first_page": pages[0],
        "ogg_cut": whole[: len(whole) // 2],
        "ogg_lacks_last_page": b"".join(pages[:-1]),
        "ogg_theora": stranger,
        "ogg_says_a_year": ogg_with(whole, last, 6, struct.pack("<q", 8_000 * 3600 * 9000)),
        "ogg_says_2_to_62": ogg_with(whole, last, 6, struct.pack("<q", 1 << 62)),
        "ogg_says_nothing": ogg_with(whole, last, 6, struct.pack("<q", -1)),
        "ogg_says_more": ogg_with(whole, last, 6, struct.pack("<q", 99_000)),
        "ogg_0_channels": ogg_with(whole, 0, VORBIS_FIRST + 11, b"\x00"),
        "ogg_255_channels": ogg_with(whole, 0, VORBIS_FIRST + 11, b"\xff"),
        "ogg_rate_0": ogg_with(whole, 0, VORBIS_FIRST + 12, bytes(4)),
        "ogg_other_rate": ogg_with(whole, last, 14, b"\x01\x02\x03\x04"),
        "ogg_flipped": bytes(flipped),
        "ogg_two_streams": whole + other,
        "ogg_no_set_up": pages[0] + pages[-1],
        "ogg_magic": b"OggS" + bytes(100),
    }
    return {name: ("ogg", data) for name, data in forms.items()}


def bad_mp3s() -> dict[str, tuple[str, bytes]]:
    whole = sound("MP3", "MPEG_LAYER_III", rate=16_000, frames=20_000)
    tag = max(whole.find(b"Xing"), whole.find(b"Info"))
    forms = {
        "mp3_only_tag": id3(bytes(500)),
        "mp3_endless_tag": b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f" + bytes(300),
        "mp3_only_sync": b"\xff\xfb\x90\x64",
        "mp3_no_frames": b"\xff\xfb\x90\x64" + bytes(40),
        "mp3_text": b"ID3" + b"not a tag " * 30,
        "mp3_cut": whole[: len(whole) // 2],
        "mp3_says_days": whole[: tag + 8] + struct.pack(">I", 0x7FFFFFFF) + whole[tag + 12 :],
        "mp3_says_more": whole[: tag + 8] + struct.pack(">I", 900) + whole[tag + 12 :],
    }
    return {name: ("mp3", data) for name, data in forms.items()}


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_every_good_sound_arrives_once_and_every_bad_one_is_named(
    tmp_path: Path, engine: str
) -> None:
    bad: dict[str, Any] = {**bad_files(), **bad_wavs(), **bad_flacs(), **bad_oggs(), **bad_mp3s()}
    reasons = check_hostile(tmp_path, engine, good_sounds(), bad, FIELD)
    words = {
        "empty": "0 bytes",
        "error_page": "HTML",
        "clip": "ISO media",
        "wav_rate_0": "0 Hz",
        "wav_255_channels": "255",
        "wav_says_4_gib": "4294967280 bytes",
        "wav_nan": "no number",
        "flac_says_days": "limit",
        "ogg_says_a_year": "limit",
    }
    for name, word in words.items():
        assert word in reasons[name], (name, reasons[name])
