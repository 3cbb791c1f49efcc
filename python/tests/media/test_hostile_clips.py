"""A corpus with a percent of hostile clips: the good arrive once, the bad are named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hostile_corpus import PAD, check_hostile, hostile_config
from kept_clips import SMALL, WEBM, WIDE
from trainers import in_time, kill_all

import overlord as ol
from overlord import _core as core

if not next(codec for codec in core.media_codecs() if codec["name"] == "video")["present"]:
    pytest.skip("no FFmpeg on this machine", allow_module_level=True)

GOOD = 400
RNG = np.random.default_rng(51)
FIELD = {
    "kind": "video",
    "from": ["mp4", "webm"],
    "transform": "sample frames=4; resize width=8 height=8",
    "tokens": {"pad": PAD, "count": 2},
}
MOST = 0xFFFFFFFF
CONTAINERS = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"dinf"}


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + kind + body


def table(*numbers: int) -> bytes:
    """Version and flags of zero, then 32-bit numbers."""
    return struct.pack(f">{1 + len(numbers)}I", 0, *numbers)


def with_box(data: bytes, kind: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The file with the bodies of a kind of box changed, the boxes around them made to fit."""
    out, at = b"", 0
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + size]
        if name == kind:
            body = change(body)
        elif name in CONTAINERS:
            body = with_box(body, kind, change)
        out += box(name, body)
        at += size
    return out


def with_number(data: bytes, kind: bytes, offset: int, form: str, value: int) -> bytes:
    """The file with one number of a kind of box replaced."""

    def change(body: bytes) -> bytes:
        end = offset + struct.calcsize(form)
        return body[:offset] + struct.pack(form, value) + body[end:]

    return with_box(data, kind, change)


def frames_only(body: bytes) -> bytes:
    """Random bytes instead of the frames."""
    return body[:10] + RNG.integers(0, 256, len(body) - 10).astype("u1").tobytes()


def fragmented(run: bytes, header: bytes = table(1)) -> bytes:
    """An MP4 without a list of frames of its own, and a fragment that says what it wants."""
    empty = with_box(SMALL, b"stts", lambda _: table(0))
    for kind in (b"stss", b"ctts", b"stsc", b"stco"):
        empty = with_box(empty, kind, lambda _: table(0))
    empty = with_box(empty, b"stsz", lambda _: table(0, 0))
    empty = with_box(
        empty, b"moov", lambda body: body + box(b"mvex", box(b"trex", table(1, 1, 512, 0, 0)))
    )
    return empty + box(b"moof", box(b"traf", box(b"tfhd", header) + box(b"trun", run)))


def good_clips() -> dict[str, tuple[str, bytes]]:
    """Everything that real corpora have and that must arrive."""
    elements = WEBM.index(b"\x1f\x43\xb6\x75")
    odd = {
        "sound_first": ("mp4", with_box(SMALL, b"moov", lambda body: box(b"trak", b"") + body)),
        "tail": ("mp4", SMALL + bytes(1000)),
        "free_boxes": ("mp4", SMALL + box(b"free", bytes(99)) * 2),
        "no_edits": ("mp4", with_box(SMALL, b"elst", lambda _: table(0))),
        "a_million_alike": ("mp4", with_number(SMALL, b"stts", 8, ">I", 1_000_000)),
        "keys_that_are_not_there": (
            "mp4",
            with_box(SMALL, b"stss", lambda _: table(4, 0, 1, 5, MOST)),
        ),
        "slow": ("mp4", with_number(SMALL, b"mdhd", 12, ">I", 12)),
        "size_unknown": (
            "webm",
            WEBM[: elements + 4] + b"\x01" + b"\xff" * 7 + WEBM[elements + 6 :],
        ),
        "misnamed": ("mp4", WEBM),  # found by content
    }
    for number in range(GOOD - len(odd)):
        data = (SMALL, WEBM, WIDE)[number % 3]
        odd[f"plain{number}"] = ("webm" if data is WEBM else "mp4", data)
    return odd


