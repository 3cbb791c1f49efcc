"""A corpus of good and hostile media of one kind, and what a run over it owes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from corpora import job_config
from delivered import pieces_of
from test_webdataset import tar_of

import overlord as ol

PAD = 900
ROWS_PER_SHARD = 500
Media = Mapping[str, tuple[str, bytes]]  # name -> extension, bytes


def hostile_config(
    folder: Path, good: Media, bad: Media, field: Mapping[str, Any], **top: Any
) -> tuple[dict[str, Any], list[list[str]]]:
    """A job over both in one shuffled source; and the names in every shard, by row."""
    names = [*good, *bad]
    assert len(names) == len(good) + len(bad) == len({*good, *bad})
    shuffled = [names[i] for i in np.random.default_rng(41).permutation(len(names))]
    shards = [
        shuffled[begin : begin + ROWS_PER_SHARD]
        for begin in range(0, len(shuffled), ROWS_PER_SHARD)
    ]
    for number, shard in enumerate(shards):
        samples: list[dict[str, Any]] = []
        for row, name in enumerate(shard):
            extension, data = good[name] if name in good else bad[name]
            samples.append({"__key__": f"{row:06d}", extension: data, "txt": f"[{name}]".encode()})
        (folder / f"pairs-{number}.tar").write_bytes(tar_of(samples))
    source = {
        "files": "pairs-*.tar",
        "text": "txt",
        "tokenizer": "bytes",
        "media": {field["kind"]: field},
        "over_length": "drop",
        "bad_rows_allowed": len(bad),
    }
    return job_config(folder, {"pairs": source}, **{"context": 256, "bins": 8, **top}), shards


def check_hostile(
    folder: Path, engine: str, good: Media, bad: Media, field: Mapping[str, Any]
) -> dict[str, str]:
    """Every good one arrives once, every bad one is named; gives the reasons by name."""
    config, shards = hostile_config(folder, good, bad, field)
    kind = field["kind"]
    pads = field["tokens"]["count"]
    arrived: Counter[str] = Counter()
    with ol.job(config).train(engine=engine) as loader:
        for batch in loader:
            pieces = pieces_of(batch)
            whole = [piece for piece in pieces if not piece.hole]
            for piece in whole:
                assert np.all(piece.tokens[:pads] == PAD)
                arrived[bytes(piece.tokens[pads:].astype("u1")).decode()] += 1
            media = batch.media.get(kind)
            assert (0 if media is None else len(media)) == len(whole)
            for item in () if media is None else media:
                assert item.dtype == np.uint8 or np.isfinite(item).all()
        notes = loader.quarantine()
    assert arrived == Counter({f"[{name}]": 1 for name in good})
    reasons: dict[str, str] = {}
    for note in notes:
        assert note["source"] == "pairs"
        reason = note["reason"]
        place = re.match(r"source '?pairs'?, shard '?\S+/pairs-(\d+)\.tar'?, row (\d+)", reason)
        assert place is not None, note
        shard, row = int(place[1]), int(place[2])
        assert shard * ROWS_PER_SHARD + row == note["row"], note  # of the source
        name = shards[shard][row]
        assert name not in reasons, (reasons[name], notes)
        reasons[name] = reason
        assert f"media '{kind}'" in reason, (name, reason)
        assert reason.isprintable() and len(reason) < 400, (name, reason)
    assert set(reasons) == set(bad)
    return reasons
