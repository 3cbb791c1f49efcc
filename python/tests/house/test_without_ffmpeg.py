"""A machine that has a build with video and no FFmpeg, as one that only has the wheel.

FFmpeg is hidden from a process by an empty file of its library's name, which is found first.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from corpora import job_config
from PIL import Image
from test_media_video_stream import CLIP, clips_config, made_up_rows
from test_webdataset import tar_of

from overlord import _core as core

VIDEO = next(codec for codec in core.media_codecs() if codec["name"] == "video")
# The state that a job starts with, digests included, or how it is refused; then what doctor says.
ASK = """
import json, sys
import overlord as ol
from overlord._src.checkup.host import check_codecs
try:
    with ol.job(json.loads(sys.argv[1])).train(engine=sys.argv[2]) as loader:
        next(loader)
        told = loader.state_dict()
except ol.ConfigError as error:
    told = f"{type(error).__name__}: {error}"
print(json.dumps([told, check_codecs()[-1].detail], default=str))
"""


@pytest.fixture
def hidden(tmp_path: Path) -> dict[str, str]:
    """An environment in which FFmpeg is not found."""
    folder = tmp_path / "hides"
    folder.mkdir()
    (folder / VIDEO["package"].replace("libavcodec", "libavcodec.so.")).touch()
    return {"LD_LIBRARY_PATH": str(folder)}


def ask(config: dict[str, Any], engine: str, environment: dict[str, str]) -> tuple[Any, str]:
    """State or refusal, and doctor's line."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(config), engine],
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    told, doctor = json.loads(done.stdout)
    return told, doctor


def pictures_config(folder: Path) -> dict[str, Any]:
    """A job over texts with a picture each."""
    encoded = io.BytesIO()
    Image.new("RGB", (28, 28), (200, 30, 60)).save(encoded, "PNG")
    samples = [
        {"__key__": f"{row:06d}", "txt": b"a red square", "png": encoded.getvalue()}
        for row in range(20)
    ]
    (folder / "pictures.tar").write_bytes(tar_of(samples))
    field = {"from": "png", "transform": "normalise; patchify", "tokens": CLIP["tokens"]}
    source = {
        "files": "pictures.tar",
        "text": "txt",
        "tokenizer": "bytes",
        "media": {"image": field},
        "over_length": "drop",
    }
    return job_config(folder, {"s": source}, context=96)


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_job_of_pictures_is_the_same_job(
    tmp_path: Path, hidden: dict[str, str], engine: str
) -> None:
    config = pictures_config(tmp_path)
    without, doctor = ask(config, engine, hidden)
    assert doctor == f"not on this machine; install {VIDEO['package']} (optional)"
    assert isinstance(without, dict)
    assert without == ask(config, engine, {})[0]


@pytest.mark.parametrize("engine", ["embedded", "processes"])
def test_a_job_of_clips_is_refused_by_the_package(
    tmp_path: Path, hidden: dict[str, str], engine: str
) -> None:
    told, _ = ask(clips_config(tmp_path, made_up_rows()), engine, hidden)
    assert isinstance(told, str)
    assert told.startswith("ConfigError") and f"install {VIDEO['package']}" in told