def bad_files() -> dict[str, tuple[str, bytes]]:
    """No clip at all."""
    return {
        "empty": ("mp4", b""),
        "noise": ("mp4", b"\x00" + RNG.integers(0, 256, 3000).astype("u1").tobytes()),
        "error_page": ("mp4", b"<!DOCTYPE html><html><body>404 Not Found</body></html>"),
        "hls": ("mp4", b"#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:9,\nhttp://example.org/a.ts\n"),
        "half_magic": ("mp4", b"\x00\x00\x00 fty"),
        "wav": ("mp4", b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(40)),
        "transport_stream": ("mp4", b"\x47\x40\x00\x10" + bytes(184)),
    }


def bad_mp4_boxes() -> dict[str, tuple[str, bytes]]:
    """Boxes that are cut, missing, too large, or one in another without end."""
    moov = SMALL.index(b"moov") - 4
    nested = box(b"moov", b"")
    for _ in range(2000):
        nested = box(b"moov", nested)
    forms = {
        "cut_in_frames": SMALL[:100],
        "cut_in_tables": SMALL[: moov + 300],
        "cut_in_first_box": SMALL[:12],
        "no_tables": SMALL[:moov],
        "tables_empty": SMALL[:moov] + box(b"moov", b""),
        "nested_tables": SMALL[:moov] + nested,
        "box_of_2_gib": SMALL[:moov] + struct.pack(">I", 0x7FFFFFFF) + SMALL[moov + 4 :],
        "box_of_2_to_63": SMALL[:32] + struct.pack(">I4sQ", 1, b"mdat", 1 << 63) + SMALL[40:],
        "box_of_3_bytes": SMALL[:moov] + struct.pack(">I", 3) + SMALL[moov + 4 :],
        "compressed_tables": SMALL[:moov] + box(b"moov", box(b"cmov", bytes(50))),
        "sound_only": with_box(SMALL, b"hdlr", lambda body: body.replace(b"vide", b"soun")),
        "a_hundred_streams": with_box(SMALL, b"moov", lambda body: body + box(b"trak", b"") * 100),
        "track_header_cut": with_box(SMALL, b"tkhd", lambda body: body[:30]),
        "a_box_over_its_end": SMALL.replace(b"\x00\x00\x00\x20mdhd", b"\x00\x00\xff\x20mdhd"),
    }
    return {name: ("mp4", data) for name, data in forms.items()}


