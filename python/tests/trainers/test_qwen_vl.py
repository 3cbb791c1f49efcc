"""Qwen2-VL of transformers: packed documents with pictures have the loss of each fed alone.

Alone they are what the model's own code makes of them: it finds the positions in three planes
itself from tokens and grids, and patches come from its own image processor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import job_config
from overlord._src.corpus.media_files import write_tar
from overlord._src.showing.png import encode_png

import overlord as ol

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")

pytestmark = [pytest.mark.trainers, pytest.mark.deadline(600)]
PAD, BEFORE, AFTER = 300, 301, 302
VOCABULARY = 320
PICTURE = (
    "smart_resize factor=28 min_pixels=3136 max_pixels=12544; normalise "
    "mean=0.48145466,0.4578275,0.40821073 std=0.26862954,0.26130258,0.27577711; patchify"
)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.3,  # far from uniform, so that what is seen counts
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [1, 1, 2],
        },
    }
    vision = {"depth": 1, "embed_dim": 32, "num_heads": 2, "hidden_size": 32, "patch_size": 14}
    config = transformers.Qwen2VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=PAD,
        vision_start_token_id=BEFORE,
        vision_end_token_id=AFTER,
    )
    return transformers.Qwen2VLForConditionalGeneration(config).eval()


def job_of(folder: Path, pictures: list[Any]) -> dict[str, Any]:
    rows = [
        {"png": encode_png(picture), "txt": f"picture {row} {'x' * (row % 5)}".encode()}
        for row, picture in enumerate(pictures)
    ]
    write_tar(folder / "media.tar", rows)
    field = {
        "from": "png",
        "transform": PICTURE,
        "tokens": {"pad": PAD, "before": BEFORE, "after": AFTER},
    }
    source = {
        "files": "media.tar",
        "text": "txt",
        "tokenizer": "bytes",
        "media": {"image": field},
        "over_length": "drop",
    }
    shape = {"context": 128, "vocabulary": VOCABULARY, "align": 4, "at_end": "repeat", "steps": 2}
    delivery = {"microbatch_size": 2}
    return job_config(folder, {"s": source}, **shape, delivery=delivery)


def pictures() -> list[Any]:
    """Of sizes that need no resizing, which may differ by a level from the processor's."""
    dice = np.random.default_rng(5)
    sizes = [(56 + 28 * (row % 2), 84 + 28 * (row % 3 == 0)) for row in range(16)]
    return [dice.integers(0, 256, (*size, 3), np.uint8) for size in sizes]


def test_the_loss_is_that_of_each_document_alone(tmp_path: Path, model: Any) -> None:
    drawn = pictures()
    processor = transformers.Qwen2VLImageProcessor(min_pixels=3136, max_pixels=12544)
    with ol.job(job_of(tmp_path, drawn)).train() as loader:
        batch = next(loader)
        with torch.no_grad():
            found = float(model(**batch.model_inputs("qwen_vl")).loss) * batch.step_target_tokens
    total, media = 0.0, batch.media["image"]
    tokens, targets, weights = (
        array.reshape(-1) for array in (batch.tokens, batch.targets, batch.loss_weights)
    )
    starts, lengths = batch.cu_seqlens_padded, np.diff(batch.cu_seqlens)
    documents = [(s, n) for s, n in zip(starts, lengths, strict=False) if n]
    assert len(documents) > 3
    for number, (start, length) in enumerate(documents):
        part = slice(start, start + length)
        text = bytes(tokens[part][tokens[part] < 256].tolist()).decode()
        picture = processor(images=[drawn[int(text.split()[1])]], return_tensors="pt")
        item = media.documents.tolist().index(number)
        assert picture["image_grid_thw"][0].tolist() == media.grid_thw[item].tolist()
        assert np.abs(picture["pixel_values"].numpy() - media[item]).max() < 1e-5
        ids = torch.from_numpy(tokens[part].astype(np.int64))[None]
        with torch.no_grad():
            alone = model(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                mm_token_type_ids=(ids == PAD).int(),
                use_cache=False,
                **picture,
            )
        each = torch.nn.functional.cross_entropy(
            alone.logits[0], torch.from_numpy(targets[part].astype(np.int64)), reduction="none"
        )
        total += float((each * torch.from_numpy(weights[part].copy())).sum())
    assert found == pytest.approx(total, rel=1e-5)


def test_three_planes_alone_let_documents_see_each_other(tmp_path: Path, model: Any) -> None:
    """Why there are four: the mistake is silent, and it shows."""
    with ol.job(job_of(tmp_path, pictures())).train() as loader:
        inputs = next(loader).model_inputs("qwen_vl")
    with torch.no_grad():
        right = float(model(**inputs).loss)
        wrong = float(model(**{**inputs, "position_ids": inputs["position_ids"][1:]}).loss)
        twice = {k: v for k, v in inputs.items() if k != "shift_labels"}
        shifted = float(model(**{**twice, "labels": inputs["shift_labels"]}).loss)
    assert abs(wrong - right) > 1e-4 * right and abs(shifted - right) > 1e-4 * right
