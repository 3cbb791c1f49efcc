"""Sources that a loader has to work for: text that it tokenises, clips that it decodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overlord._src.corpus.generate import ensure_corpus
from overlord._src.corpus.parameters import WEB, CorpusParameters, SourceShape
from overlord._src.corpus.words import TOKENIZER_VOCABULARY

from overlord_bench import _peers, video
from overlord_bench._contenders.media_stream import write_tar
from overlord_bench._contenders.video_files import names

_CLIPS = {"files": 16, "width": 640, "height": 360}
_STEPS = "sample frames=8; resize width=224 height=224 filter=bilinear"


def jobs(data: Path, pythons: _peers.Pythons) -> dict[str, dict[str, Any]]:
    """Work of one slot of each kind; clips only where they are, or can be written."""
    found = {"text": _text(data)}
    folder = data / f"video-v1-{_CLIPS['width']}x{_CLIPS['height']}-{_CLIPS['files']}"
    work = {**_CLIPS, "folder": str(folder)}
    try:
        video.prepare(pythons, work)
    except RuntimeError:  # no PyAV
        return found
    return found | {"video": _video(work)}


def _text(data: Path) -> dict[str, Any]:
    shape = SourceShape("web", "parquet_text", WEB, 6_000, 4, row_group=250)
    folder = data / "raw-text-v2"
    ensure_corpus(folder, CorpusParameters(seed=7, sources=(shape,)))
    source = {"files": f"{folder}/web/*.parquet", "text": "text", "window_rows": 256}
    return {
        "folder": str(folder),
        "sources": 1,
        "named_sources": {"web": {**source, "tokenizer": "bpe"}},
        "bins": 4,  # so few that a run reads no document twice, which a cache would answer
        "steps_between": 20,
        "prefetch": 2,
        "config": {
            "tokenizers": {"bpe": {"path": f"{folder}/tokenizer.json"}},
            "vocabulary": TOKENIZER_VOCABULARY,
        },
    }


def _video(work: dict[str, Any]) -> dict[str, Any]:
    tar = write_tar(work["folder"] + "/clips.tar", names(work))
    media = {"kind": "video", "from": ["mp4"], "transform": _STEPS}
    source = {"files": tar, "text": "txt", "tokenizer": "bytes", "shuffle": "full"}
    return {
        "folder": work["folder"],
        "sources": 1,
        "named_sources": {
            "clips": {**source, "media": {"media": {**media, "tokens": {"pad": 255, "count": 1}}}}
        },
        "context": 64,
        "bins": 8,
        "steps_between": 8,
        "prefetch": 2,
        "config": {"packing": {"method": "pad"}, "vocabulary": 256, "over_length": "drop"},
    }