def bad_mp4_tables() -> dict[str, tuple[str, bytes]]:
    """Numbers that cannot be, or that promise what is not there."""
    several = table(2, 100, 512, 1 << 16, 100, 1024, 1 << 16)
    forms = {
        "clock_of_0": with_number(SMALL, b"mdhd", 12, ">I", 0),
        "movie_clock_of_0": with_number(SMALL, b"mvhd", 12, ">I", 0),
        "no_width": with_number(SMALL, b"stsd", 8 + 8 + 24, ">H", 0),
        "claims_65535": with_number(SMALL, b"stsd", 8 + 8 + 24, ">I", MOST),
        "another_size": with_number(SMALL, b"stsd", 8 + 8 + 24, ">H", 64),
        "no_description": with_box(SMALL, b"stsd", lambda _: table(0)),
        "unknown_coding": with_box(SMALL, b"stsd", lambda body: body.replace(b"avc1", b"raw ")),
        "no_set_up": with_box(SMALL, b"stsd", lambda body: body.replace(b"avcC", b"free")),
        "damaged_set_up": with_box(
            SMALL,
            b"stsd",
            lambda body: body.replace(
                b"\x01\x64\x00\x0a\xff\xe1\x00\x16", b"\x01\x64\x00\x0a\xff\xe1\xff\xff"
            ),
        ),
        "stts_of_a_million_rows": with_number(SMALL, b"stts", 4, ">I", 1_000_000),
        "stts_cut": with_box(SMALL, b"stts", lambda body: body[:6]),
        "years": with_number(SMALL, b"stts", 12, ">I", MOST),
        "no_time_passes": with_box(
            with_number(SMALL, b"stts", 12, ">I", 0), b"ctts", lambda _: table(0)
        ),
        "all_at_once": with_box(
            with_box(with_number(SMALL, b"stts", 12, ">I", 0), b"ctts", lambda _: table(0)),
            b"elst",
            lambda _: table(0),
        ),
        "no_durations": with_box(
            with_box(SMALL, b"stts", lambda _: table(0)), b"ctts", lambda _: table(0)
        ),
        "frames_2_to_32": with_box(SMALL, b"stsz", lambda _: table(1, MOST)),
        "frames_a_million": with_box(SMALL, b"stsz", lambda _: table(1, 1_000_000)),
        "frames_promised": with_number(SMALL, b"stsz", 8, ">I", 7),
        "frames_none": with_box(SMALL, b"stsz", lambda _: table(0, 0)),
        "frames_empty": with_box(SMALL, b"stsz", lambda _: table(0, 6, 0, 0, 0, 0, 0, 0)),
        "frame_of_2_gib": with_number(SMALL, b"stsz", 12, ">I", 0x7FFFFFFF),
        "frames_too_long": with_box(SMALL, b"stsz", lambda _: table(60, 6)),
        "chunks_outside": with_number(SMALL, b"stco", 8, ">I", 0x7FFFFFFF),
        "chunks_of_nothing": with_number(SMALL, b"stsc", 12, ">I", 0),
        "chunks_2_to_32": with_number(SMALL, b"stco", 4, ">I", MOST),
        "chunks_elsewhere": with_number(SMALL, b"stco", 8, ">I", 0),
        "chunks_not_told": with_box(SMALL, b"stsc", lambda _: table(0)),
        "chunks_loop": with_box(
            with_box(SMALL, b"stsc", lambda _: table(3, 1, 1, 1, 1, 1, 1, 1, 1, 1)),
            b"stco",
            lambda _: table(6, 48, 48, 48, 48, 48, 48),
        ),
        "edits_2_to_31": with_box(SMALL, b"elst", lambda _: table(1 << 31)),
        "edits_out_of_parts": with_box(SMALL, b"elst", lambda _: several),
        "edits_past_the_end": with_box(SMALL, b"elst", lambda _: table(1, 240, 1 << 30, 1 << 16)),
        "edits_cut": with_box(SMALL, b"elst", lambda _: table(1, 240)),
        "frames_of_noise": with_box(SMALL, b"mdat", frames_only),
        "no_key_frame": with_box(SMALL, b"stco", lambda _: table(1, 48 + 56)),
        "fragment_of_2_to_32": fragmented(table(MOST)),
        "fragment_outside": fragmented(struct.pack(">III", 1, 6, 0x7FFFFFFF)),
        "fragment_cut": fragmented(struct.pack(">II", 0x301, 6)),
        "fragment_of_nobody": fragmented(table(6), table(9)),
    }
    return {name: ("mp4", data) for name, data in forms.items()}


def ebml(ident: bytes, body: bytes) -> bytes:
    """An element whose size takes eight bytes."""
    return ident + b"\x01" + len(body).to_bytes(7, "big") + body


def webm_with(old: bytes, new: bytes) -> bytes:
    assert WEBM.count(old) == 1, old and len(old) == len(new)
    return WEBM.replace(old, new)


