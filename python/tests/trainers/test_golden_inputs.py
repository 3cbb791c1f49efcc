"""Golden inputs: keys, shapes, types and values that every trainer's form has, byte for byte.

`golden_inputs.json` beside this file was made from the streams of the jobs below by
`PYTHONPATH=python/tests:python/tests/media python python/tests/trainers/test_golden_inputs.py`.
What changes it changes what somebody's trainer is fed: the trainer must want that, and the
CHANGELOG must say so. What each form has to be is written down by hand in `test_inputs_by_hand.py`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import job_config, json_lines
from overlord._src.corpus.media_files import write_tar
from overlord._src.showing.png import encode_png
from test_media_audio import encode, voice

import overlord as ol

torch: Any = pytest.importorskip("torch")
GOLDEN = Path(__file__).with_name("golden_inputs.json")
MOST_VALUES = 512  # of a tensor that is written out; larger ones are digests
PICTURE = "smart_resize factor=16 min_pixels=1024 max_pixels=4096; normalise; patchify patch=8"
SOUND = "mono; resample rate=16000; fit samples=4800; log_mel mels=8 tokens=qwen2_audio"
HYBRID = {"distribute": {"axis": "cp"}, "hybrid": {"model": "llama12b", "capacity": 12}}
MESHES = {"hybrid": "cp=4"}
# Form, its options, and the job whose first batch is asked for it.
FORMS: dict[str, tuple[str, dict[str, Any], str]] = {
    "megatron": ("megatron", {}, "text"),
    "megatron packed": ("megatron", {"packed": True}, "text"),
    "megatron packed, padded": ("megatron", {"packed": "padded"}, "text"),
    "megatron hybrid": ("megatron", {"hybrid": True}, "hybrid"),
    "torchtitan": ("torchtitan", {}, "text"),
    "torchtitan folded": ("torchtitan", {"folded": True}, "text"),
    "torchtitan with pictures": (
        "torchtitan",
        {"folded": True, "mrope": True, "special_tokens": {"image_id": 902}},
        "pictures",
    ),
    "deepspeed": ("deepspeed", {}, "text"),
    "deepspeed pipeline": ("deepspeed", {"pipeline": True}, "text"),
    "verl": ("verl", {}, "text"),
    "verl padded": ("verl", {"padded": True, "pad_token": 3, "max_length": 20}, "text"),
    "automodel": ("automodel", {}, "text"),
    "qwen_vl": ("qwen_vl", {}, "pictures"),
    "qwen_audio": ("qwen_audio", {}, "sounds"),
}


def text_job(folder: Path, stretch: int = 1, **top: Any) -> dict[str, Any]:
    """Documents of 3 to 15 tokens, or longer ones, some of them masked."""
    lengths = [stretch * (3 + 5 * row % 13) for row in range(40)]
    rows = [
        {
            "t": [1 + (row * 31 + place * 7) % 990 for place in range(length)],
            "m": [int((row + place) % 4 > 0) for place in range(length)],
        }
        for row, length in enumerate(lengths)
    ]
    (folder / "text.jsonl").write_bytes(json_lines(rows))
    source = {"files": "text.jsonl", "tokens": "t", "mask": "m", "eod": 999}
    shape = {"context": 32, "align": 2, "at_end": "repeat", "steps": 2}
    delivery = {"microbatch_size": 2}
    return job_config(folder, {"s": source}, **{**shape, "delivery": delivery, **top})


def media_job(
    folder: Path, field: str, rows: list[dict[str, bytes]], told: dict[str, Any]
) -> dict[str, Any]:
    write_tar(folder / "media.tar", rows)
    source = {
        "files": "media.tar",
        "text": "txt",
        "tokenizer": "bytes",
        "media": {field: told},
        "over_length": "drop",
    }
    shape = {"context": 64, "at_end": "repeat", "steps": 2, "delivery": {"microbatch_size": 2}}
    return job_config(folder, {"s": source}, **shape)


def job_of(folder: Path, name: str) -> dict[str, Any]:
    if name == "text":
        return text_job(folder)
    if name == "hybrid":
        return text_job(folder, 2, strategy=HYBRID, delivery={})
    texts = [f"{name} {row} {'x' * (row % 5)}".encode() for row in range(16)]
    if name == "sounds":
        voices = [voice(2000 + 150 * row, 1, 16_000, row) for row in range(16)]
        clips = [encode(samples, 16_000, "WAV", "PCM_16") for samples in voices]
        rows = [{"wav": clip, "txt": text} for clip, text in zip(clips, texts, strict=True)]
        field = {"kind": "audio", "from": "wav", "transform": SOUND}
        return media_job(folder, "audio", rows, {**field, "tokens": {"pad": 900, "before": 901}})
    ramp = np.arange(40 * 48 * 3, dtype=np.uint32).reshape(40, 48, 3)
    drawn = [(ramp * (row + 3) // 7).astype(np.uint8)[: 16 + 8 * (row % 4)] for row in range(16)]
    rows = [
        {"png": encode_png(picture), "txt": text}
        for picture, text in zip(drawn, texts, strict=True)
    ]
    field = {"from": "png", "transform": PICTURE, "tokens": {"pad": 902}}
    return media_job(folder, "image", rows, field)


def told(value: Any) -> Any:
    """A value as it is written down."""
    if isinstance(value, tuple):
        return [told(part) for part in value]
    if not isinstance(value, torch.Tensor):
        return value
    kind = str(value.dtype).removeprefix("torch.")
    if value.is_nested:
        return {"dtype": kind, "jagged": [row.tolist() for row in value.unbind()]}
    out = {"dtype": kind, "shape": list(value.shape)}
    if value.numel() <= MOST_VALUES:
        return {**out, "values": value.tolist()}
    digest = hashlib.blake2b(value.contiguous().numpy().tobytes(), digest_size=16)
    return {**out, "digest": digest.hexdigest()}


def inputs_of(folder: Path, name: str) -> dict[str, Any]:
    form, options, job = FORMS[name]
    with ol.job(job_of(folder, job), mesh=MESHES.get(job)).train(ranks="all") as loaders:
        step = [batch for batches in next(loaders.steps()).values() for batch in batches]
        batch = next(one for one in step if one.hdp is None or len(one.hdp.ranks) > 1)
        return {key: told(value) for key, value in batch.model_inputs(form, **options).items()}


@pytest.mark.parametrize("name", FORMS)
def test_inputs_are_the_checked_in_ones(tmp_path: Path, name: str) -> None:
    expected = json.loads(GOLDEN.read_text())["inputs"][name]
    assert inputs_of(tmp_path, name) == expected


def main() -> None:
    inputs = {}
    for name in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            inputs[name] = inputs_of(Path(folder), name)
    about = "Made by test_golden_inputs.py, which says what it means when these change."
    forms = [
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in keys.items())
        + "\n  }"
        for name, keys in inputs.items()
    ]
    text = ",\n".join(forms)
    GOLDEN.write_text(f'{{\n "about": {json.dumps(about)},\n "inputs": {{\n{text}\n }}\n}}\n')


if __name__ == "__main__":
    main()