def bad_matroska() -> dict[str, tuple[str, bytes]]:
    cluster = WEBM.index(b"\x1f\x43\xb6\x75")
    tracks = WEBM.rindex(b"\x16\x54\xae\x6b")
    head, inside = WEBM[:tracks], WEBM[cluster:]
    track = WEBM[tracks:cluster]
    forms = {
        "webm_magic": WEBM[:4],
        "webm_cut_in_header": WEBM[:30],
        "webm_cut_in_tracks": WEBM[: tracks + 40],
        "webm_cut_in_frames": WEBM[: cluster + 60],
        "webm_no_tracks": head + inside,
        "webm_no_frames": WEBM[:cluster],
        "webm_segments_without_end": head
        + b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff" * 5000,
        "webm_a_hundred_streams": head
        + ebml(b"\x16\x54\xae\x6b", ebml(b"\xae", b"") * 100)
        + inside,
        "webm_unknown_coding": webm_with(b"V_VP9", b"V_XXX"),
        "webm_no_width": webm_with(b"\xb0\x81\x20", b"\xb0\x81\x00"),
        "webm_another_size": webm_with(b"\xb0\x81\x20", b"\xb0\x81\x30"),
        "webm_clock_of_0": webm_with(
            b"\x2a\xd7\xb1\x83\x0f\x42\x40", b"\x2a\xd7\xb1\x83\x00\x00\x00"
        ),
        "webm_track_of_2_gib": webm_with(b"\x16\x54\xae\x6b\xbe", b"\x16\x54\xae\x6b\xfe"),
        "webm_element_of_2_to_56": head
        + track
        + b"\x1f\x43\xb6\x75\x01"
        + b"\xff" * 6
        + b"\xfe"
        + b"\xa3\x01"
        + b"\xff" * 6
        + b"\xfe",
        "webm_track_200": webm_with(b"\xd7\x81\x01", b"\xd7\x81\xc8"),
        "webm_laced": webm_with(b"\xa3\xcc\x81\x00\x00\x80", b"\xa3\xcc\x81\x00\x00\x86"),
        "webm_years": head
        + track
        + ebml(
            b"\x1f\x43\xb6\x75",
            b"\xe7\x81\x00"
            + WEBM[cluster + 9 :][:78]
            + b"\xe7\x87\x7f"
            + bytes(6)
            + b"\xa3\x85\x81\x00\x00\x80\x00",
        ),
        "webm_frames_of_noise": WEBM[: cluster + 30]
        + RNG.integers(0, 256, 40).astype("u1").tobytes()
        + WEBM[cluster + 70 :],
        "webm_block_of_2_bytes": WEBM + b"\xa3\x82\x81\x00",
        "webm_zeros": WEBM[:cluster] + bytes(300),
    }
    return {name: ("webm", data) for name, data in forms.items()}


def bad_clips() -> dict[str, tuple[str, bytes]]:
    return {**bad_files(), **bad_mp4_boxes(), **bad_mp4_tables(), **bad_matroska()}


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_every_good_clip_arrives_once_and_every_bad_one_is_named(
    tmp_path: Path, engine: str
) -> None:
    reasons = check_hostile(tmp_path, engine, good_clips(), bad_clips(), FIELD)
    words = {
        "empty": "0 bytes",
        "hls": "MP4",
        "years": "max_seconds",
        "frames_2_to_32": "max_frames",
        "claims_65535": "max_pixels",
        "a_hundred_streams": "max_streams",
        "webm_a_hundred_streams": "max_streams",
    }
    for name, word in words.items():
        assert word in reasons[name], (name, reasons[name])


def test_a_loader_that_starts_again_names_every_bad_clip_once(
    tmp_path: Path, sockets: Path
) -> None:
    good, bad = good_clips(), bad_clips()
    config, _ = hostile_config(tmp_path, good, bad, FIELD)
    config["runtime"] = {"processes": {"directory": str(sockets)}}
    with ol.job(config).train(engine="processes") as loader:
        for step, _ in enumerate(loader):
            if step % 8 == 2:
                in_time(lambda: kill_all(sockets, "loaders"), "there is one to kill")
        rows = [note["row"] for note in loader.quarantine()]
    assert len(rows) == len(set(rows)) == len(bad)
